"""What was written of a conversation is used again for as long as the conversation lives, and never
changed.
"""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from perdure.messages import ImagePart, Message, TextPart, ToolCall
from perdure.providers.memo import Memo, Unchanging
from perdure.providers.registry import provider_for
from perdure.providers.sdk_call import encode

from ..support.wire_agents import APIS, agent


def conversation() -> list[Message]:
    calls = [
        ToolCall(id=f"c{number}", name="look", arguments='{"at": "it"}') for number in range(2)
    ]
    return [
        Message.system("Be brief."),
        Message.user("Look."),
        Message.assistant("I look.", calls),
        Message(role="tool", parts=[TextPart(value="nothing")], metadata={"tool_call_id": "c0"}),
        Message(
            role="tool",
            parts=[ImagePart(source="aGk=", mediaType="image/png")],
            metadata={"tool_call_id": "c1"},
        ),
        Message.user("And now?"),
        Message.user(""),
        Message.user("Well?"),
    ]


class Shouts:
    """Writes a message's text in capitals, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.memo = Memo[Message, Any](self.write)

    def write(self, message: Message) -> list[str]:
        self.asked.append(message.text)
        return [message.text.upper()]


def test_forgets_with_the_message() -> None:
    shouts, messages = Shouts(), conversation()
    for message in messages:
        shouts.memo(Unchanging([message]))
    assert len(shouts.memo) == len(messages)
    del message, messages
    gc.collect()
    assert len(shouts.memo) == 0


@pytest.mark.parametrize("api", APIS)
def test_messages_and_agents_may_change_between_requests(api: tuple[str, str]) -> None:
    asked, messages = agent(api, tools=[{"name": "look", "kind": "function"}]), conversation()
    provider = provider_for(asked)
    encode(provider.to_request(asked, Unchanging(messages)))
    messages[1].parts = [TextPart(value="Listen.")]
    asked.tools[0].name = "listen"  # type: ignore[index]
    changed = json.dumps(provider.to_request(asked, messages))
    assert "Listen." in changed
    assert '"name": "listen"' in changed
    assert "Look." not in changed


def test_values_that_json_cannot_say() -> None:
    assert encode({"a": "\ud800"}) == b'{"a":"?"}'
    assert encode({"a": float("nan")}) == b'{"a":null}'
    with pytest.raises((TypeError, ValueError)):
        encode({"a": object()})
