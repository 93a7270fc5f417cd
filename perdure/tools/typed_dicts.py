"""Lets pydantic read `typing.TypedDict`, which it refuses before Python 3.12."""

from __future__ import annotations

import types
import typing
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions


def readable(annotation: Any) -> Any:
    """The annotation with every `typing.TypedDict` in it replaced by its equal of `typing_extensions`."""
    if typing.is_typeddict(annotation):
        return _rebuilt(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return reduce(or_, (readable(option) for option in inner))
    if origin is Annotated:
        return Annotated[(readable(inner[0]), *inner[1:])]
    if origin in (list, dict, tuple, set, frozenset):
        return origin[tuple(readable(item) for item in inner)]
    return annotation


def _rebuilt(annotation: Any) -> Any:
    hints = typing.get_type_hints(annotation, include_extras=True)
    required: Any = typing_extensions.Required
    optional: Any = typing_extensions.NotRequired
    members = {
        name: (required if name in annotation.__required_keys__ else optional)[readable(hint)]
        for name, hint in hints.items()
    }
    return typing_extensions.TypedDict(annotation.__name__, members)  # type: ignore[operator]
