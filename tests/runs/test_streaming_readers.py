"""Readers of streamed text in called runs, beside a person who is waited for, and when another
worker takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure import load
from perdure.client import RunEvent, get_run
from perdure.messages import Message
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import tool
from tests.support.worker_process import WorkerJob
from tests.support.workers import Nursery

from ..support.agents import Scripted, scripted_agent
from ..support.families import calls, family_script, takes, write_agent
from ..support.stage import Stage
from ..support.waiting import asked

WORDS = " ".join(f"word{number}" for number in range(50))
PAUSE = 0.06
SOON = 1.0


@dataclass
class Reader:
    """Somebody who follows a run from now on."""

    texts: dict[tuple[str | None, int], str] = field(default_factory=dict)
    """What is on the screen, by called run and iteration."""
    first_after: float = float("inf")
    """Seconds until the first piece."""
    pieces: int = 0
    resets: int = 0

    async def follow(self, events: AsyncIterator[RunEvent]) -> Reader:
        began = time.monotonic()
        async for event in events:
            place = (event.run_id, event.iteration)
            if event.type == "token":
                self.first_after = min(self.first_after, time.monotonic() - began)
                self.pieces += 1
                self.texts[place] = self.texts.get(place, "") + event.data["token"]
            elif event.type == "text_reset":
                self.resets += 1
                self.texts[place] = ""
        return self


async def requests(model: ScriptedModel, count: int) -> None:
    await asyncio.to_thread(model.wait_until, lambda: len(model.requests) >= count)


async def test_a_called_run_is_read_through_its_caller(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    replies = {
        "chief": [asks(call("clerk", "a", topic="bees")), says("so be it")],
        "clerk": [says(WORDS, chunk_delay=PAUSE)],
    }
    model = scripted(family_script(replies))
    write_agent(tmp_path, "clerk.prompty", model, inputs=takes("topic"), prompt="user:\n{{topic}}")
    chief = load(
        write_agent(
            tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")], prompt="user:\nGo."
        )
    )
    async with stage.worker():
        run = await stage.start(chief, [Message.user("Go.")], stream=True)
        early = asyncio.create_task(Reader().follow(run.stream(children=True)))
        await requests(model, 2)
        await asyncio.sleep(0.5)
        late = await Reader().follow(get_run(stage.client, run.id).stream(children=True))
        seen = [await early, late]
    for reader in seen:
        assert reader.texts == {(f"{run.id}/1-0", 1): WORDS, (None, 2): "so be it"}
        assert (reader.resets, reader.pieces > 4) == (0, True)
    assert late.first_after < SOON


@tool(needs_approval=True)
def pay(text: str = "") -> str:
    return f"paid {text}"


async def test_who_waits_beside_a_person_hears_the_next_call(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks(call("pay", "a", text="7")), says(WORDS, chunk_delay=PAUSE)])
    async with stage.worker([pay]):
        run = await stage.start(scripted_agent(model, ["pay"]), stream=True, stream_seconds=0.3)
        reading = asyncio.create_task(Reader().follow(run.stream()))

        await asked(run)
        await run.approve("a")
        reader = await reading
    assert reader.texts == {(None, 2): WORDS}
    assert (reader.resets, reader.pieces > 1) == (0, True)


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery() as nursery:
        yield nursery


async def test_readers_stay_with_a_worker_that_takes_over(
    stage: Stage, scripted: Scripted, nursery: Nursery, tmp_path: Path
) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        return says(WORDS, chunk_delay=PAUSE if len(model.requests) > 2 else 0.3)

    model = scripted(reply)
    address = stage.client.service_client.config.target_host
    job = WorkerJob(address=address, task_queue=stage.task_queue, folder=str(tmp_path))
    first, agent = await nursery.start(job), scripted_agent(model)
    settings = [{"lost_worker_seconds": 1.0, "stream_seconds": seconds} for seconds in (0.1, 0.4)]
    runs = [await stage.start(agent, stream=True, **each) for each in settings]
    reading = asyncio.gather(*(Reader().follow(run.stream()) for run in runs))
    await requests(model, len(runs))
    await asyncio.sleep(0.8)
    await nursery.start(job)
    first.kill()
    for reader in await reading:
        assert reader.texts == {(None, 1): WORDS}
        assert (reader.resets <= 1, reader.pieces > 1) == (True, True)
