"""A run that is handed over goes on in a new link: its id, budgets and conversation stay, and so
over kills.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from temporalio.testing import WorkflowEnvironment

import perdure
from perdure.agents import Agent
from perdure.cli.first_request import first_request
from perdure.cli.ls import row_of
from perdure.cli.server_connection import CommandMemo
from perdure.cli.show import _table
from perdure.client import RunHandle, RunOptions, get_run, session, start_run
from perdure.client.reading.survey import survey
from perdure.guardrails import instruct_functions
from perdure.history.chain import Chain
from perdure.json_types import JsonObject
from perdure.protocol.search_attributes import STARTED, shown_of
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, rerun, says
from perdure.testing.recorded_run import RecordedRun
from perdure.testing.recording import read_recording
from perdure.testing.server import with_script

from ..support.agents import Scripted, tool_texts
from ..support.stage import Stage
from ..support.tracing import TracedStage, outline


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


def other(model: ScriptedModel) -> Agent:
    """An agent for the runs of the desk that hands nothing over."""
    return perdure.agent(
        "openai/other",
        connection={"endpoint": model.openai_endpoint},
        name="other",
        instructions="You are new.",
        tools=[look_up, refund],
    )


def transfer(to: str, reason: str = "a refund") -> ScriptedReply:
    return asks(call(f"transfer_to_{to}", f"to_{to}", reason=reason))


def reply(request: ScriptedRequest) -> ScriptedReply:
    """Triage transfers what is to be refunded; billing looks nothing up, refunds, and transfers
    back what is more.
    """
    said = [message.text for message in request.messages if message.role == "user"][-1]
    done = tool_texts(request.messages)
    if request.body["model"] == "other":
        return says("Done.")
    if request.body["model"] == "triage":
        if "Refund" in said and not any("is refunded" in text for text in done):
            return transfer("billing")
        return says("Triage says hello.")
    if "Refund" in said and not any("is refunded" in text for text in done):
        return asks(call("refund", "call_1", order="A"))
    return transfer("triage", "") if "triage" in said else says("Billing says hello.")


async def start(stage: Stage, agent: Agent, text: str, **options: Any) -> RunHandle:
    id = f"{stage.task_queue}-{len(stage.runs)}"
    run = await start_run(
        stage.client, agent, text, task_queue=stage.task_queue, id=id, options=RunOptions(**options)
    )
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
    offered = [
        sorted(tool["function"]["name"] for tool in request.body["tools"])
        for request in model.requests[:2]
    ]
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


async def test_lists_show_the_start_of_the_first_link_and_the_agent_that_acts(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker([look_up, refund]):
        run = await start(stage, desk(scripted(reply)), "Refund A")
        await run.result()
    handle = stage.client.get_workflow_handle(run.id)
    last = await handle.describe()
    first = await stage.client.get_workflow_handle(
        run.id, run_id=last.raw_info.first_run_id
    ).describe()
    status, shown = await run.status(), await shown_of(last)
    assert (
        (status.agent, status.handed_over_by)
        == (shown.agent, shown.handed_by)
        == ("billing", "triage")
    )
    assert (
        status.started
        == shown.started.timestamp()
        == first.start_time.timestamp()
        < last.start_time.timestamp()
    )
    row = row_of(last, shown, CommandMemo(), first.start_time + timedelta(seconds=90))
    assert (row["agent"], row["started"], row["age"]) == (
        "billing",
        first.start_time.isoformat(timespec="seconds"),
        90,
    )
    forked = await run.fork(1)
    assert (
        STARTED
        not in (await stage.client.get_workflow_handle(forked.id).describe()).raw_info.memo.fields
    )
    await stage.client.get_workflow_handle(forked.id).terminate()


async def test_a_run_that_was_handed_over_is_exported_and_made_again(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted(reply)
    async with stage.worker([look_up, refund]):
        run = await start(stage, desk(model), "Refund A, then back to triage")
        await run.result()
        lines = [line async for line in run.export()]
        calls = [line for line in lines if line["kind"] == "model_call"]
        assert [each["settings"]["model"] for each in calls] == [
            "triage",
            "billing",
            "billing",
            "triage",
        ]
        assert [each["path"] for each in lines if each["kind"] == "agent"] == [
            "billing.prompty",
            "triage.prompty",
        ]
        instructions = {"triage": "You sort.", "billing": "You bill."}
        for at, first in ((1, "triage"), (2, "billing"), (4, "triage")):
            before = len(model.requests)
            fork = await run.fork(at)
            stage.runs.append(fork)
            assert (await fork.result()).output == "Triage says hello."
            asked = model.requests[before]
            assert (asked.body["model"], asked.messages[0].text) == (first, instructions[first])
            assert len(model.requests) - before == 5 - at
        before = len(model.requests)
        fork = await run.fork(3, agent=other(model))
        stage.runs.append(fork)
        await fork.result()
    told = [message.text for message in model.requests[before].messages if message.instructs]
    assert told == ["You are new."]
    file = tmp_path / "handed.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    before = len(model.requests)
    found = await rerun(read_recording(file))
    assert (found.path, found.matched, found.recorded_calls) == ("same", 3, 3)
    told = [
        (request.body["model"], request.messages[0].text) for request in model.requests[before:]
    ]
    assert told == [
        ("triage", "You sort."),
        ("billing", "You bill."),
        ("billing", "You bill."),
        ("triage", "You sort."),
    ]
    again = RecordedRun(read_recording(file))
    assert (await asyncio.to_thread(again)).agent == "triage"


class Sorted(BaseModel):
    to: str


class Bill(BaseModel):
    euros: int


async def test_the_output_has_the_type_of_the_agent_that_has_answered(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(
        lambda request: transfer("billing") if is_first(request) else says('{"euros": 5}')
    )
    connection: JsonObject = {"connection": {"endpoint": model.openai_endpoint}}
    billing = perdure.agent("openai/billing", name="billing", output_type=Bill, **connection)
    triage = perdure.agent(
        "openai/triage", name="triage", output_type=Sorted, handoffs=[billing], **connection
    )
    async with stage.worker():
        run = await start(stage, triage, "A bill, please.")
        assert (await run.result()).output == Bill(euros=5)
        read_later: RunHandle = get_run(stage.client, run.id, output_type=Sorted | Bill)
        assert (await read_later.result()).output == Bill(euros=5)
        talk = session(
            stage.client, triage, f"{stage.task_queue}-typed", task_queue=stage.task_queue
        )
        assert (await (await talk.send("A bill, please.")).result()).output == Bill(euros=5)
        await talk.close()


def is_first(request: ScriptedRequest) -> bool:
    return bool(request.body["model"] == "triage")


FILES = {
    "team/billing.prompty": """---
