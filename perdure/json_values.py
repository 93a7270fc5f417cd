"""What an asset may consist of: values with a JSON form, within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .errors import LoadError
from .prompty.places import Place, dotted

MAX_DEPTH = 64
MAX_VALUES = 20_000
"""Values of one asset, aliases and references followed: what a file that multiplies itself runs into."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def json_value(value: Any, place: Place = ()) -> Any:
    """A copy made of dict, list, str, int, float, bool and None only. Raises LoadError, naming the place."""
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
        return "half of a surrogate pair stands for no character" if _LONE_SURROGATE.search(scalar) else None
    if isinstance(scalar, float) and not math.isfinite(scalar):
        return f"{scalar!r} is no number that JSON can carry"
    if scalar is None or isinstance(scalar, int | float):
        return None
    return f"a {type(scalar).__name__} has no JSON form"


def _key(key: Any, place: Place) -> str:
    reason = why_no_json(key) if isinstance(key, str) else f"the key {key!r} must be a text"
    if reason:
        raise LoadError(reason, field=dotted(place))
    return str(key)
