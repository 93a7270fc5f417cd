"""Which values of an asset have a JSON form within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from .errors import LoadError

Place: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the top of an asset to a value."""

MAX_DEPTH = 64
"""Levels of nesting."""
MAX_VALUES = 20_000
"""Values of one asset, with aliases and references followed: the limit that a file which multiplies itself reaches."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def dotted(place: Place) -> str:
    """The place as an author reads it, such as `model.connection.endpoint` or `inputs[0].kind`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def json_value(value: Any, place: Place = ()) -> Any:
    """A copy made of dict, list, str, int, float, bool and None only.

    Raises `LoadError`, which names the place, for a value without a JSON form and for one that is nested too deeply.
    """
    if len(place) > MAX_DEPTH:
        raise LoadError(f"nested deeper than {MAX_DEPTH} levels", field=dotted(place[:3]) + "…")
    if isinstance(value, Mapping):
        return {_key(key, place): json_value(child, (*place, str(key))) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(child, (*place, index)) for index, child in enumerate(value)]
    reason = why_no_json(value)
    if reason:
        raise LoadError(reason, field=dotted(place))
    return value


def why_no_json(scalar: Any) -> str | None:
    """Why the scalar has no JSON form; None when it has one."""
    if isinstance(scalar, str):
        return "half of a surrogate pair is not a character" if _LONE_SURROGATE.search(scalar) else None
    if isinstance(scalar, float) and not math.isfinite(scalar):
        return f"{scalar!r} is not a number that JSON can express"
    if scalar is None or isinstance(scalar, int | float):
        return None
    return f"a {type(scalar).__name__} has no JSON form"


def _key(key: Any, place: Place) -> str:
    reason = why_no_json(key) if isinstance(key, str) else f"the key {key!r} must be a string"
    if reason:
        raise LoadError(reason, field=dotted(place))
    return str(key)
