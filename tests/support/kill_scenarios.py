"""All conversations that are interrupted by SIGKILL, under way at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from temporalio.client import Client

from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from .dev_server import DevServer
from .kills import (
    HeldConversation,
    Outcome,
    Point,
    Scene,
    conversation,
    tool_that_kills_its_workers,
    undisturbed,
    worker_killed_at,
)
from .server_kill import ServerKill, server_killed
from .workers import Nursery

T = TypeVar("T")

KILLED_AT = [Point("tool", 1), Point("model", 2)]

AT_ONCE = 4
"""Scenarios at once: more would only slow each other down."""


class KillScenarios:
    """What was started, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}
        self.server_kill: asyncio.Task[ServerKill]

    async def outcome(self, name: str) -> Outcome:
        return await asyncio.wait_for(asyncio.shield(self._tasks[name]), 100)

    @classmethod
    @asynccontextmanager
    async def under_way(cls, client: Client, folder: Path) -> AsyncIterator[KillScenarios]:
        scenarios = cls()
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(Nursery())

            turns = asyncio.Semaphore(AT_ONCE)

            async def in_turn(play: Coroutine[Any, Any, T]) -> T:
                async with turns:
                    return await play

            def begin(play: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
                return asyncio.create_task(in_turn(play))

            def stage(
                name: str, script: Script, play: Callable[[Scene], Coroutine[Any, Any, Outcome]]
            ) -> None:
                model = stack.enter_context(ScriptedModel(script))
                held = script if isinstance(script, HeldConversation) else None
                scene = Scene(
                    client,
                    nursery,
                    model,
                    folder,
                    client.service_client.config.target_host,
                    held=held,
                )
                scenarios._tasks[name] = begin(play(scene))

            poisoned = [asks(call("kill_worker", "call_1")), says("That did not go well.")]
            stage("poisoned", poisoned, tool_that_kills_its_workers)
            stage("undisturbed", conversation(), undisturbed)
            paid = [asks(call("pay", "call_1")), says("I do not know whether it was paid.")]
            stage("paid", paid, partial(worker_killed_at, point=Point("tool", 1), tool="pay"))
            victim = await stack.enter_async_context(DevServer(folder / "server.db"))
            scenarios.server_kill = begin(server_killed(victim, nursery, folder))
            for point in KILLED_AT:
                stage(str(point), HeldConversation(point), partial(worker_killed_at, point=point))
            tasks = [*scenarios._tasks.values(), scenarios.server_kill]
            yield scenarios
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
