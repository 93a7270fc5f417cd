"""The parts of a script: replies, their builders, and the request that each reply answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..json_types import JsonObject
from ..messages import Message, ToolCall

Api = Literal["chat", "responses", "anthropic"]


class ScriptedReply(BaseModel):
    """One answer of the scripted model, complete in every wire format."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    tool_calls: list[ToolCall] = []
    """`arguments` may be an object or missing; `id` may be missing.

    Text that is not a JSON object reaches an Anthropic client unchanged if the response is not
    streamed, since this format has no other place for it.
    """
    thinking: str | None = None
    """A thinking block with a signature (Anthropic), a reasoning item (Responses),
    `reasoning_content` (chat)."""
    provider_items: list[JsonObject] = []
    """Calls of the provider's own tools, verbatim, before the text: blocks (Anthropic), output
    items (Responses). Chat has no place for them.
    """
    finish_reason: str | None = None
    """The provider's word for why the model stopped; None chooses the fitting one."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    """Reported usage; None: over HTTP, a quarter of the bytes of the request, and of the characters
    of the reply."""
    cached_input_tokens: int = Field(default=0, ge=0)
    """Number of input tokens, at most all of them, that the provider reports as read from its
    prompt cache."""

    status: int = 200
    error: JsonObject | None = None
    """The body, verbatim; None with a `status` other than 200: an error in the provider's shape.
    With status 200, in a stream, the content comes first and this error ends the stream.
    """
    headers: dict[str, str] = {}

    delay: float = Field(default=0.0, ge=0)
    """Seconds before the first byte."""
    chunk_delay: float = Field(default=0.0, ge=0)
    """Seconds before each event of a stream."""
    drop_after: int | None = None
    """Close the connection after this many events of a stream, or at once if the response is not
    streamed."""

    @field_validator("tool_calls", mode="before")
    @classmethod
    def _complete_calls(cls, calls: Any) -> Any:
        if not isinstance(calls, list):
            return calls
        names = [call.get("name") if isinstance(call, dict) else None for call in calls]
        return [
            _complete_call(call, names[:index].count(call.get("name")))
            if isinstance(call, dict)
            else call
            for index, call in enumerate(calls)
        ]


def _complete_call(call: JsonObject, earlier: int) -> JsonObject:
    """Return the call with an id and the text of its arguments, after `earlier` other calls of its
    tool.
    """
    arguments = call.get("arguments", {})
    text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
    return {
        "id": f"call_{call.get('name')}{f'_{earlier + 1}' if earlier else ''}",
        **call,
        "arguments": text,
    }


@dataclass
class ScriptedRequest:
    """One request received by the scripted model, and its end."""

    path: str
    api: Api
    body: JsonObject
    step: int
    """Assistant turns in the conversation before this call."""
    attempt: int
    """1 for the first request of this step, 2 for the second, …"""
    received_at: float
    """Seconds on the clock of `time.monotonic`."""
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case."""
    read_messages: Callable[[JsonObject], list[Message]] = field(
        default=lambda body: [], repr=False
    )
    aborted: bool = False
    """Whether the client left before the end of the response."""
    finished_at: float | None = None
    """Time when the response was sent or abandoned; None before that."""

    @cached_property
    def messages(self) -> list[Message]:
        """Return the request's conversation in the neutral form, for any wire format."""
        return self.read_messages(self.body)

    @property
    def is_streaming(self) -> bool:
        """Return whether the client asked for a stream."""
        return bool(self.body.get("stream"))


Script = (
    Sequence[ScriptedReply | Sequence[ScriptedReply]] | Callable[[ScriptedRequest], ScriptedReply]
)
"""The reply to each step, or a function that returns it. A sequence in place of a reply has the
replies to the first, second, … request of this step; the last one repeats.
"""


class ScriptExhausted(Exception):
    """The script has no reply for the step of a request."""


def choose_reply(script: Script, request: ScriptedRequest) -> ScriptedReply:
    """Return the script's reply to the request's step and attempt.

    Raises ScriptExhausted if there is none, and the errors of a script that is a function.
    """
    if callable(script):
        return script(request)
    if not 0 <= request.step < len(script):
        raise ScriptExhausted(
            f"scripted model: no reply for step {request.step} (the script has {len(script)})"
        )
    reply = script[request.step]
    if isinstance(reply, ScriptedReply):
        return reply
    return reply[min(request.attempt, len(reply)) - 1]


def says(text: str, **more: Any) -> ScriptedReply:
    """Return a reply that ends the run with `text`; `more` are further fields of
    `ScriptedReply`.
    """
    return ScriptedReply(text=text, **more)


@overload
def asks(tool: str, id: str = "", /, **arguments: Any) -> ScriptedReply: ...


@overload
def asks(*calls: ToolCall, **more: Any) -> ScriptedReply: ...


def asks(*calls: Any, **named: Any) -> ScriptedReply:
    """Return a reply that calls tools: `asks("look", at="sky")`, or `asks(call("look", at="sky"),
    call("listen"))`.

    With the name of one tool, the named arguments are that call's. With calls, they are further
    fields of `ScriptedReply`, such as `text`.
    """
    if calls and isinstance(calls[0], str):
        return ScriptedReply(tool_calls=[call(*calls, **named)])
    return ScriptedReply(tool_calls=list(calls), **named)


def call(tool: str, id: str = "", /, **arguments: Any) -> ToolCall:
    """Return a tool call, by default with the id `call_TOOL`.

    Give ids if one reply calls the same tool twice. For arguments that are not a JSON object,
    create a `ToolCall`, which takes the model's text.
    """
    return ToolCall(id=id or f"call_{tool}", name=tool, arguments=json.dumps(arguments))
