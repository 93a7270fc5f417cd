"""Decisions that come together with something else: another decision, a cancellation, while no
worker is there.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure import RunCancelled
from perdure.errors import ApprovalError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import asked

paid: list[str] = []


@tool(needs_approval=True, idempotent=False)
def pay(text: str) -> str:
    """Pay."""
    paid.append(text)
    return f"paid {text}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def test_a_decision_and_a_cancellation_at_once(stage: Stage, scripted: Scripted) -> None:
    """Whichever comes first: the call takes effect once or not at all, and the run ends."""
    async with stage.worker([pay]):
        for number in range(3):
            model = scripted([asks(call("pay", text=str(number))), says("done")])
            run = await stage.start(scripted_agent(model, ["pay"]))
            await asked(run)
            await asyncio.gather(run.approve("call_pay"), run.cancel(), return_exceptions=True)
            try:
                messages = (await asyncio.wait_for(run.result(), 30)).messages
            except RunCancelled as cancelled:
                messages = cancelled.messages
            [result] = tool_texts(messages)
            assert paid.count(str(number)) <= 1
            assert result != f"paid {number}" or str(number) in paid


async def test_a_guardrail_that_allows_an_edit_after_the_deadline_changes_nothing(
    stage: Stage, scripted: Scripted
) -> None:
    is_denied, is_refused = asyncio.Event(), asyncio.Event()

    async def judge(name: str, arguments: dict[str, str]) -> GuardrailResult:
        if arguments.get("text") == "edited":
            await is_denied.wait()
        return GuardrailResult(allowed=True)

    async def after_it(text: str = "") -> None:
        is_denied.set()
        await is_refused.wait()

    pays = tool(name="pay", needs_approval=True, approval_timeout=3.0)(lambda text: pay(text))
    async with stage.worker([pays, after_it], guardrails={"slow": Guardrails(tool=judge)}):
        model = scripted([asks(call("pay", text="1")), asks(call("after_it")), says("done")])
        run = await stage.start(scripted_agent(model, ["pay", "after_it"]), guardrails="slow")
        await asked(run)
        with pytest.raises(ApprovalError) as refused:
            await run.approve("call_pay", arguments={"text": "edited"})
        is_refused.set()
        results = tool_texts((await run.result()).messages)
    assert (paid, refused.value.kind, len(results)) == ([], "ended", 2)
    assert results[0].startswith("Tool denied")
