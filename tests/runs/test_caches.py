"""What providers' caches give, by their published rules: `benchmarks.bench_caches` in short."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from benchmarks.bench_caches import APIS, Api, Work, look_up, share_of, usages
from benchmarks.cache_server import CacheServer
from perdure.messages import Message, Usage
from perdure.options import RunOptions

from ..support.stage import Stage

CLAUDE, OLD, NEW = APIS[0], APIS[1], APIS[4]
BUDGET = RunOptions(context_budget=30_000)
CASES = [
    (CLAUDE, Work("iterations", 8), 0.8),
    (NEW, Work("budget", 16, options=BUDGET), 0.8),
    (OLD, Work("turns", 1, turns=4), 0.8),
    (NEW, Work("prompted", 6, options=RunOptions(tool_protocol="json")), 0.8),
]
"""Less is to be expected than in the benchmark: these are short."""


async def used(
    client: Client, stage: Stage, api: Api, work: Work, server: CacheServer, **more: Any
) -> list[Usage]:
    agent = api.agent(
        server.url, more.get("prompt_cache", api.after), rounds=work.rounds, calls=work.calls
    )
    return await usages(
        client, stage.task_queue, agent, work, work.options_for(more.get("trim_to", 0.6))
    )


@pytest.mark.parametrize(
    ("api", "work", "least"), CASES, ids=[f"{work.label}, {api.label}" for api, work, _ in CASES]
)
async def test_most_of_the_input_comes_from_the_cache(
    client: Client, stage: Stage, api: Api, work: Work, least: float
) -> None:
    with CacheServer() as server:
        async with stage.worker([look_up]):
            counted = await used(client, stage, api, work, server)
    assert share_of(counted) >= least


async def test_another_worker_and_a_steering_message_send_the_same_prefix(stage: Stage) -> None:
    with CacheServer() as server:
        agent = CLAUDE.agent(server.url, None, rounds=8, calls=1)
        conversation = [
            Message.system(agent.instructions.removeprefix("system:\n")),
            Message.user("Go on."),
        ]
        async with (
            stage.worker([look_up]),
            stage.another_worker([look_up], conversation_cache_bytes=0),
        ):
            run = await stage.start(agent, conversation, max_iterations=20)
            while len(server.tokens) < 4:
                await asyncio.sleep(0.02)
            await run.steer("Go on.")
            result = await run.result()
    assert all(tokens.read > tokens.plain for tokens in server.tokens[1:])
    assert result.usage.cache_share > 0.7
