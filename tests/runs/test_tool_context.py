"""What a tool says and asks while it is executed: progress, its log, whether the run was
cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from typing import Any

import pytest

from perdure import ToolContext
from perdure.client import RunEvent, get_run
from perdure.errors import RunCancelled
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.tools import KindCall, Offering, ToolKind

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage

WORK: JsonObject = {"name": "work", "kind": "function", "parameters": []}


class Steps:
    """A tool that reports three steps, each when it is allowed to."""

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)

    def __call__(self, context: ToolContext) -> str:
        for number in (1, 2, 3):
            context.progress(number, 3, f"step {number}")
            self.allowed.acquire()
        return "done"


def progress(events: list[RunEvent]) -> list[JsonObject]:
    return [event.data for event in events if event.type == "tool_progress"]


def told(number: float, name: str = "work") -> JsonObject:
    return {
        "name": name,
        "callId": f"call_{name}",
        "done": number,
        "total": 3,
        "text": f"step {number}",
    }


async def test_progress_is_seen_while_the_tool_works(stage: Stage, scripted: Scripted) -> None:
    work = Steps()
    events: list[RunEvent] = []
    async with stage.worker({"work": work}):
        model = scripted([asks(call("work", "call_work")), says("over")])
        run = await stage.start(scripted_agent(model, [WORK]), stream=True)
        async for event in run.stream():
            events.append(event)
            if event.type == "tool_progress":
                work.allowed.release()
        recorded = await get_run(stage.client, run.id).events()
    assert progress(events) == [told(1), told(2), told(3)]
    assert {event.call_id for event in events if event.type == "tool_progress"} == {"call_work"}
    started = next(index for index, event in enumerate(events) if event.type == "tool_call_start")
    assert events[started + 1].position == events[started].position
    assert [event.seq for event in events if event.type not in ("tool_progress", "token")] == [
        event.seq for event in recorded if event.type != "token"
    ]
    assert progress(recorded) == []


CALLBACKS = {
    "a thread": lambda work: threading.Thread(target=work).start(),
    "a callback of another context": lambda work: asyncio.get_running_loop().call_soon(
        work, context=contextvars.Context()
    ),
}


@pytest.mark.parametrize("where", CALLBACKS)
async def test_what_is_told_first_from_elsewhere_is_heard(
    stage: Stage, scripted: Scripted, where: str
) -> None:
    """From where there is no activity: the server hears of it, and so does not take the worker for
    lost.
    """
    gate = asyncio.Event()

    async def work(context: ToolContext) -> bool:
        asked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            context.progress(1, 3, "step 1")
            question = context.superseded()
            asyncio.run_coroutine_threadsafe(question, loop).add_done_callback(
                lambda answer: loop.call_soon_threadsafe(asked.set_result, answer.result())
            )

        CALLBACKS[where](tell)
        await gate.wait()
        return await asked

    async with stage.worker([work]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("work")), says("over")]), [WORK])
        )
        async with asyncio.timeout(20):
            async for event in run.stream():
                if event.type == "tool_progress":
                    gate.set()
        assert tool_texts((await run.result()).messages) == ["False"]


async def test_who_goes_on_from_progress_misses_nothing(stage: Stage, scripted: Scripted) -> None:
    work = Steps()
    async with stage.worker({"work": work}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("work", "call_work")), says("over")]), [WORK])
        )
        async for event in run.stream():
            if event.type == "tool_progress":
                break
        work.allowed.release(3)
        rest = [event async for event in get_run(stage.client, run.id).stream(event.position)]
    assert [each.type for each in rest if each.type != "tool_progress"][0] == "tool_result"
    assert rest[-1].type == "done"


async def test_progress_has_no_secret_and_its_own_place_beside_details(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "a-very-secret-value-of-mine")
    gate = asyncio.Event()

    async def work(context: ToolContext) -> str:
        context.heartbeat({"row": 7})
        context.progress(0.5, text="with a-very-secret-value-of-mine")
        context.progress(0.5, text="with a-very-secret-value-of-mine")
        await gate.wait()
        return "done"

    async with stage.worker([work]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("work")), says("over")]), [WORK])
        )
        async for event in run.stream():
            if event.type == "tool_progress":
                assert event.data["text"] == "with ${env:SHOP_API_KEY}"
                assert (event.data["done"], event.data["total"]) == (0.5, None)
                described = await stage.client.get_workflow_handle(run.id).describe()
                [pending] = described.raw_description.pending_activities
                details = await stage.client.data_converter.decode(
                    list(pending.heartbeat_details.payloads)
                )
                assert details[0] == {"row": 7}
                assert details[1]["event"] == "tool_progress"
                gate.set()
        assert (await run.result()).output == "over"


class Copying(ToolKind):
    async def offer(self, tool: Any, asking: Any) -> list[Offering]:
        return [Offering(name="copy")]

    async def execute(self, call: KindCall) -> str:
        call.context.progress(1, 3, "step 1")
        call.context.logger.info("copying")
        while not call.context.cancelled:
            await asyncio.sleep(0.02)
        return "stopped"


async def test_a_kind_has_all_of_it(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perdure.tools")
    agent = scripted_agent(
        scripted([asks(call("copy", "call_copy"))]), [{"name": "copy", "kind": "copying"}]
    )
    async with stage.worker(tool_kinds={"copying": Copying()}):
        run = await stage.start(agent)
        async for event in run.stream():
            if event.type == "tool_progress":
                assert event.data == told(1, "copy")
                await run.cancel()
        with pytest.raises(RunCancelled) as error:
            await run.result()
    assert error.value.messages[-1].text == "stopped"
    [record] = [each for each in caplog.records if each.message == "copying"]
    assert (record.run, record.tool, record.call, record.attempt) == (
        run.id,
        "copy",
        "call_copy",
        1,
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize("local", [True, False])
async def test_a_thread_that_nobody_waits_for_any_longer_is_told(
    stage: Stage, scripted: Scripted, local: bool
) -> None:
    left = threading.Event()

    def work(context: ToolContext) -> None:
        while not context.cancelled:
            context.progress(1)
            time.sleep(0.02)
        left.set()

    declared = {**WORK, "perdure": {"local": local, "timeout": 0.3}}
    async with stage.worker([work]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("work")), says("over")]), [declared])
        )
        assert "timed out after 0.3 seconds" in (await run.result()).messages[-2].text
    assert await asyncio.to_thread(left.wait, 5)
