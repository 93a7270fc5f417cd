"""What was made of a message is used again for as long as the message lives, and never changed."""

from __future__ import annotations

import copy
import gc

import pytest

from perdure.agent import Agent
from perdure.messages import ImagePart, Message, TextPart, ToolCall
from perdure.providers.registry import provider_for
from perdure.providers.remembered import Remembered


def conversation() -> list[Message]:
    calls = [ToolCall(id=f"c{number}", name="look", arguments='{"at": "it"}') for number in range(2)]
    return [
        Message.system("Be brief."),
        Message.user("Look."),
        Message.assistant("I look.", calls),
        Message(role="tool", parts=[TextPart(value="nothing")], metadata={"tool_call_id": "c0"}),
        Message(role="tool", parts=[ImagePart(source="aGk=", mediaType="image/png")], metadata={"tool_call_id": "c1"}),
        Message.user("And now?"),
        Message.user("Well?"),
    ]


def test_makes_it_once() -> None:
    made: list[str] = []

    def make(message: Message) -> str:
        made.append(message.text)
        return message.text.upper()

    remembered, message = Remembered(make), Message.user("hi")
    assert [remembered(message), remembered(message)] == ["HI", "HI"]
    assert made == ["hi"]
    assert remembered(Message.user("hi")) == "HI"
    assert made == ["hi", "hi"]


def test_forgets_with_the_message() -> None:
    remembered = Remembered(lambda message: message.text)
    messages = conversation()
    for message in messages:
        remembered(message)
    assert len(remembered) == len(messages)
    del message, messages
    gc.collect()
    assert len(remembered) == 0


@pytest.mark.parametrize(
    "model", [{"provider": "openai"}, {"provider": "openai", "apiType": "responses"}, {"provider": "anthropic"}]
)
def test_the_request_is_the_same_however_often_it_is_made(model: dict[str, str]) -> None:
    agent = Agent.model_validate({"name": "a", "model": {"id": "m", **model}})
    provider, messages = provider_for(agent), conversation()
    expected = provider.to_request(agent, messages)
    first = provider.to_request(agent, messages[:-1], lasting=True)
    before = copy.deepcopy(first)
    assert provider.to_request(agent, messages, lasting=True) == expected
    assert provider.to_request(agent, messages, lasting=True) == expected
    assert first == before
