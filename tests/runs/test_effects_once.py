"""A few runs whose workers are killed at random moments; `make chaos` has 200 of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.testing import ScriptedModel

from ..support.effects_once import Crowd, check, conversation, ledger, results
from ..support.kinds_once import KINDS, play
from ..support.workers import Nursery


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery() as nursery:
        yield nursery


async def test_no_effect_comes_twice(
    client: Client, nursery: Nursery, tmp_path: Path, address: str, task_queue: str
) -> None:
    crowd, ids = (
        Crowd(client, nursery, tmp_path, address, task_queue),
        [f"{task_queue}-{n}" for n in range(4)],
    )
    with ExitStack() as models, ledger() as kept:
        async with crowd.killing(2, (0.3, 0.8)) as kills:
            scripts = [
                models.enter_context(ScriptedModel(conversation(id, rounds=1))) for id in ids
            ]
            runs = [
                await crowd.start(model, kept, id) for model, id in zip(scripts, ids, strict=True)
            ]
            while len(kills) < 2:
                await asyncio.sleep(0.05)
        await crowd.worker()
        for ended in await asyncio.gather(*(run.result() for run in runs)):
            assert ended.output == "All done."
            assert results(ended.messages) == 8
        check(crowd, kept, ids)


@pytest.mark.trial
async def test_no_effect_of_any_kind_of_tool_comes_twice(
    client: Client, nursery: Nursery, tmp_path: Path, address: str, task_queue: str
) -> None:
    crowd = Crowd(client, nursery, tmp_path, address, task_queue)
    assert await play(crowd, KINDS, kills=1, at_once=1, rounds=2, pauses=(1.0, 2.0)) > 2
