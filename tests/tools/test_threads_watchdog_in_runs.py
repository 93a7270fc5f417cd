"""Whatever blocks an event loop is named in the log: task and line, once for each time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest
from temporalio import activity

from perdure.guardrails import GuardrailResult, Guardrails
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.tools import ToolContext

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]


begun = threading.Event()


async def blocking(text: str = "") -> str:
    begun.set()
    time.sleep(2.2)  # what the log is to show
    return "blocked"


async def test_what_blocks_a_loop_is_named_once(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async def messages() -> list[str]:
        texts = sorted(
            record.getMessage()
            for record in caplog.records
            if "has not answered" in record.getMessage()
        )
        return texts if len(texts) > 1 else []

    # What other tests have done to the log of this process does not count here.
    caplog.set_level(logging.WARNING, logger="perdure")
    async with stage.worker({"blocking": blocking}, tool_loop=None):
        run = await stage.start(
            scripted_agent(scripted([asks(call("blocking")), says("done")]), ["blocking"])
        )
        await asyncio.to_thread(begun.wait, 20)
        time.sleep(2.2)  # on the loop of the worker
        await run.result()
        of_tools, of_worker = await wait_for(messages)
    assert of_tools.startswith(
        "the event loop of tools and guardrails has not answered for more than 1 s: "
    )
    assert (
        f"tool blocking of run {run.id} blocks it at "
        f"{__file__}:{blocking.__code__.co_firstlineno + 2}" in of_tools
    )
    assert "time.sleep(2.2)  # what the log is to show" in of_tools
    assert of_worker.startswith("the worker's event loop has not answered for more than 1 s: ")
    assert "time.sleep(2.2)  # on the loop of the worker" in of_worker


async def test_a_client_of_another_event_loop_is_explained(
    stage: Stage, scripted: Scripted
) -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lock.acquire(), 0.01)  # from here on, it belongs to this loop

    async def shared(text: str = "") -> str:
        async with lock:
            return "locked"

    async def judge(name: str, arguments: object) -> GuardrailResult:
        async with lock:
            return GuardrailResult(allowed=True)

    agent = scripted_agent(scripted([asks(call("shared")), says("done")]), ["shared"])
    judged = scripted_agent(scripted([asks(call("shared")), says("done")]), ["shared"])
    async with stage.worker(
        {"shared": shared}, guardrails={"shared": Guardrails(tool=judge)}, tool_loop=None
    ):
        result = await (await stage.start(agent)).result()
        denied = await (await stage.start(judged, guardrails="shared")).result()
    for text in (result.messages[3].text, denied.messages[3].text):
        assert (
            "is bound to a different event loop. Tools and guardrails run on an event loop of "
            "their own: " in text
        )
        assert (
            "open the client in the function that uses it, or pass the client's loop, "
            "create_worker(tool_loop=…)" in text
        )
    lock.release()
    async with stage.worker({"shared": shared}):
        agent = scripted_agent(scripted([asks(call("shared")), says("done")]), ["shared"])
        assert (await (await stage.start(agent)).result()).messages[3].text == "locked"


@pytest.mark.parametrize("own", [True, False])
async def test_a_heartbeat_from_the_loop_of_the_tools_arrives(
    stage: Stage, scripted: Scripted, own: bool
) -> None:
    told = asyncio.Event()
    here = asyncio.get_running_loop()

    async def beats(context: ToolContext, text: str = "") -> str:
        assert asyncio.get_running_loop() is not here
        (context.heartbeat if own else activity.heartbeat)("half")
        while not told.is_set():
            await asyncio.sleep(0.01)
        return "whole"

    async with stage.worker({"beats": beats}, tool_loop=None):
        run = await stage.start(
            scripted_agent(scripted([asks(call("beats")), says("done")]), ["beats"])
        )
        workflow = stage.client.get_workflow_handle(run.id)

        async def details() -> bool:
            pending = (await workflow.describe()).raw_description.pending_activities
            return any("half" in str(each.heartbeat_details) for each in pending)

        await wait_for(details)
        told.set()
        assert (await run.result()).messages[3].text == "whole"
