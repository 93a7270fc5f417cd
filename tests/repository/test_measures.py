"""The package's names and sizes keep to the limits of `measures.py`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .house import ROOT, listed
from .measures import (
    FEATURE,
    GUIDE,
    MAX_DENSITY,
    MEASURES,
    Measure,
    budgets,
    constants,
    density,
    files_of_features,
    nodes_of_features,
    nodes_of_rooms,
)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_measures_keep_to_their_limits(measure: Measure) -> None:
    assert measure.is_met, listed(f"{measure}: {measure.advice}", measure.places)


def test_a_line_has_one_thought() -> None:
    assert density() <= MAX_DENSITY


def test_each_room_has_a_budget() -> None:
    assert budgets().keys() == nodes_of_rooms().keys()


def test_each_feature_has_its_files_and_its_page() -> None:
    files = files_of_features()
    assert [name for name, found in files.items() if not found] == [], "patterns that match nothing"
    twice = [path for path, count in Counter(sum(files.values(), [])).items() if count > 1]
    assert not twice, listed("a file carries one feature", twice)
    assert [
        row["page"]
        for row in FEATURE.finditer(GUIDE.read_text())
        if not _page(row["page"]).exists()
    ] == []


def test_the_figures_of_features_are_nearly_true() -> None:
    shown = {
        row["name"]: int(row["nodes"].replace(",", ""))
        for row in FEATURE.finditer(GUIDE.read_text())
    }
    wrong = [
        name for name, nodes in nodes_of_features().items() if abs(shown[name] - nodes) > nodes / 10
    ]
    assert not wrong, listed("run `python -m tests.repository.measures budgets`", wrong)


def _page(link: str) -> Path:
    return ROOT / link.partition("](")[2]


def test_constants_are_listed_in_their_order() -> None:
    seconds = [value for unit, value, _ in constants() if unit == "s"]
    assert len(seconds) > 20
    assert seconds == sorted(seconds)
