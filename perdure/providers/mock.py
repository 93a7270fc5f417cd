"""Replaces a provider: returns an answer that the run has recorded, without calling a model
(`perdure.mocks`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..agents import Agent
from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..messages import Message, ModelReply, ToolCall
from ..settings.mocks import VARIABLE
from ..text import count_of
from .base import Delta, ModelCallOptions, Provider
from .structured import read_answer, structured_value
from .tool_call_text import arguments_text

_WORD = re.compile(r"\s*\S+\s*|\s+")
_SEQUENCES = (
    f"Expected in {VARIABLE} one answer for each call: with `toolProtocol: json`, an action for "
    "each step, then "
    '"{}", then the text, such as ["{\\"tool\\": \\"echo\\", \\"arguments\\": {}}", "{}", "Done"]; '
    "with native calls, "
    '{"tool_calls": […]} for each step, then the text'
)


class MockedModel(Provider):
    """Returns one recorded answer.

    Args:
        answers: All of the run's answers.
        place: The one to return, from 1.
        reads_calls: Whether an answer may be JSON that asks for tools. False if the model writes
            calls in its text, which is then read like any model's.

    Raises ConfigurationError if there are fewer answers.
    """

    def __init__(self, answers: Sequence[str], place: int, *, reads_calls: bool) -> None:
        super().__init__("mock")
        if place > len(answers):
            raise ConfigurationError(
                f"the run has {count_of(len(answers), 'mock answer')}, and this is model call "
                f"{place}. {_SEQUENCES}"
            )
        self._text = answers[place - 1]
        value = structured_value(self._text)
        self._value: JsonObject = value if isinstance(value, dict) else {}
        self._place = place
        self._reads_calls = reads_calls

    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[JsonView] = (),
        may_call_tools: bool = True,
    ) -> JsonObject:
        """Return an empty request, because no model is called."""
        return {}

    async def call(self, agent: Agent, request: JsonView, options: ModelCallOptions) -> JsonObject:
        """Return the answer, and pass it to `on_delta` word by word."""
        for word in () if self._calls() else _WORD.findall(self._text):
            options.on_delta(Delta("text", word))
        return {"text": self._text}

    def process(self, agent: Agent, response: JsonView) -> Any:
        """Return the answer in the response: a list of calls, the structured value, or the text."""
        reply = self.reply(agent, response)
        return reply.message.tool_calls or (reply.output if agent.outputs else reply.message.text)

    def reply(self, agent: Agent, response: JsonView) -> ModelReply:
        """Return the answer as a message; it uses no tokens and costs nothing."""
        if calls := self._calls():
            said = self._value.get("content")
            message = Message.assistant(said if isinstance(said, str) else "", calls)
            return ModelReply(message=message, finish_reason="tool_calls", cost_usd=0.0)
        output, faults = read_answer(self._text, agent.outputs) if agent.outputs else (None, [])
        return ModelReply(
            message=Message.assistant(self._text),
            finish_reason="stop",
            output=output,
            faults=faults,
            cost_usd=0.0,
        )

    def _calls(self) -> list[ToolCall]:
        asked = self._value.get("tool_calls") if self._reads_calls else None
        return [
            ToolCall(
                id=each["id"]
                if isinstance(each.get("id"), str)
                else f"mock_{self._place}_{index}_{each['name']}",
                name=each["name"],
                arguments=arguments_text(each.get("arguments", {})),
            )
            for index, each in enumerate(asked if isinstance(asked, list) else ())
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        ]
