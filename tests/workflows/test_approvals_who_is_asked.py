"""When a person is asked about a call, for how long, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import ApprovalError
from perdure.client import RunHandle
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.tool_calls import PendingApproval
from perdure.tools import ToolContext, tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import wait_for

DECLARED = {
    "kind": "function",
    "parameters": [{"name": "amount", "kind": "integer", "required": True}],
}
PAY = {"name": "pay", **DECLARED}
paid: list[int] = []


@tool(idempotent=False)
def pay(amount: int) -> str:
    """Pays."""
    paid.append(amount)
    return f"paid {amount}"


@tool
def note(text: str = "") -> str:
    """Notes."""
    return "noted"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def waiting(run: RunHandle, calls: int = 1) -> list[PendingApproval]:
    async def pending() -> list[PendingApproval]:
        found = (await run.status()).pending_approvals
        return found if len(found) == calls else []

    return await wait_for(pending)


async def told(run: RunHandle) -> list[str]:
    return tool_texts((await run.result()).messages)


def large(arguments: JsonObject) -> bool | str:
    amount: int = arguments["amount"]
    if amount < 0:
        raise ValueError("less than nothing")
    return f"{amount} is more than 100" if amount > 100 else amount > 50


async def large_of_run(arguments: JsonObject, context: ToolContext) -> bool | str:
    assert context.run_id.startswith("run-")
    return large(arguments)


async def test_the_tools_own_function_decides(stage: Stage, scripted: Scripted) -> None:
    pays = tool(name="pay", approval=large_of_run)(lambda amount: f"paid {amount}")
    calls = [call("pay", f"c{amount}", amount=amount) for amount in (7, 70, 700)]
    async with stage.worker({"pay": pays}):
        model = scripted([asks(*calls, call("pay", "c?", amount=-1)), says("done")])
        run = await stage.start(scripted_agent(model, [PAY]), parallel_tool_calls=True)
        reasons = {each.call_id: each.reason for each in await waiting(run, 3)}
        assert reasons == {
            "c70": None,
            "c700": "700 is more than 100",
            "c?": "the tool can't say whether it needs an approval: ValueError: less than nothing",
        }
        assert (await run.status()).pending_approvals[0].schema is not None
        await asyncio.gather(
            run.approve("c70"), run.deny("c700", "too much"), run.deny("c?", "how much?")
        )
        assert await told(run) == [
            "paid 7",
            "paid 70",
            "Tool denied: too much",
            "Tool denied: how much?",
        ]
    asked = [
        event.data["reason"] for event in await run.events() if event.type == "permission_requested"
    ]
    assert set(asked) == set(reasons.values())


async def test_what_nobody_decides_in_time_is_denied(stage: Stage, scripted: Scripted) -> None:
    """Also where the time passes while no worker runs."""
    agent = scripted_agent(
        scripted([asks(call("pay", amount=7)), asks(call("pay", "late", amount=8)), says("done")]),
        [{**PAY, "perdure": {"approval": "always", "approvalTimeout": 2}}],
    )
    async with stage.worker([pay]):
        run = await stage.start(agent)
        [pending] = await waiting(run)
        await run.approve("call_pay")
        await wait_for(lambda: is_waiting_for(run, "late"))
    await asyncio.sleep(2)
    async with stage.worker([pay]):
        assert await told(run) == [
            "paid 7",
            "Tool denied: nobody has decided within 2 s (approvalTimeout)",
        ]
    [first, last] = [
        event.data for event in await run.events() if event.type == "permission_completed"
    ]
    assert first["approved"]
    assert (last["approved"], last["by"]) == (False, None)
    assert "nobody has decided within 2 s" in last["reason"]
    assert pending.deadline == pending.since + 2


async def test_a_decision_after_the_deadline_is_refused(stage: Stage, scripted: Scripted) -> None:
    calls = [call("pay", amount=7), call("pay_later", "second", amount=8)]
    soon, late = ({"approval": "always", "approvalTimeout": seconds} for seconds in (2, 600))
    async with stage.worker({"pay": pay, "pay_later": pay}):
        model = scripted([asks(*calls), says("done")])
        tools = [{**PAY, "perdure": soon}, {**PAY, "name": "pay_later", "perdure": late}]
        run = await stage.start(scripted_agent(model, tools))
        await wait_for(lambda: is_waiting_for(run, "call_pay"))
        with pytest.raises(ApprovalError, match="no tool call 'second' waits for approval"):
            await run.approve("second")
        await wait_for(lambda: is_waiting_for(run, "second"))
        with pytest.raises(
            ApprovalError, match="was denied already, because its deadline had passed"
        ):
            await run.approve("call_pay")
        await run.approve("second")
        await run.result()
    assert paid == [8]


async def is_waiting_for(run: RunHandle, call_id: str) -> bool:
    return [each.call_id for each in (await run.status()).pending_approvals] == [call_id]


async def test_calls_beside_a_waiting_one(stage: Stage, scripted: Scripted) -> None:
    calls = [call("note", "before"), call("pay", amount=7), call("note", "after")]
    agent = scripted_agent(
        scripted([asks(*calls), says("done")]), ["note", {**PAY, "perdure": {"approval": "always"}}]
    )

    async def done() -> set[str]:
        return {str(event.call_id) for event in await run.events() if event.type == "tool_result"}

    async with stage.worker([pay, note]):
        run = await stage.start(agent, parallel_tool_calls=True, max_parallel_tools=1)
        await waiting(run)
        await wait_for(lambda: _equal(done, {"before", "after"}))
        await run.approve("call_pay")
        assert await told(run) == ["noted", "paid 7", "noted"]


async def _equal(probe: Callable[[], Any], expected: set[str]) -> bool:
    return await probe() == expected
