"""Call ids that a model has written, in the error that names the calls of a run."""

from __future__ import annotations

import pytest

from perdure.errors import UnknownCallError
from perdure.tool_results import CallPlace, choose


def test_long_ids_and_those_that_act_on_a_terminal() -> None:
    ids = ["x" * 5000, "a\nb", "\x1b[2J", "turned \u202e round"]
    places = [CallPlace(1, index, id, "work") for index, id in enumerate(ids)]
    with pytest.raises(UnknownCallError) as error:
        choose(places, "other", None)
    text = str(error.value)
    assert len(text) < 500
    assert text.isprintable()
    assert choose(places, ids[0], None) == places[0]
