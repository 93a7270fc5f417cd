"""Checks a value against a JSON Schema that a stranger has written, in bounded time and without looking elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry

MAX_STEPS = 50_000
"""How many keywords are looked at: what a worker does in about half a second. References can multiply without end."""
_REFERENCE = 5
"""How many steps it takes to follow a reference."""
_UNCHECKED = ("pattern", "patternProperties", "uniqueItems", "unevaluatedItems", "unevaluatedProperties")
"""Left to whoever has written them: an expression of a stranger's may take for ever, and so may the others."""
_left: ContextVar[int] = ContextVar("steps of a stranger's schema")

Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterator[ValidationError] | None]


def strangers_errors(schema: Mapping[str, Any], value: Any) -> list[ValidationError]:
    """What is wrong with the value. References lead nowhere outside the schema.

    Raises ValueError where the check would take too long, `Unresolvable` for a reference that leads nowhere, and other
    exceptions for what is no JSON Schema.
    """
    _left.set(MAX_STEPS)
    return list(_Bounded(schema, registry=Registry()).iter_errors(value))


def _counted(check: Keyword, steps: int = 1) -> Keyword:
    def counted(validator: Any, keyword: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        left = _left.get()
        if left <= 0:
            raise ValueError(f"the arguments can't be checked in {MAX_STEPS:,} steps")
        _left.set(left - steps)
        return check(validator, keyword, instance, schema)

    return counted


def _unchecked(*_: Any) -> None:
    return None


def _additional(validator: Any, keyword: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
    """Not beside `patternProperties`, whose expressions say which properties are additional."""
    return (
        None if "patternProperties" in schema else _KNOWN["additionalProperties"](validator, keyword, instance, schema)
    )


_KNOWN: Mapping[str, Keyword] = Draft202012Validator.VALIDATORS
_Bounded: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _counted(check, _REFERENCE if name in ("$ref", "$dynamicRef") else 1) for name, check in _KNOWN.items()}
    | dict.fromkeys(_UNCHECKED, _unchecked)
    | {"additionalProperties": _counted(_additional)},
)
