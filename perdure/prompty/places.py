"""Names the place of a value in an asset, and walks through nested values with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..json_values import Place as Place
from ..json_values import dotted as dotted


def pointer(place: Place) -> str:
    """The place as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)


def last_name(place: Place) -> str:
    """The innermost step that is a name rather than an index; "" when there is none."""
    return next((step for step in reversed(place) if isinstance(step, str)), "")


def strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Each string in nested maps and lists, except keys, with its place."""
    if isinstance(value, str):
        yield place, value
    for step, child in _children(value):
        yield from strings(child, (*place, step))


def map_strings(value: Any, change: Callable[[Place, str], Any], place: Place = ()) -> Any:
    """A copy of nested maps and lists in which `change` has replaced every string. Raises what `change` raises."""
    if isinstance(value, str):
        return change(place, value)
    if isinstance(value, Mapping):
        return {key: map_strings(child, change, (*place, key)) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [map_strings(child, change, (*place, index)) for index, child in enumerate(value)]
    return value


def maps_in(value: Any, place: Place = ()) -> list[tuple[Place, Mapping[str, Any]]]:
    """The maps in a list, each with its place; [] for a value that is not a list."""
    items = enumerate(value) if isinstance(value, list) else ()
    return [((*place, index), item) for index, item in items if isinstance(item, Mapping)]


def nearest(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of the place, or of the closest enclosing value whose line is known."""
    for end in range(len(place), -1, -1):
        if place[:end] in lines:
            return lines[place[:end]]
    return None


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from enumerate(value)
