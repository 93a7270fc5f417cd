"""How long something takes, for people."""

from __future__ import annotations

import pytest

from perdure.text import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *(
            (0.0, "0 ms"),
            (0.34, "340 ms"),
            (0.9996, "1.0 s"),
            (59.94, "59.9 s"),
            (59.96, "1 min"),
            (94, "1 min 34 s"),
        ),
        *(
            (3600, "1 h"),
            (3599.7, "1 h"),
            (3601, "1 h"),
            (183_600, "2 d 3 h"),
            (86_400 * 90, "90 d"),
        ),
    ],
)
def test_times_in_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
