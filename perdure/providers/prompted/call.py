"""One model call whose prompt describes the tools: its instructions, its messages, and the reading
of its reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...agents import Agent
from ...json_types import JsonView
from ...messages import Message, ModelReply, Part, TextPart, ToolCall
from ...settings.child_agents import DELEGATE, TASK, written_action
from ..base import FunctionDefinition, offered_functions
from ..outgoing import arguments_object
from .actions import INVALID, Action, Reading, is_nothing, read_actions

TOOLS_INSTRUCTIONS = """\
To use a tool, respond with ONLY this JSON (no other text):
{"tool": "tool_name", "arguments": {"arg1": "value1"}}

Wait for the tool result before providing your final answer."""
AGENT_INSTRUCTIONS = """\
To delegate a task to another agent, respond with ONLY this JSON (no other text):
{"agent": "agent_name", "task": "task description"}

Wait for the agent's response before providing your final answer."""
NO_ACTION_INSTRUCTIONS = """\
When you have all the information needed to provide a final answer, respond with ONLY:
{}

Then the system will ask you to provide your final response."""


def with_instructions(agent: Agent, messages: Sequence[Message]) -> list[Message]:
    """Messages with the description of the agent's tools in the first system message, which is
    added if there is none.

    Raises ValueError for a union without alternatives.
    """
    functions = offered_functions(agent)
    sections = _sections(functions)
    if not sections:
        return list(messages)
    first = next((index for index, message in enumerate(messages) if message.instructs), None)
    if first is None:
        return [Message.system("\n".join(sections).lstrip("\n")), *messages]
    told = messages[first]
    text = "\n".join([told.text, *sections])
    others = [part for part in told.parts if not isinstance(part, TextPart)]
    whole = Message(role=told.role, parts=[TextPart(value=text), *others], metadata=told.metadata)
    return [*messages[:first], whole, *messages[first + 1 :]]


def is_agent(function: FunctionDefinition) -> bool:
    """Return whether the function is another agent, which takes a task."""
    return function.name.startswith(DELEGATE) and TASK in function.parameters.get("properties", {})


def _sections(functions: Sequence[FunctionDefinition]) -> list[str]:
    agents = [function for function in functions if is_agent(function)]
    tools = [function for function in functions if not is_agent(function)]
    sections = []
    if tools:
        sections += ["\n## Available Tools\n" + "\n".join(map(_tool, tools)), TOOLS_INSTRUCTIONS]
    if agents:
        listed = "\n".join(map(_agent, agents))
        sections += ["\n## Available Agents for Delegation\n" + listed, AGENT_INSTRUCTIONS]
    return [*sections, NO_ACTION_INSTRUCTIONS] if sections else []


def _tool(function: FunctionDefinition) -> str:
    schema = json.dumps(function.parameters, indent=2, ensure_ascii=False)
    return f"- **{function.name}**: {function.description or ''}\n  Parameters: {schema}"


def _agent(function: FunctionDefinition) -> str:
    return f"- **{function.name.removeprefix(DELEGATE)}**: {function.description or ''}"


API = "perdure.json"
"""Marks a message whose `provider_content` holds the model's original text and its step."""

TOLD = "[Delegation failed"
"""The beginning of a delegation's text that reports its own failure."""


class _Call(NamedTuple):
    name: str
    step: int
    is_one_of_several: bool


def as_text(messages: Sequence[Message], max_steps: int) -> list[Message]:
    """Conversation without tool messages: each result is a user's message, each call a part of the
    model's text.
    """
    return list(_as_text(messages, max_steps))


def _as_text(messages: Sequence[Message], max_steps: int) -> Iterator[Message]:
    calls: dict[str, _Call] = {}
    results: list[Part] = []
    steps = 0
    for message in messages:
        if message.role == "tool":
            call = calls.get(
                message.metadata.get("tool_call_id", ""), _Call("", max(steps, 1), True)
            )
            results += [TextPart(value="\n")] if results else []
            results += _result(message, call, max_steps)
            continue
        if results:
            yield Message(role="user", parts=_join_texts(results))
            results = []
        if message.role == "assistant" and (asked := message.tool_calls):
            steps = _step(message) or steps + 1
            calls = {call.id: _Call(call.name, steps, len(asked) > 1) for call in asked}
            yield Message.assistant(_written_text(message, asked))
        else:
            yield message
    if results:
        yield Message(role="user", parts=_join_texts(results))


def _result(message: Message, call: _Call, max_steps: int) -> list[Part]:
    media = [part for part in message.parts if not isinstance(part, TextPart)]
    is_agent, is_failure = call.name.startswith(DELEGATE), "status" in message.metadata
    if is_failure and message.text.startswith(INVALID):
        said = message.text
    elif is_agent:
        is_told = not is_failure or message.text.startswith(TOLD)
        said = f"{'Agent response' if is_told else 'Delegation failed'}: {message.text}"
    elif is_failure:
        said = f"Tool execution failed: {message.text}"
    else:
        said = f"Tool result: {_as_json(message.text)}"
    of = f" {call.name.removeprefix(DELEGATE)}:" if call.is_one_of_several and call.name else ""
    return [TextPart(value=f"[Step {min(call.step, max_steps)}/{max_steps}]{of} {said}"), *media]


