"""Compares a tool function's parameters with those at a run's start, so that recorded calls still fit their code."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..schema import value_digest
from ..tool_calls import RecordedSignature
from .declaration import declaration_line, declaration_of, place_of
from .signature import MISSING, signature_of

Function = Callable[..., Any]
_DESCRIPTIONS = frozenset({"title", "description", "examples"})
_BY_NAME = frozenset({"properties", "$defs"})
_VALUES = frozenset({"default", "const", "enum"})


def recorded_signature(function: Function, *, without: Iterable[str] = ()) -> RecordedSignature:
    """Return the function's current parameters, for a run's inventory; `without` as in `completed_declaration`."""
    try:
        return _remembered_signature(function, frozenset(without))
    except TypeError:  # a callable object that can't be a key
        return _read_signature(function, frozenset(without))


def _read_signature(function: Function, without: frozenset[str]) -> RecordedSignature:
    signature = signature_of(function)
    taken = {name: each for name, each in signature.parameters.items() if name not in without}
    schemas = {name: _bare(each.adapter.json_schema()) if each.adapter else {} for name, each in taken.items()}
    defaults = {name: value_digest(_json(each.default)) for name, each in taken.items() if each.default is not MISSING}
    return RecordedSignature(
        declaration=declaration_line("", declaration_of(function, without).parameters or []),
        digests={name: value_digest([schemas[name], defaults.get(name)]) for name in taken},
        takes_anything=signature.takes_anything,
        defaults=defaults,
    )


_remembered_signature = lru_cache(maxsize=4096)(_read_signature)


def signature_change(
    name: str,
    recorded: RecordedSignature,
    function: Function,
    *,
    without: Iterable[str] = (),
    bound: Container[str] = (),
) -> str | None:
    """Return the parameters that no longer fit the run's calls, with both declarations; None if all fit, and further
    ones are optional or `bound` to inputs of the run.
    """
    now = recorded_signature(function, without=without)
    then = recorded.digests
    changed = [each for each, digest in then.items() if digest != now.digests.get(each)]
    changed += [each for each in now.digests if each not in {*then, *now.defaults} and each not in bound]
    if not changed and now.takes_anything >= recorded.takes_anything:
        return None
    return (
        f"The function of tool '{name}' takes other arguments here than when the run began"
        f"{': ' * bool(changed)}{', '.join(map(repr, changed))}. "
        f"Then it was {name}{recorded.declaration}, here it is {name}{now.declaration} in {place_of(function)}"
    )


def _bare(schema: Any, *, by_name: bool = False) -> Any:
    """Return the schema without purely descriptive fields."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in _VALUES and not by_name else _bare(value, by_name=name in _BY_NAME and not by_name)
        for name, value in schema.items()
        if by_name or name not in _DESCRIPTIONS
    }


def _json(value: Any) -> Any:
    """Return the value in JSON, else its type's name."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=lambda each: type(each).__qualname__)
    except (PydanticSerializationError, ValueError, RecursionError):
        return type(value).__qualname__
    return sorted(plain, key=json.dumps) if isinstance(value, set | frozenset) else plain
