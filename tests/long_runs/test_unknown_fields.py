"""A run that a newer version has started goes on here, and loses nothing of what only that version
knows.
"""

from __future__ import annotations

import asyncio

from temporalio.client import Client

from perdure.conversation import Conversation
from perdure.json_types import JsonObject
from perdure.loop.state import LoopState
from perdure.messages import Message
from perdure.protocol.inventory import Inventory
from perdure.protocol.names import WORKFLOW
from perdure.protocol.run import Carried, RunInput
from perdure.testing import asks, call, says
from perdure.tool_calls import ToolSpec

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.unknown_fields import places_without, with_unknown_fields


def from_a_newer_version(input: RunInput) -> JsonObject:
    """The input as it would have been recorded, with a digest that fits."""
    assert input.carried is not None
    plain = input.model_dump(mode="json", by_alias=True)
    newer: JsonObject = with_unknown_fields(plain)
    messages = [Message.model_validate(message) for message in newer["messages"]]
    newer["carried"]["digest"] = Conversation.recorded(messages).digest
    return newer


async def recorded_input(client: Client, workflow_id: str) -> JsonObject:
    """The input of the last link, as JSON."""
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        [value] = await client.data_converter.decode(list(payloads))
        found: JsonObject = value
        return found
    raise AssertionError("a history is never empty")


async def test_unknown_fields_are_continued_as_new(stage: Stage, scripted: Scripted) -> None:
    model = scripted([*(asks(call("echo", f"call_{number}")) for number in range(8)), says("done")])
    input = RunInput(
        agent=scripted_agent(model, ["echo"]),
        messages=[Message.user("What is it?")],
        carried=Carried(
            loop=LoopState(),
            inventory=Inventory(tools=[ToolSpec(name="echo")]),
            version=0,
            digest="",
            last_seq=0,
        ),
    )
    async with stage.worker({"echo": lambda text="": text}):
        handle = await stage.client.start_workflow(
            WORKFLOW,
            from_a_newer_version(input),
            id=stage.task_queue,
            task_queue=stage.task_queue,
            result_type=dict,
        )
        result = await asyncio.wait_for(handle.result(), 30)
    assert result["output"] == "done"
    last = await recorded_input(stage.client, stage.task_queue)
    assert last["carried"]["links"] >= 2
    last["messages"] = last["messages"][:1]  # The others were made here.
    assert list(places_without(last)) == []
