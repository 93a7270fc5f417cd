"""Coroutine functions as plain ones, for callers that have no event loop or are in the middle of one."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, ParamSpec, cast

from typing_extensions import TypeVar

from ..tools.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T", default=Any)
U = TypeVar("U")


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A plain function with the parameters of a coroutine function named `…_async`; it waits for the result.

    Where that is an async generator, it is a plain one here.
    May be called in a thread whose event loop is running. Raises what the coroutine raises.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        result = wait_for_result(function(*arguments, **named))
        return cast(T, _iterated(result)) if isinstance(result, AsyncGenerator) else result

    call.__name__ = call.__qualname__ = function.__name__.removesuffix("_async")
    call.__doc__ = f"`{function.__name__}`, waited for: works also in a thread whose event loop is running.\n\n    "
    call.__doc__ += function.__doc__ or ""
    return call


def _iterated(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items, from an event loop in another thread, which goes on while the caller does something with an item."""
    thread = LoopThread("perdure-blocking-call", "the event loop of a blocking call")

    def wait(coroutine: Coroutine[Any, Any, U]) -> U:
        return asyncio.run_coroutine_threadsafe(coroutine, thread.loop).result()

    async def next_item() -> list[T]:
        try:
            return [await anext(items)]
        except StopAsyncIteration:
            return []

    try:
        while item := wait(next_item()):
            yield from item
    finally:
        wait(items.aclose())
        wait_for_result(thread.close())


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
