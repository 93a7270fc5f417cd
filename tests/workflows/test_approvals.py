"""Tools that a person must agree to."""

from __future__ import annotations

import pytest

from perdure import GuardrailResult, Guardrails
from perdure.client import RunHandle
from perdure.errors import ApprovalError
from perdure.json_types import JsonObject
from perdure.protocol.run import CallApproval, DecidedCall
from perdure.testing import asks, call, says
from perdure.tool_calls import PendingApproval
from perdure.tools import tool
from perdure.workflows.approvals import Approvals

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

done: list[str] = []
DESCRIPTION = "Delete something."
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


@tool(needs_approval=True)
def delete(text: str) -> str:
    """Delete something."""
    done.append(text)
    return f"deleted {text}"


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def last_result(run: RunHandle) -> str:
    return tool_texts((await run.result()).messages)[-1]


async def test_approve(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("delete", text="all")), says("done")])
    async with stage.worker([delete]):
        run = await stage.start(scripted_agent(model, ["delete"]))
        [pending] = await asked(run)
        assert pending == PendingApproval(
            call_id="call_delete",
            name="delete",
            description=DESCRIPTION,
            parameters=SCHEMA,
            arguments={"text": "all"},
            digest=pending.digest,
            since=pending.since,
            iteration=1,
        )
        assert (await run.status()).status == "waiting_for_approval"
        assert done == []
        await run.approve("call_delete")
        assert await last_result(run) == "deleted all"
    events = [
        (event.type, event.data)
        for event in await run.events()
        if event.type.startswith("permission")
    ]
    assert events == [
        (
            "permission_requested",
            {
                "name": "delete",
                "arguments": {"text": "all"},
                "description": DESCRIPTION,
                "schema": SCHEMA,
                "digest": pending.digest,
                "kind": "approval",
                "reason": None,
                "deadline": None,
                "choices": [],
            },
        ),
        (
            "permission_completed",
            {
                "name": "delete",
                "approved": True,
                "by": None,
                "reason": None,
                "arguments": None,
                "answer": None,
                "digest": pending.digest,
            },
        ),
    ]


async def test_two_calls_of_one_id_are_asked_for_apart(stage: Stage, scripted: Scripted) -> None:
    twins = asks(call("delete", "same", text="a"), call("delete", "same", text="b"))
    async with stage.worker([delete]):
        run = await stage.start(scripted_agent(scripted([twins, says("done")]), ["delete"]))
        await asked(run)
        await run.approve("same")
        await wait_for(lambda: next_is_asked(run, "b"))
        [second] = await asked(run)
        with pytest.raises(ApprovalError, match="'same' was approved already, in another way"):
            await run.deny("same", "no")
        await run.deny(second.call_id, "no")
        await run.result()
    assert done == ["a"]


async def next_is_asked(run: RunHandle, text: str) -> bool:
    return [pending.arguments["text"] for pending in (await run.status()).pending_approvals] == [
        text
    ]


async def test_arguments_that_are_nested_too_deeply(stage: Stage, scripted: Scripted) -> None:
    deep: JsonObject = {}
    for _ in range(300):
        deep = {"text": deep}
    async with stage.worker([delete]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("delete", text="all")), says("done")]), ["delete"])
        )
        await asked(run)
        with pytest.raises(ApprovalError, match="are nested more than 100 levels deep") as refused:
            await run.approve("call_delete", arguments=deep)
        assert refused.value.kind == "arguments"
        await run.deny("call_delete", "no")
        await run.result()


async def test_a_rewrite_that_is_no_json_denies(stage: Stage, scripted: Scripted) -> None:
    def rewrites(name: str, arguments: JsonObject) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite={"text": float("nan")})

    async with stage.worker([delete], guardrails={"odd": Guardrails(tool=rewrites)}):
        model = scripted([asks(call("delete", text="all")), says("done")])
        run = await stage.start(scripted_agent(model, ["delete"]), guardrails="odd")
        text = await last_result(run)
    assert "the tool guardrail failed: TypeError: its rewrite has no JSON form: " in text
    assert "nan is not a number that JSON can express" in text
    assert done == []


def test_a_decision_that_counts_already_is_about_no_other_call() -> None:
    decided = DecidedCall(call_id="c1", digest="d", mark="m", id="sent twice", approved=True)
    approvals = Approvals([decided], max_updates=10)
    again = CallApproval(call_id="c2", approved=True, id="sent twice")
    assert approvals.find(again) is None