def _as_json(text: str) -> str:
    """Return the result as JSON, which any result but a text already is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text


def _join_texts(parts: Sequence[Part]) -> list[Part]:
    """Join neighbouring texts, so that a message of texts alone has one part."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(value=last.value + part.value)
        else:
            joined.append(part)
    return joined


def written_of(message: Message) -> str | None:
    """Return the model's original text of a message whose tool calls were read from it; None if
    unknown. Never raises.
    """
    kept = _kept_content(message)
    return str(kept["content"][0]) if kept and kept.get("content") else None


def _written_text(message: Message, calls: Sequence[ToolCall]) -> str:
    """Return the model's original text; for a native call, the text that the model would have
    written.
    """
    if (written := written_of(message)) is not None:
        return written
    return "\n".join(filter(None, [message.text, *map(_action, calls)]))


def _action(call: ToolCall) -> str:
    return (
        call.arguments
        if call.fault
        else written_action(call.name, arguments_object(call.arguments))
    )


def _step(message: Message) -> int:
    kept = _kept_content(message)
    return int(kept.get("step") or 0) if kept else 0


def _kept_content(message: Message) -> JsonView | None:
    content = message.metadata.get("provider_content")
    return content if content and content.get("api") == API else None


FINAL = "Now provide your final response to the user."
ACTS_LATE = "Instead of its final response, the model wrote an action, which is executed"
ACTS_TOO_LATE = (
    "Instead of its final response, the model wrote an action, and no step is left for it"
)
MAX_RAW = 64 * 1024
"""The characters of a reply that are recorded as the model wrote them, besides the calls in
them."""


@dataclass(frozen=True)
class PromptedCall:
    """A call in one of two phases: the model may `act`, or must `answer`.

    `step` is the number of the action that it may write, of at most `max_steps`, and `ids` begins
    the ids of its calls.
    """

    own: Agent
    phase: Literal["act", "answer"]
    step: int
    max_steps: int
    ids: str

    @property
    def agent(self) -> Agent:
        """The agent for its provider: without tools, and without a form of answers if the model may
        act.
        """
        outputs = None if self.phase == "act" else self.own.outputs
        return self.own.model_copy(update={"tools": None, "outputs": outputs})

    def messages(self, conversation: Sequence[Message]) -> list[Message]:
        """Return the messages to the model. Raises ValueError for a tool with a union without
        alternatives.
        """
        told = with_instructions(self.own, as_text(conversation, self.max_steps))
        return told if self.phase == "act" else [*told, Message.user(FINAL)]

    def read(self, reply: ModelReply) -> ModelReply:
        """Return the reply with the tool calls in its text. Never raises."""
        if reply.message.tool_calls:
            return reply
        return self._read_act(reply) if self.phase == "act" else self._read_answer(reply)

    def _read_act(self, reply: ModelReply) -> ModelReply:
        text = reply.message.text
        reading = read_actions(text)
        if reading.actions:
            return self._with_calls(reply, reading)
        return _with_text(reply, "" if is_nothing(text) else text)

    def _read_answer(self, reply: ModelReply) -> ModelReply:
        """Return the reply as an answer: a text that fits the agent's `outputs` is one, even if it
        looks like an action.
        """
        text = reply.message.text
        if self.own.outputs and not reply.faults:
            return reply
        reading = read_actions(text)
        if reading.actions and not reading.before:
            warning = ACTS_LATE if self.step <= self.max_steps else ACTS_TOO_LATE
            acted = reply.model_copy(
                update={"warnings": [*reply.warnings, warning], "faults": [], "output": None}
            )
            return self._with_calls(acted, reading)
        return _with_text(reply, "") if text and is_nothing(text) else reply

    def _with_calls(self, reply: ModelReply, reading: Reading) -> ModelReply:
        calls = [self._call(index, action) for index, action in enumerate(reading.actions)]
        message = Message.assistant(reading.before, calls)
        text = reply.message.text
        message.metadata["provider_content"] = {
            "api": API,
            "content": [text] if len(text) <= MAX_RAW else [],
            "step": self.step,
        }
        return reply.model_copy(
            update={"message": message, "warnings": [*reply.warnings, *reading.warnings]}
        )

    def _call(self, index: int, action: Action) -> ToolCall:
        return ToolCall(
            id=f"{self.ids}-{index}",
            name=action.name,
            arguments=action.arguments,
            fault=action.fault,
        )


def _with_text(reply: ModelReply, text: str) -> ModelReply:
    return reply.model_copy(update={"message": Message.assistant(text)})
