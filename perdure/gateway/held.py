"""Answers requests that wait for a held run with a problem: a run may be held for days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..client import RunHandle, get_run, session
from ..commands import command_line
from ..errors import RunNotFound, SessionError
from ..events import RunEvent
from ..protocol.outcome import Held
from ..protocol.search_attributes import STATUS
from .gateway import FoundRun, Gateway, session_of
from .identity import Identity
from .problems import HttpProblem

T = TypeVar("T")
KIND = "held"
"""The kind of the problem for a held run."""
WHILE_HELD = ("status", "permission_requested")
"""Events that do not indicate a release of the run."""


async def unless_held(
    gateway: Gateway, run_id: str, answer: Awaitable[T], *, since: float | None = None
) -> T:
    """Return the awaited value. Raises `HttpProblem` if the run, or the run before it in its
    session, is held.

    The run is checked after `Gateway.held_seconds` without a value, counted from `since` on the
    loop's clock.
    """
    task = asyncio.ensure_future(answer)
    waited = 0.0 if since is None else asyncio.get_running_loop().time() - since
    try:
        while not (await asyncio.wait({task}, timeout=max(0.0, gateway.held_seconds - waited)))[0]:
            waited = 0.0
            if held := await _held(gateway.client, run_id):
                raise HttpProblem(
                    503, KIND, held_text(run_id, held[0]), headers={"Retry-After": "60"}
                )
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until_held(
    gateway: Gateway, run_id: str, events: AsyncGenerator[RunEvent, None]
) -> AsyncGenerator[RunEvent, None]:
    """Yield the events of the run. Raises `HttpProblem` if it is held and not released in time."""
    clock = asyncio.get_running_loop().time
    since = clock()
    async with aclosing(events):
        while (
            event := await unless_held(gateway, run_id, anext(events, None), since=since)
        ) is not None:
            if event.type not in WHILE_HELD:
                since = clock()
            yield event


async def begun(gateway: Gateway, identity: Identity, run: RunHandle) -> FoundRun:
    """Return the run of a message once it has begun; it may wait for earlier runs. Raises as
    `unless_held` does.
    """
    await unless_held(gateway, run.id, run.status())
    return await gateway.run(identity, run.id)


async def _held(client: Client, run_id: str) -> Sequence[Held]:
    """Return the reason why the run, its child runs, or the run before it in its session are
    held.
    """
    try:
        described = await client.get_workflow_handle(run_id).describe()
        # Temporal bills queries of a run; a description from the server is free.
        is_alone = not described.raw_description.pending_children
        if is_alone and described.typed_search_attributes.get(STATUS) not in (None, "held"):
            return ()
        return (await get_run(client, run_id).status()).held
    except (RunNotFound, SessionError):
        return ()  # The waiting request reports it.
    except RPCError as error:
        before = session_of(run_id)
        if error.status is not RPCStatusCode.NOT_FOUND or not before:
            return ()
    return await _held_before(client, before)


async def _held_before(client: Client, id: str) -> Sequence[Held]:
    try:
        return (await session(client, None, id).status()).held
    except (RunNotFound, SessionError, RPCError):
        return ()


def held_text(run_id: str, held: Held) -> str:
    """Return the text for a held run, with the command that releases it."""
    run = held.run_id or run_id
    return (
        f"the run {run} is held ({held.reason}): {held.why}. Once this is fixed: "
        f"{command_line('go-on', run)}"
    )
