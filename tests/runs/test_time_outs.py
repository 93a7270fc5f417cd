"""What takes too long is told so once: a time-out of Temporal's own is not retried either."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress

from temporalio.api.enums.v1 import EventType

from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT

LONG = [Message.user("x" * 400) for _ in range(8)]
START_TO_CLOSE = "TemporalTimeout:StartToClose"


async def sleep_whatever_happens(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


async def test_a_tool_that_swallows_its_cancellation_runs_once(
    stage: Stage, scripted: Scripted
) -> None:
    calls: Counter[str] = Counter()

    async def stubborn(text: str = "") -> str:
        calls["stubborn"] += 1
        await sleep_whatever_happens(5)
        return "too late"

    agent = scripted_agent(scripted([asks(call("stubborn")), says("done")]), ["stubborn"])
    async with stage.worker({"stubborn": stubborn}, tool_loop=None):
        run = await stage.start(agent, tool_timeout=0.3)
        messages = (await run.result()).messages
    assert calls == {"stubborn": 1}
    assert (
        messages[3].text == f"Error: Tool 'stubborn' failed: timed out after 0.3 seconds{FIND_OUT}"
    )
    assert messages[3].metadata["status"] == "timeout"


async def test_what_a_tool_gives_when_it_is_told_to_stop_is_kept(
    stage: Stage, scripted: Scripted
) -> None:
    async def obliging(text: str = "") -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    agent = scripted_agent(scripted([asks(call("obliging")), says("done")]), ["obliging"])
    async with stage.worker({"obliging": obliging}, tool_loop=None):
        run = await stage.start(agent, tool_timeout=0.3)
        assert (await run.result()).messages[3].text == "half of it"


async def test_no_activity_is_retried_because_it_took_too_long(
    stage: Stage, scripted: Scripted
) -> None:
    async def judge(name: str, arguments: object) -> GuardrailResult:
        return GuardrailResult(allowed=True)

    async def compact(messages: list[Message]) -> str:
        return "short"

    hooks = {"guardrails": {"all": Guardrails(tool=judge)}, "compactors": {"all": compact}}
    agent = scripted_agent(scripted([asks(call("echo")), says("done")]), ["echo"])
    async with stage.worker({"echo": lambda text="": text}, **hooks):
        run = await stage.start(agent, LONG, guardrails="all", compactor="all", context_budget=1000)
        await run.result()
    retried = {}
    async for event in stage.client.get_workflow_handle(run.id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            retried[scheduled.activity_type.name] = list(
                scheduled.retry_policy.non_retryable_error_types
            )
    names = ("call_model", "tool.echo", "judge", "compact")
    assert retried == {f"perdure.{name}": [START_TO_CLOSE] for name in names}
