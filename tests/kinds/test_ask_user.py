"""The built-in tool `ask_user`: the model asks a person, whose answer is the result."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ApprovalError
from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.json_types import JsonObject
from perdure.protocol.names import APPROVAL
from perdure.testing import asks, call, says
from perdure.tool_calls import Approval, PendingApproval
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.gates import GatedReplies
from ..support.loop_stage import Stage as Loop
from ..support.stage import Stage
from ..support.waiting import wait_for

ASK = {"name": "ask_user", "kind": "builtin"}
WHERE = {"question": "Where to?", "choices": ["Rome", "Oslo"]}


async def question(run: RunHandle) -> PendingApproval:
    async def pending() -> PendingApproval | None:
        return next(
            (each for each in (await run.status()).pending_approvals if each.kind == "question"),
            None,
        )

    found = await wait_for(pending)
    assert found
    return found


async def refused(decision: Any, kind: str) -> str:
    with pytest.raises(ApprovalError) as refusal:
        await decision
    assert refusal.value.kind == kind
    return str(refusal.value)


def told(run_result: Any) -> list[str]:
    return tool_texts(run_result.messages)


async def test_the_answer_is_the_result(stage: Stage, scripted: Scripted) -> None:
    gate = GatedReplies(asks(call("ask_user", **WHERE)), says("Bon voyage"), held=2)
    model = scripted(gate)
    async with stage.worker():
        run = await stage.start(scripted_agent(model, [ASK]))
        pending = await question(run)
        assert (pending.question, pending.choices, pending.allow_other) == (
            "Where to?",
            ["Rome", "Oslo"],
            True,
        )
        assert (await run.status()).status == "waiting_for_approval"
        assert "answer it, or deny it" in await refused(run.approve("call_ask_user"), "question")
        assert "is empty" in await refused(run.answer("call_ask_user", " "), "answer")
        assert "70,000 bytes" in await refused(run.answer("call_ask_user", "x" * 70_000), "answer")
        await run.answer("call_ask_user", "Paris\n\ud83d", digest=pending.digest, by="ann")
        await run.answer("call_ask_user", "Paris\n\ud83d")
        gate.open.set()
        result = await run.result()
        assert told(result) == ["Paris\n\ufffd"]
    [offered] = model.requests[0].body["tools"]
    assert offered["function"]["name"] == "ask_user"
    events = {
        event.type: event.data
        for event in await run.events()
        if event.type.startswith("permission")
    }
    requested, completed = events["permission_requested"], events["permission_completed"]
    assert (requested["kind"], requested["arguments"], requested["choices"]) == (
        "question",
        WHERE,
        ["Rome", "Oslo"],
    )
    assert (completed["approved"], completed["answer"], completed["by"]) == (
        True,
        "Paris\n\ufffd",
        "ann",
    )
    handle = stage.client.get_workflow_handle(run.id)
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert set(scheduled) == {"perdure.call_model"}, "nothing but the run itself waits"


async def test_denied_unanswered_and_from_another_sdk(stage: Stage, scripted: Scripted) -> None:
    def one(id: str) -> Any:
        return asks(call("ask_user", id, question="Why?"))

    model = scripted([one("c1"), one("c2"), one("c3"), says("I see")])
    async with stage.worker():
        run = await stage.start(scripted_agent(model, [{**ASK, "perdure": {"approvalTimeout": 3}}]))
        assert (await question(run)).deadline is not None
        await run.deny("c1", "none of your business", by="ann")
        await wait_for(lambda: waits_for(run, "c2"))
        handle = stage.client.get_workflow_handle(run.id)
        await handle.execute_update(APPROVAL, {"call_id": "c2", "answer": "because"})
        await wait_for(lambda: waits_for(run, "c3"))
        result = await run.result()
    assert told(result) == [
        "Not answered: none of your business",
        "because",
        "Not answered: nobody has answered within 3 s (approvalTimeout)",
    ]


async def waits_for(run: RunHandle, call_id: str) -> bool:
    return [each.call_id for each in (await run.status()).pending_approvals] == [call_id]


async def test_an_approval_is_no_question(stage: Stage, scripted: Scripted) -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("pay")), says("done")]), [{"name": "pay"}])
        )
        await wait_for(lambda: waits_for(run, "call_pay"))
        assert "not for an answer: approve or deny it" in await refused(
            run.answer("call_pay", "yes"), "approval"
        )
        await run.approve("call_pay")
        assert told(await run.result()) == ["paid"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'question' is required"),
        ({"question": "  "}, "'question' is empty: expected a text"),
        ({"question": 5}, "'question': input should be a valid string"),
        ({"question": "Who?", "choices": ["a", 1]}, "'choices[1]': input should be a valid string"),
        (
            {"question": "Who?", "options": []},
            "unknown argument 'options': expected question, choices, allow_other",
        ),
    ],
)
async def test_what_is_no_question(arguments: JsonObject, problem: str) -> None:
    loop = in_process(arguments, answer=lambda request: "me")
    await loop.play()
    assert loop.results() == [f"Error: Invalid arguments for tool 'ask_user': {problem}"]
    assert loop.types("permission_requested") == []


async def test_in_process() -> None:
    loop = in_process(
        {**WHERE, "allow_other": None}, answer=lambda request: request.arguments["choices"][0]
    )
    await loop.play()
    assert loop.results() == ["Rome"]
    loop = in_process(WHERE)
    await loop.play()
    assert loop.results() == ["Not answered: this run has no one to answer it"]
    loop = in_process(WHERE, answer=lambda request: Approval(approved=False, reason="later"))
    await loop.play()
    assert loop.results() == ["Not answered: later"]
    with pytest.raises(ValueError, match="'Paris' is not among the choices"):
        await in_process({**WHERE, "allow_other": False}, answer=lambda request: "Paris").play()


def in_process(arguments: JsonObject, **named: Any) -> Loop:
    agent = Agent.model_validate({"name": "asking", "tools": [ASK]})
    return Loop(asks(call("ask_user", **arguments)), says("Done"), agent=agent, **named)
