"""The upstream conformance vectors of one contract, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "prompty"


def vectors(contract: str, operation: str) -> list[Any]:
    """The vectors as pytest parameters, by name; one that skips when the vectors are not there."""
    file = FOLDER / "vectors.json"
    if not file.exists():
        return [
            pytest.param(
                {},
                id="absent",
                marks=pytest.mark.skip(reason="the upstream vectors are not at hand"),
            )
        ]
    cases = json.loads(file.read_text())["vectors"]
    chosen = [
        case["vector"]
        for case in cases
        if (case["contract"], case["operation"]) == (contract, operation)
    ]
    return [pytest.param(vector, id=vector["name"]) for vector in chosen]


def assert_contains(actual: Any, expected: Any, place: str = "") -> None:
    """Every key and item of `expected` is in `actual`; trailing newlines of texts do not count."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in actual, f"{place}.{key} is missing"
            assert_contains(actual[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), place
        for index, value in enumerate(expected):
            assert_contains(actual[index], value, f"{place}[{index}]")
    elif isinstance(expected, str) and isinstance(actual, str):
        assert actual.rstrip("\n") == expected.rstrip("\n"), place
    else:
        assert actual == expected, place
