"""Model calls whose response the provider makes in the background (OpenAI Responses): crashes,
cancellation, loss.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.client import RunHandle
from perdure.errors import RunCancelled

from ..support.background_kills import Heard, is_recorded, play
from ..support.background_responses import INPUT_TOKENS, BackgroundServer
from ..support.commands import ForkedProcess
from ..support.stage import Stage
from ..support.waiting import wait_for
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery() as nursery:
        yield nursery


@dataclass
class Scene:
    """One run whose worker is to be killed."""

    stage: Stage
    nursery: Nursery
    folder: Path
    server: BackgroundServer
    run: RunHandle
    heard: Heard
    reader: asyncio.Task[Heard]
    first: ForkedProcess

    async def until_said(self, words: int) -> None:
        async def has_said() -> bool:
            return bool(self.server.made) and self.server.made[-1].said >= words

        await wait_for(has_said)

    async def until_heard(self) -> None:
        """Until the reader has text: one that comes late misses what a lost attempt has said."""

        async def has_heard() -> bool:
            return bool(self.heard.text) or self.reader.done()

        await wait_for(has_heard)

    async def is_recorded(self) -> bool:
        return await is_recorded(self.stage.client, self.run.id)

    async def worker(self) -> ForkedProcess:
        return await worker_of(self.stage, self.nursery, self.folder)


async def worker_of(stage: Stage, nursery: Nursery, folder: Path) -> ForkedProcess:
    address = stage.client.service_client.config.target_host
    return await nursery.start(
        WorkerJob(address=address, task_queue=stage.task_queue, folder=str(folder))
    )


class Scenes:
    """Runs that are under way at the same time, each with a provider, a queue and workers of its
    own.
    """

    def __init__(self, client: Client, nursery: Nursery, folder: Path, queue: str) -> None:
        self._client, self._nursery, self._folder, self._queue = client, nursery, folder, queue

    @asynccontextmanager
    async def scene(
        self, name: str, *, words: int = 60, created_after: float = 0.0
    ) -> AsyncIterator[Scene]:
        stage = Stage(self._client, f"{self._queue}-{name}")
        with BackgroundServer(words=words, pause=0.05) as server:
            server.created_after = created_after
            first = await worker_of(stage, self._nursery, self._folder)
            run = await stage.start(server.agent(), id=f"{self._queue}-{name}", stream=True)
            heard = Heard()
            reader = asyncio.create_task(heard.follow(run))
            yield Scene(stage, self._nursery, self._folder, server, run, heard, reader, first)
            await stage.replay()


async def test_crashes(client: Client, nursery: Nursery, tmp_path: Path, task_queue: str) -> None:
    scenes = Scenes(client, nursery, tmp_path, task_queue)
    async with asyncio.TaskGroup() as group:
        for play_scene in (
            killed_just_after_the_record,
            killed_in_the_window,
            forgotten,
            cancelled_without_a_worker,
        ):
            group.create_task(play_scene(scenes))
        group.create_task(killed_again_and_again(client, nursery, tmp_path))


async def killed_again_and_again(client: Client, nursery: Nursery, folder: Path) -> None:
    outcome = await play(
        client, nursery, folder, runs=3, kills=2, workers=2, pauses=(1.5, 2.0), seconds=6.0
    )
    assert outcome.kills == 2
    assert outcome.responses == 3
    assert [each.resets for each in outcome.heard] == [0, 0, 0]
    assert [each.result.usage.lost_tokens for each in outcome.heard] == [0, 0, 0]
    assert outcome.paid == sum(each.result.usage.output_tokens for each in outcome.heard)


async def killed_just_after_the_record(scenes: Scenes) -> None:
    async with scenes.scene("recorded") as scene:
        await wait_for(scene.is_recorded, every=0.0)
        scene.first.kill()
        await scene.worker()
        heard = await scene.reader
        assert heard.text == heard.result.output == scene.server.made[0].text
        assert (len(scene.server.made), heard.resets, heard.result.usage.lost_tokens) == (1, 0, 0)
        assert scene.server.paid == scene.server.words == heard.result.usage.output_tokens


async def killed_in_the_window(scenes: Scenes) -> None:
    """The provider has begun, and nobody knows the id yet: what that costs is counted."""
    async with scenes.scene("window", created_after=30.0) as scene:
        await scene.until_said(1)
        scene.first.kill()
        scene.server.created_after = 0.0
        await scene.worker()
        heard = await scene.reader
        assert heard.text == heard.result.output == scene.server.made[1].text
        assert heard.result.usage.lost_tokens == INPUT_TOKENS
        assert heard.result.usage.input_tokens == 2 * INPUT_TOKENS
        (complete,) = [
            each.data for each in await scene.run.events() if each.type == "llm_complete"
        ]
        assert (complete["lostAttempts"], complete["usage"]["lost_tokens"]) == (1, INPUT_TOKENS)


async def forgotten(scenes: Scenes) -> None:
    async with scenes.scene("forgotten") as scene:
        await scene.until_said(20)
        await scene.until_heard()
        scene.first.kill()
        scene.server.forgotten.add("resp_1")
        await scene.worker()
        heard = await scene.reader
        assert heard.text == heard.result.output == scene.server.made[1].text
        assert len(scene.server.made) == 2
        assert heard.resets == 1
        usage = heard.result.usage
        assert INPUT_TOKENS < usage.lost_tokens < INPUT_TOKENS + len(scene.server.made[0].text)
        assert usage.total_tokens == INPUT_TOKENS + scene.server.words + usage.lost_tokens


async def cancelled_without_a_worker(scenes: Scenes) -> None:
    async with scenes.scene("cancelled", words=1000) as scene:
        await scene.until_said(5)
        await wait_for(scene.is_recorded)
        scene.first.kill()
        await scene.run.cancel()
        await scene.worker()
        with pytest.raises(RunCancelled):
            await scene.reader
        assert scene.server.cancelled == ["resp_1"]
        assert scene.server.paid < scene.server.words


async def test_a_cancelled_run_ends_the_response(stage: Stage) -> None:
    with BackgroundServer(words=200, pause=0.02) as server:
        async with stage.worker():
            run = await stage.start(server.agent())

            async def has_said() -> bool:
                return server.paid > 3

            await wait_for(has_said)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
            assert server.cancelled == ["resp_1"]
    await stage.replay()


async def test_a_worker_that_stops_leaves_the_response_to_the_next(stage: Stage) -> None:
    with BackgroundServer(words=100, pause=0.02) as server:
        async with stage.worker():
            run = await stage.start(server.agent())

            async def has_said() -> bool:
                return server.paid > 3

            await wait_for(has_said)
        async with stage.another_worker():
            result = await run.result()
        assert result.output == server.made[0].text
        assert (len(server.made), server.cancelled, result.usage.lost_tokens) == (1, [], 0)
    await stage.replay()


async def test_the_window_in_which_a_crash_costs_tokens_is_short(stage: Stage) -> None:
    windows = []
    async with stage.worker():
        for _ in range(5):
            with BackgroundServer(words=10, pause=0.05) as server:
                run = await stage.start(server.agent(), stream=True)
                await wait_for(partial(is_recorded, stage.client, run.id), every=0.0)
                windows.append(1000 * (time.monotonic() - server.told_at))
                await run.result()
    print(
        "ms from the first event until the id is seen to be recorded:",
        *(round(each, 1) for each in windows),
    )
    assert min(windows) < 1000
