"""What workers do to an operator's day: they lack tools, have others than before, and are killed
for their memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from perdure.testing import ScriptedModel, asks, says
from perdure.testing.script import Script

from ..support.day import Day, day
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
OTHER = "def other() -> str:\n    return ''\n"
HUNGRY = """\
import os, resource, signal, time

from perdure import ToolContext


def note(context: ToolContext) -> str:
    with open(os.environ["DIARY"], "a") as diary:
        diary.write(f"{context.run_id} {context.call_id}\\n")
    if context.run_id != "operated-0":
        time.sleep(3)
        return "noted"
    time.sleep(1)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    eaten = []
    try:
        while True:
            eaten.append(bytearray(64 << 20) if len(eaten) < 4 else bytes(1 << 40))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
"""


async def scripted_note(scripted: Scripted) -> ScriptedModel:
    return scripted(lambda request: asks("note") if request.step == 0 else says("done"))


async def until_status_says(it: Day, text: str) -> str:
    """What `perdure status` says of the first run, once it says that."""

    async def said() -> str:
        status = await it.first_status()
        return status if text in status else ""

    return await wait_for(said)


async def test_a_worker_that_is_killed_for_its_memory(tmp_path: Path, scripted: Scripted) -> None:
    """Its calls may not be repeated: each model is told that nobody knows, and no run waits for
    anybody.
    """
    model = await scripted_note(scripted)
    async with day(tmp_path) as it:
        async with it.worker(HUNGRY) as worker:
            await it.start(model, 2)
            assert await asyncio.to_thread(worker.wait, 60) == -9
            assert "perdure worker --task-queue day" in await until_status_says(
                it, "have not taken up its next step"
            )
        async with it.worker(HUNGRY):
            results = await asyncio.gather(*(run.result() for run in it.runs))
        assert it.log.read_text().count("does not know the outcome of the call call_note") == 2
        told = [
            message.text
            for result in results
            for message in result.messages
            if message.role == "tool"
        ]
        assert [result.output for result in results] == ["done", "done"]
        assert all("its worker was lost" in text for text in told), told
        assert set(Counter(it.diary.read_text().split()[::2]).values()) == {1}
