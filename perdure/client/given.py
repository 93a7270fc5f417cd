"""Tells which arguments a caller has written, where one that is left out and its default do not mean the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec

from typing_extensions import TypeVar

P = ParamSpec("P")
T = TypeVar("T", default=Any)

_given: ContextVar[frozenset[str]] = ContextVar("perdure_given", default=frozenset())


def noting_given(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine function, which may ask `given` before it awaits anything. Raises what it raises."""

    @functools.wraps(function)
    async def call(*arguments: P.args, **named: P.kwargs) -> T:
        token = _given.set(frozenset(named))
        try:
            return await function(*arguments, **named)
        finally:
            _given.reset(token)

    return call


def given(**values: Any) -> dict[str, Any]:
    """Those of the values whose names the caller has written."""
    return {name: value for name, value in values.items() if name in _given.get()}
