"""Requests that wait for a held run get an answer that says so: it may be held for days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from temporalio.client import Client

from ..client import get_run, session
from ..commands import command_line
from ..errors import RunNotFound, SessionError
from ..events import RunEvent
from .gateway import Gateway
from .problems import HttpProblem

T = TypeVar("T")
HELD_SECONDS = 15.0
"""A run that goes on within this time is waited for."""
_WHILE_HELD = ("status", "permission_requested")
"""Events that do not say that the run goes on."""


def _patience(gateway: Gateway) -> float:
    return min(HELD_SECONDS, gateway.stream_seconds)


async def unless_held(gateway: Gateway, run_id: str, answer: Awaitable[T]) -> T:
    """Return what is awaited. Raises `HttpProblem` where the run, or the one of its session before it, is held."""
    task = asyncio.ensure_future(answer)
    try:
        while not (await asyncio.wait({task}, timeout=_patience(gateway)))[0]:
            await _require_not_held(gateway.client, run_id)
        return task.result()
    finally:
        task.cancel()


async def until_held(
    gateway: Gateway, run_id: str, events: AsyncGenerator[RunEvent, None]
) -> AsyncGenerator[RunEvent, None]:
    """Yield the events of the run. Raises `HttpProblem` where it is held, and does not go on in time."""
    held: RunEvent | None = None
    async with aclosing(events):
        while found := await _next(gateway, run_id, events, held):
            if found[0].type not in _WHILE_HELD:
                held = found[0] if found[0].type == "held" else None
            yield found[0]


async def _next(
    gateway: Gateway, run_id: str, events: AsyncGenerator[RunEvent, None], held: RunEvent | None
) -> list[RunEvent]:
    """Return the next event; [] after the last."""
    try:
        async with asyncio.timeout(_patience(gateway) if held else None):
            return [await anext(events)]
    except StopAsyncIteration:
        return []
    except TimeoutError:
        if held is None:
            raise
        raise _problem(run_id, held.data["reason"], held.data["message"]) from None


async def _require_not_held(client: Client, run_id: str) -> None:
    before, slash, turn = run_id.rpartition("/")
    try:
        if slash and turn.isdecimal():
            run_id = (await session(client, None, before).status()).run_id or run_id
        status = await get_run(client, run_id).status()
    except (RunNotFound, SessionError):
        return  # Whoever waits for it is told.
    if status.held:
        raise _problem(run_id, status.held[0].reason, status.held[0].why)


def _problem(run_id: str, reason: str, why: str) -> HttpProblem:
    text = f"the run {run_id} is held ({reason}): {why}. Once that is mended: {command_line('go-on', run_id)}"
    return HttpProblem(503, "held", text, headers={"Retry-After": "60"})
