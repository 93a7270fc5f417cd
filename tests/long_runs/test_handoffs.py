"""A run that is handed over goes on in a new link: its id, budgets and conversation stay, and so over kills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio.testing import WorkflowEnvironment

import perdure
from perdure.agents import Agent
from perdure.cli.show import _table
from perdure.client import RunHandle, RunOptions, session, start_run
from perdure.client.reading.survey import survey
from perdure.history.chain import Chain
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.testing.script import Script

from ..support.stage import Stage
from ..support.tracing import TracedStage, outline

Scripted = Callable[[Script], ScriptedModel]


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: 12 euros"


def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def desk(model: ScriptedModel) -> Agent:
    """Triage hands over to billing, which may hand back."""
    connection = {"endpoint": model.openai_endpoint}
    billing = perdure.agent(
        "openai/billing",
        connection=connection,
        name="billing",
        instructions="You bill.",
        tools=[refund],
        handoffs=["triage"],
    )
    return perdure.agent(
        "openai/triage",
        connection=connection,
        name="triage",
        instructions="You sort.",
        tools=[look_up],
        handoffs=[billing],
    )


def transfer(to: str, reason: str = "a refund") -> ScriptedReply:
    return asks(call(f"transfer_to_{to}", f"to_{to}", reason=reason))


def reply(request: ScriptedRequest) -> ScriptedReply:
    """Triage transfers what is to be refunded; billing looks nothing up, refunds, and transfers back what is more."""
    said = [message.text for message in request.messages if message.role == "user"][-1]
    done = [message.text for message in request.messages if message.role == "tool"]
    if request.body["model"] == "triage":
        if "Refund" in said and not any("is refunded" in text for text in done):
            return transfer("billing")
        return says("Triage says hello.")
    if "Refund" in said and not any("is refunded" in text for text in done):
        return asks(call("refund", "call_1", order="A"))
    return transfer("triage", "") if "triage" in said else says("Billing says hello.")


async def start(stage: Stage, agent: Agent, text: str, **options: Any) -> RunHandle:
    id = f"{stage.task_queue}-{len(stage.runs)}"
    run = await start_run(stage.client, agent, text, task_queue=stage.task_queue, id=id, options=RunOptions(**options))
    stage.runs.append(run)
    return run


async def test_a_run_goes_on_as_another_agent(stage: Stage, scripted: Scripted) -> None:
    model = scripted(reply)
    agent = desk(model)
    async with stage.worker([agent]):
        run = await start(stage, agent, "Refund A, then back to triage", max_iterations=5)
        result = await run.result()
    told = [(request.body["model"], request.messages[0].text) for request in model.requests]
    triage, billing = ("triage", "You sort."), ("billing", "You bill.")
    assert told == [triage, billing, billing, triage]
    assert (result.agent, result.iterations, result.output) == ("triage", 4, "Triage says hello.")
    offered = [sorted(tool["function"]["name"] for tool in request.body["tools"]) for request in model.requests[:2]]
    assert offered == [["look_up", "transfer_to_billing"], ["refund", "transfer_to_triage"]]
    events = await run.events()
    assert [event.data for event in events if event.type == "handoff"] == [
        {"name": "billing", "reason": "a refund"},
        {"name": "triage", "reason": ""},
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    texts = [message.text for message in await run.messages()]
    assert texts == [message.text for message in result.messages]
    assert texts[:2] == ["You sort.", "Refund A, then back to triage"]
    assert [line async for line in run.export() if line["kind"] == "run"]


async def test_a_session_goes_on_with_the_agent_that_spoke_last(stage: Stage, scripted: Scripted) -> None:
    model = scripted(reply)
    async with stage.worker([look_up, refund]):
        talk = session(stage.client, desk(model), f"{stage.task_queue}-talk", task_queue=stage.task_queue)
        first = await (await talk.send("Refund A")).result()
        assert (first.agent, first.output) == ("billing", "Billing says hello.")
        second = await (await talk.send("Anything else?")).result()
        assert (second.agent, second.output) == ("billing", "Billing says hello.")
        assert model.requests[-1].messages[0].text == "You bill."
        third = await (await talk.send("Back to triage")).result()
        assert (third.agent, third.output) == ("triage", "Triage says hello.")
        fourth = await (await talk.send("Hello?")).result()
        assert fourth.agent == "triage"
        assert [message.text for message in await talk.messages()][:2] == ["You sort.", "Refund A"]
        await talk.close()


async def test_it_is_seen_which_agent_spoke(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted
) -> None:
    stage = TracedStage(short_histories.client, task_queue)
    async with stage.worker([look_up, refund]):
        run = await start(stage, desk(scripted(reply)), "Refund A")
        await run.result()
        shown = await survey(Chain(stage.client, run.id))
        rebuilt = await run.trace()
    names = ["triage", "billing", "billing"]
    assert [each.agent for each in shown.iterations] == names
    rows = _table([each.model_dump(mode="json") for each in shown.iterations], (), has_ended=True)
    assert [row.split()[1] for row in rows] == names
    for trace in (rebuilt, stage.live):
        chats = sorted((span for span in trace if span.name.startswith("chat")), key=lambda span: span.start_time or 0)
        assert [(span.attributes or {})["gen_ai.agent.name"] for span in chats] == names
        assert "invoke_agent billing" in [span.name for span in trace]
    assert sorted(map(outline, rebuilt), key=str) == sorted(map(outline, stage.live), key=str)
