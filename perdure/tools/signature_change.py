"""Compares a tool function's parameters with those at a run's start, so that recorded calls still
fit their code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ..schema import value_digest
from ..tool_calls import RecordedSignature
from .declaration import declaration_line, declaration_of, place_of
from .signature import signature_of

Function = Callable[..., Any]
_DESCRIPTIONS = ("title", "description")


def recorded_signature(function: Function, *, without: Iterable[str] = ()) -> RecordedSignature:
    """Return the function's current parameters, for a run's inventory; `without` as in
    `completed_declaration`.
    """
    try:
        return _remembered_signature(function, frozenset(without))
    except TypeError:  # a callable object that can't be a key
        return _read_signature(function, frozenset(without))


def _read_signature(function: Function, without: frozenset[str]) -> RecordedSignature:
    declared, taken = declaration_of(function, without).parameters or [], signature_of(function)
    adapters = [each.adapter for name, each in taken.parameters.items() if name not in without]
    types = [_without_descriptions(each.json_schema()) if each else None for each in adapters]
    return RecordedSignature(
        declaration=declaration_line("", declared),
        names=[each.name for each in declared],
        digest=value_digest(
            [types, [[each.name, each.required, each.default] for each in declared]]
        ),
        takes_anything=taken.takes_anything,
        defaults={each.name: value_digest(each.default) for each in declared if not each.required},
    )


_remembered_signature = lru_cache(maxsize=4096)(_read_signature)


def signature_change(
    name: str, recorded: RecordedSignature, function: Function, *, without: Iterable[str] = ()
) -> str | None:
    """Return a text with both declarations if the function no longer takes the arguments that the
    run's calls have; None if it does.
    """
    now = recorded_signature(function, without=without)
    if (now.digest, now.takes_anything) == (recorded.digest, recorded.takes_anything):
        return None
    return (
        f"The function of tool '{name}' takes other arguments here than when the run began. "
        f"Then it was {name}{recorded.declaration}, here it is {name}{now.declaration} in "
        f"{place_of(function)}"
    )


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: each
            for name, each in value.items()
            if name not in _DESCRIPTIONS or not isinstance(each, str)
        }
        return {name: _without_descriptions(each) for name, each in kept.items()}
    return [_without_descriptions(each) for each in value] if isinstance(value, list) else value
