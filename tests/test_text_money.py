"""Amounts as people read them."""

from __future__ import annotations

import pytest

from perdure.text import format_usd


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.031, "$0.031"),
        (0.5, "$0.50"),
        (0.0999, "$0.10"),
        (0.00012, "$0.00012"),
        (1.2e-8, "$0.000000012"),
        (0, "$0.00"),
        (12.4, "$12.40"),
        (1234.5, "$1,234.50"),
        (None, ""),
    ],
)
def test_an_amount(amount: float | None, text: str) -> None:
    assert format_usd(amount) == text


def test_one_that_lacks_calls_is_a_least_one() -> None:
    assert format_usd(0.5, unpriced=2) == "at least $0.50"
    assert format_usd(None, unpriced=2) == ""
