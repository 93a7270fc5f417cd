"""Clients of cloud storage that are opened at their first use, one in each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any
from weakref import WeakKeyDictionary

_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[tuple[Any, AsyncExitStack]]]]
_opened = WeakKeyDictionary()


async def client_of(kind: str, open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> Any:
    """The running event loop's client of that kind. Raises what opening it raises; the next call tries again."""
    clients = _opened.setdefault(asyncio.get_running_loop(), {})
    if kind not in clients:
        clients[kind] = asyncio.create_task(_open(open_client))
    opening = clients[kind]
    try:
        client, _ = await asyncio.shield(opening)
    except BaseException:
        if opening.done():
            clients.pop(kind, None)
        raise
    return client


async def close_storage() -> None:
    """Close the clients that the running event loop has used; the next use opens a new one."""
    for opening in _opened.pop(asyncio.get_running_loop(), {}).values():
        _, resources = await opening
        await resources.aclose()


async def _open(open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> tuple[Any, AsyncExitStack]:
    resources = AsyncExitStack()
    return await resources.enter_async_context(open_client()), resources