name: billing
model: {id: billing, provider: openai}
metadata: {perdure: {handoffs: [../triage.prompty]}}
---
system:
You bill.
""",
    "triage.prompty": """---
name: triage
model: {id: triage, provider: openai}
inputs:
  - {name: topic, kind: string, required: true}
tools:
  - {name: look_up, kind: function, perdure: {prefix: shop}}
  - name: desk
    kind: toolset
    tools: [{name: refund, kind: function}]
    perdure: {prefix: desk}
metadata: {perdure: {handoffs: [team/billing.prompty], instructionsBy: about}}
---
system:
You sort.
user:
{{topic}}
""",
}


async def test_validate_shows_the_first_request_as_it_is_sent(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    def about(inputs: dict[str, str]) -> str:
        return f"It is about {inputs['topic']}."

    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    model = scripted([says("Hello.")])
    agent, tools = (
        with_script(perdure.load(tmp_path / "triage.prompty"), model),
        {"look_up": look_up, "refund": refund},
    )
    async with stage.worker(tools, instructions={"about": about}):
        run = await start_run(stage.client, agent, {"topic": "Ada"}, task_queue=stage.task_queue)
        await run.result()
    perdure.instructions(about)
    shown = await asyncio.to_thread(first_request, agent, {"topic": "Ada"}, tools)
    instruct_functions.pop("about")
    assert json.dumps(shown) == json.dumps(model.requests[0].body)
    names = [tool["function"]["name"] for tool in shown["tools"]]
    assert names == ["shop_look_up", "desk_refund", "transfer_to_billing"]


async def test_a_session_goes_on_with_the_agent_that_spoke_last(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(reply)
    async with stage.worker([look_up, refund]):
        talk = session(
            stage.client, desk(model), f"{stage.task_queue}-talk", task_queue=stage.task_queue
        )
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
        chats = sorted(
            (span for span in trace if span.name.startswith("chat")),
            key=lambda span: span.start_time or 0,
        )
        assert [(span.attributes or {})["gen_ai.agent.name"] for span in chats] == names
        assert "invoke_agent billing" in [span.name for span in trace]
    assert sorted(map(outline, rebuilt), key=str) == sorted(map(outline, stage.live), key=str)
