"""§13.2: a cancel at every point: what still ends, what never starts, and that the conversation
stays valid.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure.errors import RunCancelled
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import asks, call, says
from perdure.tool_calls import Approval, ToolRequest

from ..support.loop_stage import Said, Stage
from ..support.unknown_outcomes import FIND_OUT


async def cancelled(stage: Stage) -> RunCancelled:
    """Plays the run, which must end cancelled, with that as its last event."""
    with pytest.raises(RunCancelled, match="^The run was cancelled$") as failure:
        await asyncio.wait_for(stage.play(), timeout=5)
    assert stage.types()[-1:] == ["cancelled"]
    assert stage.events[-1] == ("cancelled", {})
    assert failure.value.messages == stage.messages
    return failure.value


async def test_before_the_first_iteration() -> None:
    stage = Stage()
    stage.run.cancel()
    error = await cancelled(stage)
    assert (stage.types(), stage.seen, error.iterations, len(error.messages)) == (
        ["cancelled"],
        [],
        0,
        2,
    )


@pytest.mark.parametrize(
    "type", ["messages_updated", "status", "compaction_start", "compaction_complete"]
)
async def test_before_the_model_call(type: str) -> None:
    stage = Stage(
        messages=[Message.user("old " * 100), Message.assistant("older"), Message.user("new")],
        context_budget=200,
        compactor=lambda dropped: "much was said",
    )
    stage.run.steer("hello")
    stage.effects.cancel_at = (type, 1)
    await cancelled(stage)
    assert stage.seen == []


def waiting(stage: list[Stage]) -> Callable[..., Awaitable[Any]]:
    """Waits for ever, and lets the run be cancelled meanwhile."""

    async def wait(*subject: Any) -> Any:
        asyncio.get_running_loop().call_later(0.005, stage[0].run.cancel)
        await asyncio.sleep(60)

    return wait


@pytest.mark.parametrize(
    ("named", "iterations"),
    [
        ({"steps": "waiting"}, 0),
        ({"guardrails": "input"}, 0),
        ({"guardrails": "output"}, 1),
        ({"guardrails": "tool"}, 1),
        ({"compactor": "waiting", "context_budget": 20}, 0),
        ({"approve": "waiting"}, 1),
    ],
    ids=[
        "model",
        "input guardrail",
        "output guardrail",
        "tool guardrail",
        "compaction",
        "approval",
    ],
)
async def test_what_is_awaited_is_given_up_at_once(named: JsonObject, iterations: int) -> None:
    stages: list[Stage] = []
    wait = waiting(stages)
    ran: list[str] = []
    asking: Any = wait if "steps" in named else asks("work")
    if "guardrails" in named:
        named = {"guardrails": Guardrails(**{named["guardrails"]: wait})}
    named = {
        name: wait if value == "waiting" else value
        for name, value in named.items()
        if name != "steps"
    }

    def work() -> None:
        ran.append("work")

    work.__tool_spec__ = _approved()  # type: ignore[attr-defined]
    messages = [Message.user("a" * 50), Message.user("b"), Message.user("c")]
    stages.append(Stage(asking, messages=messages, tools={"work": work}, **named))
    error = await cancelled(stages[0])
    assert (error.iterations, ran) == (iterations, [])


def _approved() -> Any:
    from perdure.tool_calls import ToolSpec

    return ToolSpec(name="work", needs_approval=True)


async def test_a_started_tool_is_awaited_and_its_result_recorded() -> None:
    async def work() -> str:
        stage.run.cancel()
        await asyncio.sleep(0.01)
        return "done in spite of it"

    stage = Stage(asks("work"), tools={"work": work})
    error = await cancelled(stage)
    assert stage.types() == [
        *[
            "llm_start",
            "llm_complete",
            "tool_call_start",
            "tool_result",
            "messages_updated",
            "cancelled",
        ]
    ]
    assert stage.data("tool_result") == [{"name": "work", "result": "done in spite of it"}]
    assert error.messages[-1].text == "done in spite of it"


@pytest.mark.parametrize("parallel", [False, True])
async def test_calls_that_did_not_start_are_answered(parallel: bool) -> None:
    ran: list[int] = []

    async def work(number: int) -> str:
        ran.append(number)
        if number == 2:
            stage.run.cancel()
        return f"did {number}"

    calls = [call("work", f"{number}", number=number) for number in (1, 2, 3, 4)]
    stage = Stage(asks(*calls), tools={"work": work}, parallel_tool_calls=parallel)
    await cancelled(stage)
    # Tools that run at once have all started before the second one cancels, or else are answered
    # the same way.
    assert ran == [1, 2]
    assert stage.results() == ["did 1", "did 2", "[cancelled]", "[cancelled]"]
    assert [message.metadata.get("status") for message in stage.messages[3:]] == [
        None,
        None,
        *["cancelled"] * 2,
    ]
    assert stage.types("tool_call_start", "tool_result").count("tool_call_start") == 2


@pytest.mark.parametrize("grace", [0.0, 0.02])
async def test_a_tool_that_outlasts_its_grace_period_is_given_up(grace: float) -> None:
    ended: list[str] = []

    async def work() -> str:
        stage.run.cancel()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("told")
        return "never"

    stage = Stage(asks("work"), tools={"work": work}, cancel_grace=grace)
    started = time.monotonic()
    await cancelled(stage)
    assert grace <= time.monotonic() - started < 2
    assert (stage.results(), ended) == ([f"[cancelled]{FIND_OUT}"], ["told"])
    [told] = stage.data("tool_result")
    assert (told["isCancelled"], told["outcomeUnknown"]) == (True, True)


async def test_between_the_guardrail_and_the_tool() -> None:
    def judge(name: str, arguments: JsonObject) -> GuardrailResult:
        stage.run.cancel()
        return GuardrailResult(allowed=True)

    ran: list[str] = []
    stage = Stage(
        asks("work"), tools={"work": lambda: ran.append("work")}, guardrails=Guardrails(tool=judge)
    )
    await cancelled(stage)
    assert (ran, stage.results()) == ([], ["[cancelled]"])
    assert stage.types("tool_call_start", "tool_result") == ["tool_call_start", "tool_result"]


async def test_in_the_last_moment_the_answer_stands() -> None:
    stage = Stage(says("Done"))
    stage.effects.cancel_at = ("llm_complete", 1)
    assert (await stage.play()).output == "Done"
    assert stage.types()[-1] == "done"


async def test_a_cancel_of_the_task_is_not_a_cancel_of_the_run() -> None:
    async def wait() -> Said:
        await asyncio.sleep(60)
        return says("never")

    stage = Stage(wait)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stage.play(), timeout=0.01)
    assert "cancelled" not in stage.types()


async def test_an_approval_that_comes_too_late_starts_nothing() -> None:
    def approve(request: ToolRequest) -> Approval:
        stage.run.cancel()
        return Approval(approved=True)

    ran: list[str] = []

    def work() -> None:
        ran.append("work")

    work.__tool_spec__ = _approved()  # type: ignore[attr-defined]
    stage = Stage(asks("work"), tools={"work": work}, approve=approve)
    await cancelled(stage)
    assert (ran, stage.results()) == ([], ["[cancelled]"])
