"""An input from a version to come: every object in it has a field that this version does not
know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

UNKNOWN = {"since": "9.0"}
CLOSED = ("usage", "hooks", "learned_budgets")
"""What can't have such a field: usage is added up, the others are maps of names."""


def with_unknown_fields(value: Any) -> Any:
    """A copy of JSON with a field `later` in every object."""
    if isinstance(value, list):
        return [with_unknown_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {
        key: item if key in CLOSED else with_unknown_fields(item) for key, item in value.items()
    }
    return {**changed, "later": UNKNOWN}


def places_without(value: Any, place: str = "") -> Iterator[str]:
    """Where the JSON has an object that lost its field `later`."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from places_without(item, f"{place}[{number}]")
    if isinstance(value, dict) and value != UNKNOWN:
        if value.get("later") != UNKNOWN:
            yield place
        for key, item in value.items():
            if key not in CLOSED:
                yield from places_without(item, f"{place}.{key}".removeprefix("."))
