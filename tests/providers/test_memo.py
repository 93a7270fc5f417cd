"""What was made of a message is used again for as long as the message lives, and never changed."""

from __future__ import annotations

import copy
import gc
from weakref import ref

import pytest

from perdure.agent import Agent
from perdure.messages import ImagePart, Message, TextPart, ToolCall
from perdure.providers.memo import Memo, MemoList
from perdure.providers.registry import provider_for


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

    remembered, message = Memo(make), Message.user("hi")
    assert [remembered(message), remembered(message)] == ["HI", "HI"]
    assert made == ["hi"]
    assert remembered(Message.user("hi")) == "HI"
    assert made == ["hi", "hi"]


def test_forgets_with_the_message() -> None:
    remembered = Memo(lambda message: message.text)
    messages = conversation()
    for message in messages:
        remembered(message)
    assert len(remembered) == len(messages)
    del message, messages
    gc.collect()
    assert len(remembered) == 0


def test_of_a_list_only_what_is_new_is_looked_at() -> None:
    made: list[str] = []

    def make(message: Message) -> str:
        made.append(message.text)
        return message.text.upper()

    remembered = MemoList(make)
    messages = [Message.user(text) for text in "abcd"]
    assert remembered([]) == []
    assert remembered(messages[:1]) == ["A"]
    assert remembered(messages[:3]) == ["A", "B", "C"]
    first = remembered(messages)
    assert first == ["A", "B", "C", "D"]
    assert made == ["a", "b", "c", "d"]
    for trimmed in ([messages[0], *messages[2:]], messages[:2], [messages[0], Message.user("x"), *messages[1:]]):
        assert remembered(trimmed) == [message.text.upper() for message in trimmed]
    assert made == ["a", "b", "c", "d", "x"]
    assert first == ["A", "B", "C", "D"]


def test_a_list_is_forgotten_with_its_first_message() -> None:
    remembered = MemoList(lambda message: message.text)
    messages = [Message.user(text) for text in "abcd"]
    last = ref(messages[-1])
    remembered(messages)
    del messages[1:]
    gc.collect()
    assert last() is not None
    messages.clear()
    gc.collect()
    assert last() is None


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
