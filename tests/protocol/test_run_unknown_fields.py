"""What a newer version has written is kept and passed on, at every level."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from perdure.agents import Agent
from perdure.conversation import Conversation
from perdure.loop.state import LoopState
from perdure.messages import FilePart, Message, ToolCall, Usage
from perdure.options import RunOptions
from perdure.payloads.converter import perdure_data_converter
from perdure.protocol import activities
from perdure.protocol.inventory import Inventory
from perdure.protocol.outcome import RunFailure, RunOutput, RunStatus
from perdure.protocol.run import (
    CallApproval,
    Carried,
    CarriedConversation,
    RecordedOptions,
    RunInput,
    SteeringMessage,
)
from perdure.tool_calls import PendingApproval, ToolRequest, ToolSpec

from ..support.unknown_fields import places_without, with_unknown_fields

MESSAGES = [
    Message(
        role="user", parts=[*Message.user("Hi").parts, FilePart(source="https://example.com/a.pdf")]
    ),
    Message.assistant("", [ToolCall(id="1", name="look", arguments="{}")]),
]


def changed_conversation() -> Conversation:
    conversation = Conversation.recorded(MESSAGES)
    conversation.append(MESSAGES)
    conversation.trim(0, 2, Message.user("[…]"))
    conversation.rewrite(MESSAGES)
    return conversation


CONVERSATION = changed_conversation().ref()
CARRIED = Carried(
    loop=LoopState(),
    inventory=Inventory(tools=[ToolSpec(name="look")]),
    version=0,
    digest="0" * 32,
    last_seq=0,
    conversation=CarriedConversation(run_id="r", reference=CONVERSATION, ends=[2]),
)
REQUEST = ToolRequest(call_id="1", name="look", arguments={}, iteration=1, index=0)
VALUES: list[BaseModel] = [
    RunInput(agent=Agent(), messages=MESSAGES, options=RunOptions(), carried=CARRIED),
    RunOutput(messages=MESSAGES, tail=CONVERSATION),
    RunFailure(kind="failed", tail=CONVERSATION),
    RunStatus(
        status="running",
        pending_approvals=[PendingApproval(call_id="1", name="look", arguments={}, iteration=1)],
    ),
    SteeringMessage(text="stop"),
    CallApproval(call_id="1", approved=True),
    activities.ModelInput(conversation=CONVERSATION, iteration=1),
    activities.JudgeInput(point="tool", request=REQUEST),
    activities.ToolInput(request=REQUEST, timeout=1.0),
    activities.PieceInput(run_id="r", reference=CONVERSATION, start=0, end=1),
    activities.ModelFailure(kind="server", provider="openai"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_unknown_fields_are_kept(value: BaseModel) -> None:
    plain = value.model_dump(mode="json", by_alias=True)
    received: Any = with_unknown_fields(plain)
    [decoded] = await perdure_data_converter.decode(
        await perdure_data_converter.encode([received]), [type(value)]
    )
    [sent] = await perdure_data_converter.decode(await perdure_data_converter.encode([decoded]))
    assert list(places_without(sent)) == []
    assert isinstance(decoded, type(value))


async def test_versions_that_know_different_fields_agree_on_a_digest() -> None:
    messages = [Message.model_validate(message.model_dump() | {"later": 1}) for message in MESSAGES]
    writer, follower = Conversation.recorded(messages), Conversation.recorded(messages)
    writer.append(messages)
    follower.follow(type(CONVERSATION).model_validate_json(writer.ref().model_dump_json()))
    assert follower.messages == writer.messages


def test_a_caller_may_not_misspell_an_option() -> None:
    with pytest.raises(ValidationError, match=r"max_iteration\n.*not permitted"):
        RunOptions(max_iteration=3)  # type: ignore[call-arg]


def test_a_recorded_option_that_is_unknown_is_kept() -> None:
    recorded = RecordedOptions.model_validate({"max_iterations": 3, "max_doubts": 7})
    assert recorded.max_iterations == 3
    assert isinstance(recorded, RunOptions)
    assert recorded.model_dump()["max_doubts"] == 7


def test_the_options_of_a_caller_are_recorded() -> None:
    input = RunInput(agent=Agent(), messages=[], options=RunOptions(max_iterations=3))
    assert input.options == RecordedOptions(max_iterations=3)
    assert Usage() == RunOutput().usage
