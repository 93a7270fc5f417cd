"""Many runs, while workers and the server are killed at random moments."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.testing import ScriptedModel, ScriptedReply

from ..support.agents import scripted_agent, tool_texts
from ..support.dev_server import DevServer
from ..support.kills import Scene, conversation
from ..support.workers import Nursery

RUNS = 12
WORKERS = 3
ROUNDS = 10
SECONDS_BETWEEN_KILLS = (1.0, 4.0)


def unhurried() -> list[ScriptedReply]:
    return [
        reply.model_copy(update={"delay": 0.5})
        for reply in conversation(5)
        if isinstance(reply, ScriptedReply)
    ]


@asynccontextmanager
async def runs(
    client: Client, nursery: Nursery, folder: Path, address: str
) -> AsyncIterator[list[Scene]]:
    """Runs on one queue, all under way; at the end, each has ended as if nothing had happened."""
    with ExitStack() as models:
        scenes = [
            Scene(
                client, nursery, models.enter_context(ScriptedModel(unhurried())), folder, address
            )
            for _ in range(RUNS)
        ]
        for scene in scenes:
            await scene.start(
                scripted_agent(scene.model, ["step"]), task_queue=scenes[0].id, max_llm_retries=10
            )
        yield scenes
        outcomes = await asyncio.gather(*[scene.outcome() for scene in scenes])
        for outcome in outcomes:
            assert outcome.result.output == "All done."
            assert outcome.result.messages == outcomes[0].result.messages
            assert tool_texts(outcome.result.messages) == [
                f"step {number} done" for number in range(1, 6)
            ]


def pause() -> float:
    return random.uniform(*SECONDS_BETWEEN_KILLS)


@pytest.mark.timeout(600)
async def test_workers_come_and_go(client: Client, nursery: Nursery, tmp_path: Path) -> None:
    async with runs(client, nursery, tmp_path, client.service_client.config.target_host) as scenes:
        workers = [await scenes[0].worker() for _ in range(WORKERS)]
        for _ in range(ROUNDS):
            await asyncio.sleep(pause())
            workers.pop(random.randrange(WORKERS)).kill()
            workers.append(await scenes[0].worker())


@pytest.mark.timeout(600)
async def test_both_come_and_go(nursery: Nursery, tmp_path: Path) -> None:
    async with (
        DevServer(tmp_path / "server.db") as server,
        runs(server.client, nursery, tmp_path, server.address) as scenes,
    ):
        workers = [await scenes[0].worker() for _ in range(WORKERS)]
        for _ in range(ROUNDS // 2):
            await asyncio.sleep(pause())
            await server.kill()
            workers.pop(random.randrange(WORKERS)).kill()
            await server.start()
            workers.append(await scenes[0].worker())
