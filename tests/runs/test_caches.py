"""What a provider's cache gives, by its published rules: `benchmarks.bench_caches` in short."""

from __future__ import annotations

import asyncio

from benchmarks.bench_caches import APIS, look_up
from benchmarks.cache_server import CacheServer
from perdure.messages import Message

from ..support.stage import Stage


async def test_another_worker_and_a_steering_message_send_the_same_prefix(stage: Stage) -> None:
    with CacheServer() as server:
        agent = APIS[0].agent(server.url, None, rounds=8, calls=1)
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
