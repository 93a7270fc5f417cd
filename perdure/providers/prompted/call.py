"""One model call in which the model is told of its tools in the prompt: what it is sent, and what it has said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...agent import Agent
from ...messages import Message, ModelReply, ToolCall
from .actions import Action, Reading, is_nothing, read_actions
from .instructions import with_instructions
from .rendering import API, as_text

FINAL = "Now provide your final response to the user."
ACTS_LATE = "The model was asked for its final response and has written an action, which is carried out"
ACTS_TOO_LATE = "The model was asked for its final response and has written an action, for which no step is left"
MAX_RAW = 64 * 1024
"""Characters of a reply that are recorded as the model wrote them, beside the calls that were read in them."""


class PromptedCall:
    """A call in one of two phases: the model may `act`, or has to `answer`.

    `step` is the number of the action that it may write, of at most `max_steps`, and `ids` begins the ids of its calls.
    """

    def __init__(self, agent: Agent, phase: Literal["act", "answer"], *, step: int, max_steps: int, ids: str) -> None:
        self._agent = agent
        self._phase = phase
        self._step = step
        self._max_steps = max_steps
        self._ids = ids

    @property
    def agent(self) -> Agent:
        """The agent as its provider is to see it: without tools, and without a form of answers where it may act."""
        outputs = None if self._phase == "act" else self._agent.outputs
        return self._agent.model_copy(update={"tools": None, "outputs": outputs})

    def messages(self, conversation: Sequence[Message]) -> list[Message]:
        """What the model is sent. Raises ValueError for a tool with a union without alternatives."""
        told = with_instructions(self._agent, as_text(conversation, self._max_steps))
        return told if self._phase == "act" else [*told, Message.user(FINAL)]

    def read(self, reply: ModelReply) -> ModelReply:
        """The reply, with the tool calls that its text asks for. Never raises."""
        if reply.message.tool_calls:
            return reply
        return self._read_act(reply) if self._phase == "act" else self._read_answer(reply)

    def _read_act(self, reply: ModelReply) -> ModelReply:
        text = reply.message.text
        reading = read_actions(text)
        if reading.actions:
            return self._with_calls(reply, reading)
        return _saying(reply, "" if is_nothing(text) else text)

    def _read_answer(self, reply: ModelReply) -> ModelReply:
        """An answer that fits the agent's `outputs` is one, whatever it looks like."""
        text = reply.message.text
        if self._agent.outputs and not reply.faults:
            return reply
        reading = read_actions(text)
        if reading.actions and not reading.before:
            warning = ACTS_LATE if self._step <= self._max_steps else ACTS_TOO_LATE
            acted = reply.model_copy(update={"warnings": [*reply.warnings, warning], "faults": [], "output": None})
            return self._with_calls(acted, reading)
        return _saying(reply, "") if text and is_nothing(text) else reply

    def _with_calls(self, reply: ModelReply, reading: Reading) -> ModelReply:
        calls = [self._call(index, action) for index, action in enumerate(reading.actions)]
        message = Message.assistant(reading.before, calls)
        text = reply.message.text
        message.metadata["provider_content"] = {
            "api": API,
            "content": [text] if len(text) <= MAX_RAW else [],
            "step": self._step,
        }
        return reply.model_copy(update={"message": message, "warnings": [*reply.warnings, *reading.warnings]})

    def _call(self, index: int, action: Action) -> ToolCall:
        return ToolCall(id=f"{self._ids}-{index}", name=action.name, arguments=action.arguments, fault=action.fault)


def _saying(reply: ModelReply, text: str) -> ModelReply:
    return reply.model_copy(update={"message": Message.assistant(text)})
