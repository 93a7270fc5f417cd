"""The events of a long run are as large as its conversation, and hold all of it."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from perdure.conversation import Append, Conversation, Operation
from perdure.events import as_changes
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import asks, call, says

from .support.agents import Scripted, scripted_agent
from .support.command_line import Cli
from .support.stage import Stage

OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)
ITERATIONS = 20


def echo(text: str = "") -> str:
    return "seen " * 200


def rebuilt(events: list[JsonObject]) -> list[Message]:
    """The conversation, by nothing but what the events say."""
    conversation = Conversation()
    for event in events:
        for operation in event["data"].get("operations", []):
            conversation.apply(OPERATION.validate_python(operation))
    return conversation.messages


async def test_events_as_json_grow_with_the_conversation(
    stage: Stage, scripted: Scripted, cli: Cli
) -> None:
    rounds = [asks(call("echo", f"{number}", text=f"{number}")) for number in range(ITERATIONS)]
    async with stage.worker({"echo": echo}):
        run = await stage.start(
            scripted_agent(scripted([*rounds, says("done")]), ["echo"]), max_iterations=100
        )
        result = await run.result()
    written = (await cli("events", run.id, "--json")).stdout
    conversation = json.dumps(
        [message.model_dump(mode="json", by_alias=True) for message in result.messages]
    )
    assert len(written) < 3 * len(conversation)
    events = [json.loads(line) for line in written.splitlines()]
    assert rebuilt(events) == result.messages == await run.messages()
    assert not any("messages" in event["data"] for event in events)
    last = await cli(
        "events", run.id, "--json", "--whole-messages", "--after", events[-2]["position"]
    )
    assert len(json.loads(last.stdout)["data"]["messages"]) == len(result.messages)


async def test_trimming_is_a_change_like_any_other(stage: Stage, scripted: Scripted) -> None:
    rounds = [asks(call("echo", f"{number}", text=f"{number}")) for number in range(6)]
    script = [*rounds, says("done")]
    async with stage.worker({"echo": echo}):
        model = scripted(lambda request: script[min(len(model.requests) - 1, 6)])
        run = await stage.start(scripted_agent(model, ["echo"]), context_budget=4000)
        result = await run.result()
    events = await run.events()
    assert (
        rebuilt([as_changes(event) for event in events])
        == result.messages
        == events[-1].data["messages"]
    )
    assert {operation.op for event in events for operation in event.operations} == {
        "append",
        "trim",
    }
    assert isinstance(next(event for event in events if event.operations).operations[0], Append)
