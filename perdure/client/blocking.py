"""Coroutine functions as plain ones, for callers that have no event loop or are in the middle of one."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from typing_extensions import TypeVar

P = ParamSpec("P")
T = TypeVar("T", default=Any)


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A plain function with the parameters of a coroutine function named `…_async`; it waits for the result.

    May be called in a thread whose event loop is running. Raises what the coroutine raises.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        return wait_for_result(function(*arguments, **named))

    call.__name__ = call.__qualname__ = function.__name__.removesuffix("_async")
    call.__doc__ = f"`{function.__name__}`, waited for: works also in a thread whose event loop is running.\n\n    "
    call.__doc__ += function.__doc__ or ""
    return call


def wait_for_result(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, from an event loop of its own; in another thread when this one's loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _in_another_thread(coroutine)


def _in_another_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="perdure-blocking-call")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
