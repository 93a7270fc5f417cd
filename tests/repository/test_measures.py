"""The package's names and sizes keep to the limits of `measures.py`."""

from __future__ import annotations

import pytest

from .house import listed
from .measures import MAX_DENSITY, MEASURES, Measure, budgets, constants, density, nodes_of_rooms


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_measures_keep_to_their_limits(measure: Measure) -> None:
    assert measure.is_met, listed(f"{measure}: {measure.advice}", measure.places)


def test_a_line_has_one_thought() -> None:
    assert density() <= MAX_DENSITY


def test_each_room_has_a_budget() -> None:
    assert budgets().keys() == nodes_of_rooms().keys()


def test_constants_are_listed_in_their_order() -> None:
    seconds = [value for unit, value, _ in constants() if unit == "s"]
    assert len(seconds) > 20
    assert seconds == sorted(seconds)
