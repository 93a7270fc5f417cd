"""Where user code runs: on a loop of its own, or on one that was given; never where it was
called.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.messages import ToolResult
from perdure.tools.dispatch import ToolBox
from perdure.tools.threads import LoopThread
from perdure.tools.user_loop import UserLoop

AGENT = Agent.model_validate({"tools": [{"kind": "function", "name": "t"}]})


async def run(
    loop: UserLoop, function: Callable[..., Any], timeout: float | None = None
) -> ToolResult:
    return await ToolBox({"t": function}, loop=loop).execute(AGENT, "t", {}, {}, timeout=timeout)


async def where() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def test_async_code_and_what_plain_code_returns_run_in_a_thread_that_ends_with_the_last_holder() -> (
    None
):
    loop = UserLoop(name="mine")
    async with loop.hold():
        async with loop.hold():
            assert (await run(loop, where)).text == "mine"
        own = loop.get()
        assert (await run(loop, lambda: where())).text == "mine"
        assert loop.get() is own
    assert own.is_closed()
    assert "mine" not in [thread.name for thread in threading.enumerate()]


async def test_context_variables_arrive() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    async def read() -> str:
        return variable.get()

    loop = UserLoop()
    async with loop.hold():
        assert (await run(loop, read)).text == "set"


async def test_cancellation_arrives_and_the_cleanup_is_awaited() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def slow() -> None:
        try:
            begun.set()
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            cleaned.set()

    loop = UserLoop()
    async with loop.hold():
        task = asyncio.create_task(run(loop, slow))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()


async def test_what_has_timed_out_while_the_loop_was_blocked_is_not_executed_afterwards() -> None:
    executed: list[str] = []

    async def late() -> None:
        executed.append("late")

    async def blocks() -> None:
        time.sleep(0.4)

    loop = UserLoop()
    async with loop.hold():
        blocking = asyncio.create_task(run(loop, blocks))
        await asyncio.sleep(0.05)
        assert (await run(loop, late, timeout=0.05)).status == "timeout"
        assert (await blocking).status == "success"
        assert (await run(loop, where)).status == "success"
    assert executed == []


async def test_the_loop_is_kept_when_only_others_have_run_out_of_time() -> None:
    begun = threading.Event()

    async def blocks() -> str:
        begun.set()
        time.sleep(1.5)
        return "blocked"

    loop = UserLoop()
    async with loop.hold():
        own = loop.get()
        blocking = asyncio.create_task(run(loop, blocks))
        await asyncio.to_thread(begun.wait, 10)
        assert (
            "it never started: the event loop is blocked by tool t at "
            in (await run(loop, where, 0.05)).text
        )
        assert loop.get() is own
        assert (await blocking).text == "blocked"


async def test_what_still_runs_when_the_loop_is_closed_is_cancelled() -> None:
    ended = threading.Event()

    async def background() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    tasks: list[asyncio.Task[None]] = []

    async def begin() -> None:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    loop = UserLoop()
    async with loop.hold():
        await run(loop, begin)
    assert ended.is_set()


async def test_a_call_that_others_cancel_before_it_begins_ends_as_cancelled() -> None:
    begun, queued = threading.Event(), threading.Event()

    async def cancel_others() -> None:
        begun.set()
        queued.wait(10)
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    loop = UserLoop()
    async with loop.hold():
        first = asyncio.create_task(run(loop, cancel_others))
        await asyncio.to_thread(begun.wait)
        second = asyncio.create_task(run(loop, where))
        await asyncio.sleep(0)
        queued.set()
        async with asyncio.timeout(10):
            assert (await first).status == "success"
            assert (await second).error_kind == "CancelledError"


async def test_a_given_loop_is_used_and_has_to_be_running() -> None:
    given = LoopThread("given", "a loop")
    loop = UserLoop(given.loop)
    async with loop.hold():
        assert (await run(loop, where)).text == "given"
    await given.close()
    result = await run(loop, where)
    assert result.status == "error"
    assert result.text.endswith(
        "the event loop that was passed as tool_loop is not running: keep it running"
    )
