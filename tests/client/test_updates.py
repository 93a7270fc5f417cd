"""Approvals are answered at once: accepted, or refused with the reason, and then the call goes on
waiting.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata

import perdure
from perdure import ApprovalError, GuardrailResult, Guardrails
from perdure.client import RunHandle
from perdure.client.updates import decide
from perdure.history.chain import Chain
from perdure.json_types import JsonObject
from perdure.protocol.run import CallApproval
from perdure.protocol.search_attributes import STATUS
from perdure.testing import asks, call, says
from perdure.tool_calls import PendingApproval
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import wait_for

PAY = {
    "name": "pay",
    "kind": "function",
    "description": "Pays an amount.",
    "parameters": [
        {"name": "amount", "kind": "integer", "required": True},
        {"name": "note", "kind": "string"},
    ],
}
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["amount"],
}
paid: list[int] = []


@tool(needs_approval=True)
def pay(amount: int, note: str = "") -> str:
    """Pays."""
    paid.append(amount)
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def waiting(run: RunHandle) -> PendingApproval:
    """The one call that waits."""

    async def pending() -> PendingApproval | None:
        return next(iter((await run.status()).pending_approvals), None)

    found = await wait_for(pending)
    assert found
    return found


def permissions(events: list[perdure.RunEvent]) -> JsonObject:
    return {event.type: event.data for event in events if event.type.startswith("permission")}


async def refused(decision: Any, kind: str) -> str:
    with pytest.raises(ApprovalError) as refusal:
        await decision
    assert refusal.value.kind == kind
    return str(refusal.value)


def cap(name: str, arguments: JsonObject) -> GuardrailResult:
    """Refuses more than 50, and rounds to tens."""
    if arguments["amount"] > 50:
        return GuardrailResult(allowed=False, reason="at most 50")
    return GuardrailResult(allowed=True, rewrite={"amount": arguments["amount"] // 10 * 10})


async def cap_slowly(name: str, arguments: JsonObject) -> GuardrailResult:
    return cap(name, arguments)


async def test_what_can_not_be_accepted_is_refused_at_once(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("pay", amount=7)), says("done")]), [PAY])
        )
        pending = await waiting(run)
        assert (pending.kind, pending.description, pending.schema) == (
            "approval",
            "Pays an amount.",
            SCHEMA,
        )
        assert pending.since > 1e9
        with pytest.raises(
            ApprovalError, match="no tool call 'call_x' waits for approval. Waiting: 'call_pay'"
        ) as unknown:
            await run.approve("call_x")
        assert [each.call_id for each in unknown.value.pending] == ["call_pay"]
        assert "stale" in await refused(run.approve("call_pay", digest="0000"), "stale")
        assert "'amount' must be integer, got \"much\"" in await refused(
            run.approve("call_pay", arguments={"amount": "much"}), "arguments"
        )
        assert "'amount' is required" in await refused(
            run.approve("call_pay", arguments={}), "arguments"
        )
        assert "unknown argument 'sum'" in await refused(
            run.approve("call_pay", arguments={"amount": 1, "sum": 2}), "arguments"
        )
        assert (await waiting(run)).digest == pending.digest
        assert paid == []
        await run.approve("call_pay", digest=pending.digest, by="ann")
        await run.result()
        assert (await refused(run.approve("call_pay"), "ended")).startswith(
            f"run {run.id!r} is done: "
        )
    assert paid == [7]
    assert permissions(await run.events()) == {
        "permission_requested": {
            "name": "pay",
            "arguments": {"amount": 7},
            "description": "Pays an amount.",
            "schema": SCHEMA,
            "digest": pending.digest,
            "kind": "approval",
            "reason": None,
            "deadline": None,
            "choices": [],
        },
        "permission_completed": {
            "name": "pay",
            "approved": True,
            "by": "ann",
            "reason": None,
            "arguments": None,
            "answer": None,
            "digest": pending.digest,
        },
    }


async def test_a_repeated_decision_succeeds_and_a_different_one_is_refused(
    stage: Stage, scripted: Scripted
) -> None:
    gate = asyncio.Event()

    @tool(needs_approval=True)
    async def slow(text: str = "") -> str:
        """Slow."""
        await gate.wait()
        return "done"

    async with stage.worker([slow]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("slow")), says("done")]), ["slow"])
        )
        pending = await waiting(run)
        await asyncio.gather(*[run.approve("call_slow", by="ann") for _ in range(5)])
        await run.approve("call_slow", digest=pending.digest)
        assert "was approved by ann (claimed) already" in await refused(
            run.deny("call_slow", "no"), "decided"
        )
        assert "was approved by ann (claimed) already" in await refused(
            run.approve("call_slow", arguments={"text": "x"}), "decided"
        )
        gate.set()
        await run.result()
    assert [event.type for event in await run.events()].count("permission_completed") == 1


async def test_one_of_two_different_decisions_at_once_is_accepted(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker([pay], guardrails={"cap": Guardrails(tool=cap_slowly)}):
        model = scripted([asks(call("pay", amount=30)), says("done")])
        run = await stage.start(scripted_agent(model, [PAY]), guardrails="cap")
        await waiting(run)
        decisions = [
            run.approve("call_pay", arguments={"amount": 10 * number}) for number in range(1, 5)
        ]
        outcomes = await asyncio.gather(*decisions, return_exceptions=True)
        await run.result()
    accepted = [number for number, outcome in enumerate(outcomes, 1) if outcome is None]
    assert paid == [10 * number for number in accepted]
    assert len(accepted) == 1
    assert {outcome.kind for outcome in outcomes if isinstance(outcome, ApprovalError)} <= {
        "decided",
        "ended",
    }


async def test_the_tool_guardrail_judges_edited_arguments(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker([pay], guardrails={"cap": Guardrails(tool=cap)}):
        model = scripted([asks(call("pay", amount=7)), says("done")])
        run = await stage.start(scripted_agent(model, [PAY]), guardrails="cap")
        pending = await waiting(run)
        assert "at most 50" in await refused(
            run.approve("call_pay", arguments={"amount": 700}), "guardrail"
        )
        assert (await waiting(run)).digest == pending.digest
        await run.approve("call_pay", arguments={"amount": 48})
        result = await run.result()
    assert paid == [40]
    told = model.requests[1].messages[-1].text
    assert told == '[executed with arguments that a person edited: {"amount": 40}]\npaid 40'
    assert tool_texts(result.messages) == [told]
    [asked] = result.messages[2].tool_calls
    assert json.loads(asked.arguments) == {"amount": 7}, "the model's message stays as written"
    assert permissions(await run.events())["permission_completed"]["arguments"] == {"amount": 40}


async def test_without_a_worker_a_decision_is_unconfirmed(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("pay", amount=7)), says("done")])
    async with stage.worker([pay]):
        run = await stage.start(scripted_agent(model, [PAY]))
        await waiting(run)
    chain = Chain(stage.client, run.id)
    decision = CallApproval(call_id="call_pay", approved=True, id="once")
    text = await refused(decide(chain, decision, patience=0.5), "unconfirmed")
    assert stage.task_queue in text
    async with stage.worker([pay]):
        await decide(chain, decision)
        await run.result()
    assert paid == [7]


async def test_the_status_shows_that_a_run_waits(stage: Stage, scripted: Scripted) -> None:
    async def shown(run: RunHandle) -> str | None:
        description = await stage.client.get_workflow_handle(run.id).describe()
        return description.typed_search_attributes.get(STATUS)

    async def lists(status: str) -> bool:
        query = f"WorkflowId = '{run.id}' AND PerdureStatus = '{status}'"
        return [found.id async for found in stage.client.list_workflows(query)] == [run.id]

    gate = asyncio.Event()

    @tool
    async def hold(text: str = "") -> str:
        """Hold."""
        await gate.wait()
        return "held"

    async with stage.worker([pay, hold]):
        model = scripted([asks(call("pay", amount=7)), asks(call("hold")), says("done")])
        run = await stage.start(scripted_agent(model, [PAY, "hold"]))
        await waiting(run)
        await wait_for(lambda: lists("waiting"))
        handle = stage.client.get_workflow_handle(run.id)
        details = await _current_details(handle)
        assert "waits for approval" in details
        assert "pay(amount=7)" in details
        assert "since 20" in details
        assert f"perdure approve {run.id} call_pay" in details
        await run.approve("call_pay")
        await wait_for(lambda: lists("running"))
        assert "waits for approval" not in await _current_details(handle)
        gate.set()
        await run.result()
        assert await shown(run) == "done"


async def _current_details(handle: Any) -> str:
    metadata: WorkflowMetadata = await handle.query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return metadata.current_details
