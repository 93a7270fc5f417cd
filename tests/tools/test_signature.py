"""Plain and async functions told apart, whatever form they have."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from perdure.tools.signature import is_async


def plain(text: str = "") -> str:
    return text


async def later(text: str = "") -> str:
    return text


class Plain:
    def __call__(self, text: str = "") -> str:
        return text

    def method(self) -> None: ...


class Later:
    async def __call__(self, text: str = "") -> str:
        return text

    async def method(self) -> None: ...

    @staticmethod
    async def static() -> None: ...


def waiting(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Makes an async function a plain one, which runs it to its end."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        async def run() -> Any:
            return await function(*arguments)

        return asyncio.run(run())

    return wrapper


def awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize(
    "function",
    [
        later,
        partial(later, "a"),
        partial(partial(later), text="a"),
        Later(),
        partial(Later(), "a"),
        Later().method,
        Later.static,
        awaitable(plain),
    ],
)
def test_async_is(function: Callable[..., Any]) -> None:
    assert is_async(function)


@pytest.mark.parametrize(
    "function",
    [
        plain,
        lambda: later(),
        partial(plain, "a"),
        Plain(),
        partial(Plain()),
        Plain().method,
        Later,
        max,
        waiting(later),
    ],
)
def test_plain_is(function: Callable[..., Any]) -> None:
    assert not is_async(function)
