"""What takes too long is told so once: a time-out of Temporal's own is not retried either."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from openai import AsyncOpenAI
from temporalio.api.enums.v1 import EventType

from perdure.agents import Agent
from perdure.errors import ExecuteError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.providers import clear_connections, register_connection
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT

Scripted = Callable[[Script], ScriptedModel]
LONG = [Message.user("x" * 400) for _ in range(8)]
START_TO_CLOSE = "TemporalTimeout:StartToClose"


async def sleep_whatever_happens(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("shares_loop", [False, True])
async def test_a_tool_that_swallows_its_cancellation_runs_once(
    stage: Stage, scripted: Scripted, shares_loop: bool
) -> None:
    calls: Counter[str] = Counter()

    async def stubborn(text: str = "") -> str:
        calls["stubborn"] += 1
        await sleep_whatever_happens(5)
        return "too late"

    agent = scripted_agent(scripted([asks(call("stubborn")), says("done")]), ["stubborn"])
    loop = asyncio.get_running_loop() if shares_loop else None
    async with stage.worker({"stubborn": stubborn}, tool_loop=loop):
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


@pytest.fixture
def stubborn_client(scripted: Scripted) -> Iterator[list[float]]:
    """A registered connection whose requests swallow their cancellation, and the times at which
    they were made.
    """
    made: list[float] = []

    class Stubborn(AsyncOpenAI):
        async def post(self, *arguments: object, **named: object) -> None:  # type: ignore[override]
            made.append(time.monotonic())
            await sleep_whatever_happens(30)

    register_connection("stubborn", Stubborn(api_key="none", base_url="http://127.0.0.1:9"))
    yield made
    clear_connections()


@pytest.mark.trial
async def test_a_model_call_that_swallows_its_cancellation_is_made_once(
    stage: Stage, stubborn_client: list[float]
) -> None:
    connection = {"kind": "reference", "name": "stubborn"}
    agent = Agent.model_validate(
        {"name": "a", "model": {"id": "m", "provider": "openai", "connection": connection}}
    )
    async with stage.worker():
        run = await stage.start(agent, llm_timeout=1.0, max_llm_retries=1)
        with pytest.raises(ExecuteError, match="the model call timed out"):
            await run.result()
    assert len(stubborn_client) == 1
