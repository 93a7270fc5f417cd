"""A replay stands where the run stood, whatever came when: cut at each task, without a cache, and
with lost tasks.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from perdure import ApprovalError, RunNotFound
from perdure.client import RunHandle
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall
from perdure.testing import asks, call, says
from perdure.testing.script import Script
from perdure.tools import ToolContext, tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

TOOLS = ["quick", "slow", "steers", "asked", "denied", "rewritten"]


class AnyRun:
    """A run at random: calls that are judged in its worker's process, steered from inside and
    outside, and approved.
    """

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.steered: list[str] = []
        self.executed: list[str] = []
        self.refusals: set[str] = set()
        self.run: RunHandle | None = None

    def script(self) -> Script:
        """Some rounds of calls, then an answer, and one more to each message that comes after
        it.
        """
        replies = iter([asks(*self._calls(each)) for each in range(self.random.randint(3, 7))])
        return lambda request: next(replies, None) or says("done")

    def _calls(self, iteration: int) -> list[ToolCall]:
        names = self.random.choices(TOOLS, k=self.random.randint(1, 3))
        return [
            call(name, f"c{iteration}-{n}", text=f"{iteration}-{n}") for n, name in enumerate(names)
        ]

    async def steer(self, text: str) -> None:
        """Steer, unless the run is over."""
        assert self.run
        try:
            await self.run.steer(text)
        except RunNotFound:
            return
        self.steered.append(text)

    def tools(self) -> list[Any]:
        async def execute(text: str) -> str:
            self.executed.append(text)
            return "x" * self.random.choice([1, 300])

        async def slow(text: str = "") -> str:
            await asyncio.sleep(self.random.uniform(0, 0.05))
            return await execute(text)

        async def steers(context: ToolContext, text: str = "") -> str:
            await self.steer(f"from inside {text}")
            return await execute(text)

        named = {
            "quick": execute,
            "slow": slow,
            "steers": steers,
            "denied": execute,
            "rewritten": execute,
        }
        return [*(tool(name=name)(function) for name, function in named.items())] + [
            tool(name="asked", needs_approval=True)(execute)
        ]

    async def outside(self) -> None:
        """Steer and decide, at any moment, until the run is over."""
        for number in range(1000):
            await asyncio.sleep(self.random.uniform(0, 0.06))
            assert self.run
            if number % 3 == 0 and len(self.steered) < 12:
                await self.steer(f"from outside {number}")
            for pending in (await self.run.status()).pending_approvals:
                try:
                    await self.run.approve(pending.call_id)
                except (
                    ApprovalError
                ) as error:  # Between the question and the answer the run may go on.
                    self.refusals.add(error.kind)


def judge(name: str, arguments: JsonObject) -> GuardrailResult:
    return GuardrailResult(
        allowed=name != "denied",
        reason="no",
        rewrite={"text": "r"} if name == "rewritten" else None,
    )


def judge_output(message: Message) -> GuardrailResult:
    return GuardrailResult(allowed=True, rewrite=f"{message.text}!")


def judge_input(messages: list[Message]) -> GuardrailResult:
    return GuardrailResult(allowed=True)


GUARDRAILS = Guardrails(input=judge_input, output=judge_output, tool=judge)


async def play(stage: Stage, scripted: Scripted, number: int, **worker: Any) -> None:
    """Run one at random to its end; nothing that was said is lost, and nothing is executed
    twice.
    """
    any_run = AnyRun(number)
    model = scripted(any_run.script())
    async with stage.worker(any_run.tools(), guardrails={"tested": GUARDRAILS}, **worker):
        any_run.run = run = await stage.start(scripted_agent(model, TOOLS), max_iterations=30)
        outside = asyncio.create_task(any_run.outside())
        result = await run.result()
        outside.cancel()
        await asyncio.gather(outside, return_exceptions=True)
    said = [message.text for message in result.messages if message.role == "user"]
    assert sorted(said[1:]) == sorted(any_run.steered), f"seed {number}"
    assert any_run.refusals <= {"ended", "unknown", "unconfirmed"}
    assert len(any_run.executed) == len(set(any_run.executed) - {"r"}) + any_run.executed.count(
        "r"
    ), f"seed {number}"
    await stage.replay(cut=True)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.trial) for n in range(3, 200))]
)
async def test_any_run(stage: Stage, scripted: Scripted, seed: int) -> None:
    await play(stage, scripted, seed)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.trial) for n in range(3, 200))]
)
async def test_any_run_without_a_cache(stage: Stage, scripted: Scripted, seed: int) -> None:
    await play(stage, scripted, seed, max_cached_workflows=0, max_concurrent_workflow_task_polls=1)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.trial) for n in range(2, 200))]
)
async def test_any_run_of_which_tasks_are_lost(stage: Stage, scripted: Scripted, seed: int) -> None:
    stage.stands.losses = random.Random(seed)
    await play(stage, scripted, seed)
    assert stage.stands.lost


async def test_a_stand_that_differs_is_told(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([says("done")])))
        await run.result()
    ((run_id, (length, stand)),) = stage.stands.last.items()
    stage.stands.last[run_id] = length, stand.replace(b'"unread":0', b'"unread":1')
    with pytest.raises(AssertionError, match="unread: 1 live, 0 replayed"):
        await stage.replay()
    stage.stands.last[run_id] = length, stand
