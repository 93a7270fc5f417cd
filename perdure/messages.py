"""Messages in no provider's format (§6.1)."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import IO, Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from .exchanged import Exchanged as Exchanged
from .exchanged import unless_empty as unless_empty
from .exchanged import unless_none as unless_none
from .json_types import JsonObject as JsonObject
from .media import described_content, read_content

Role = Literal["system", "user", "assistant", "developer", "tool"]
DELEGATED = "task-delegation"
"""The role that KAOS has for the task that another agent hands over: here, a user's message that says so."""


class _Part(Exchanged):
    model_config = ConfigDict(populate_by_name=True)


class TextPart(_Part):
    kind: Literal["text"] = "text"
    value: str


class _Media(_Part):
    source: str = Field(validation_alias=AliasChoices("source", "value"))
    """A URL, a `data:` URI, or plain base64 data, whose type is then in `media_type`."""
    media_type: str | None = Field(default=None, alias="mediaType")

    @classmethod
    def from_bytes(cls, content: bytes, *, media_type: str | None = None, name: str = "", **more: Any) -> Self:
        """The part that holds this content, whose type is recognized if it is not told; `more` are further fields.

        Raises ValueError for content that is empty, too large, or evidently of another kind.
        """
        kind = cls.model_fields["kind"].default
        return cls.model_validate({**described_content(kind, content, media_type=media_type, name=name), **more})

    @classmethod
    def from_file(cls, file: str | PathLike[str] | IO[bytes], *, media_type: str | None = None, **more: Any) -> Self:
        """Return the part that holds this file, given as a path or open in binary mode, read at once.

        Raises OSError for a file that can't be read, and ValueError like `from_bytes`.
        """
        content, name = read_content(file)
        return cls.from_bytes(content, media_type=media_type, name=name, **more)


class ImagePart(_Media):
    kind: Literal["image"] = "image"
    detail: str | None = None


class AudioPart(_Media):
    kind: Literal["audio"] = "audio"


class FilePart(_Media):
    kind: Literal["file"] = "file"
    filename: str | None = unless_none()
    """What the model is told that the file is called."""


Part = Annotated[TextPart | ImagePart | AudioPart | FilePart, Field(discriminator="kind")]


class Message(Exchanged):
    """One message of a conversation.

    `metadata` holds what a role needs besides its parts. perdure itself writes these keys:

    - assistant: `tool_calls`, a list of `{id, type: "function", function: {name, arguments}}`, which have a `fault` if
      they can't be made; `provider_content`, `{api, content}`, the provider's original blocks (thinking, signatures,
      reasoning items), which are sent back unchanged to the same API and ignored by all others
    - tool: `tool_call_id`; `status`, unless the result is a success; `error_kind`, which is "denied" for a call that a
      guardrail or a person has denied; `outcome_unknown`, `{same, key}`, and `settled_outcomes`, a list of keys: of
      which calls nobody knows whether they took effect, and of which that was found out
    - user: `sent_as`, which is "task-delegation" if the message was given with that role
    """

    role: Role
    parts: list[Part] = []
    metadata: JsonObject = {}

    @model_validator(mode="before")
    @classmethod
    def _accept_content(cls, data: Any) -> Any:
        """Accept `content` for `parts`, a plain string for one text part, and the role of KAOS for delegated tasks."""
        if not isinstance(data, Mapping):
            return data
        fields = dict(data)
        if "parts" not in fields and "content" in fields:
            fields["parts"] = fields.pop("content")
        if isinstance(fields.get("parts"), str):
            fields["parts"] = [TextPart(value=fields["parts"])]
        if fields.get("role") == DELEGATED:
            fields |= {"role": "user", "metadata": {**(fields.get("metadata") or {}), "sent_as": DELEGATED}}
        return fields

    @property
    def text(self) -> str:
        """Text parts, joined without a separator; "" when there are none."""
        return "".join([part.value for part in self.parts if isinstance(part, TextPart)])

    @property
    def instructs(self) -> bool:
        """Return whether this is a system or developer message, which trimming never drops (§13.3)."""
        return self.role in ("system", "developer")

    @property
    def is_delegated(self) -> bool:
        """Return whether this is a task that another agent hands over."""
        return self.metadata.get("sent_as") == DELEGATED

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls that this assistant message asks for; [] when there are none."""
        return [
            ToolCall(
                id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
                fault=call.get("fault"),
            )
            for call in self.metadata.get("tool_calls") or []
        ]

    @classmethod
    def system(cls, text: str) -> Message:
        return cls(role="system", parts=[TextPart(value=text)])

    @classmethod
    def user(cls, text: str) -> Message:
        return cls(role="user", parts=[TextPart(value=text)])

    @classmethod
    def assistant(cls, text: str = "", tool_calls: Sequence[ToolCall] = ()) -> Message:
        """An assistant message, without a text part if `text` is empty (§9.5)."""
        metadata = {"tool_calls": [call.to_metadata() for call in tool_calls]} if tool_calls else {}
        return cls(role="assistant", parts=[TextPart(value=text)] if text else [], metadata=metadata)

    @classmethod
    def tool(cls, call: ToolCall, result: ToolResult, more: JsonObject | None = None) -> Message:
        """Return the result of one tool call; each provider groups such messages as its API requires (§9.5).

        `more` is metadata about the call.
        """
        metadata: JsonObject = {"tool_call_id": call.id}
        if result.status != "success":
            metadata["status"] = result.status
        if result.is_denied:
            metadata["error_kind"] = DENIED
        if result.outcome_unknown:
            metadata["outcome_unknown"] = True
        return cls(role="tool", parts=result.parts, metadata={**metadata, **(more or {})})


class ToolCall(BaseModel):
    """A tool call that the model asks for."""

    id: str
    name: str
    arguments: str
    """JSON text, exactly as the model wrote it; it may be malformed (§9.8)."""
    fault: str | None = unless_none()
    """Why this is not a call that can be made: the model reads that as its result."""

    def to_metadata(self) -> JsonObject:
        """Return the call as an item of `Message.metadata["tool_calls"]` (§9.5)."""
        call = {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}
        return {**call, "fault": self.fault} if self.fault else call


DENIED = "denied"
"""The kind of a result that a guardrail or a person has put in the place of the tool's, which is no failure."""


class Postponed(Exchanged):
    """Says of a call that its tool has returned, and that another system finishes it (`ToolContext.later`)."""

    mark: str
    """By which the run recognises the call's token; nobody learns the token from it."""
    seconds: float | None = None
    """How long the call waits; None for ever."""


class Needed(Exchanged):
    """Says of a call that its tool has returned, and goes on with a person's answer: it is called again with that."""

    question: str = Field(pattern=r"\S")
    choices: list[str] = []
    """The answers that are suggested; empty for none."""
    allow_other: bool = True
    """Whether another answer than the choices is accepted."""
    state: JsonObject = {}
    """The tool's own data, which it gets back with the answer."""


class Answered(Exchanged):
    """A person's answer to the question of a tool."""

    text: str | None = None
    """None where nobody has answered, or somebody has refused to."""
    state: JsonObject = {}
    """`Needed.state`."""


class ToolResult(BaseModel):
    """What one tool call returned, successful or not (§6.1)."""

    model_config = ConfigDict(populate_by_name=True)

    parts: list[Part]
    status: Literal["success", "error", "cancelled", "timeout"] = "success"
    error_kind: str | None = Field(default=None, alias="errorKind")
    error_message: str | None = Field(default=None, alias="errorMessage")
    duration_ms: float | None = Field(default=None, alias="durationMs")
    size: int | None = unless_empty(None)
    """How many bytes of text there were, where `parts` have fewer of them; None where they have all."""
    outcome_unknown: bool = Field(default=False, alias="outcomeUnknown", exclude_if=operator.not_)
    """Whether the call may have taken effect although this is no success: the model is told, and repeats only what is
    idempotent without a person.
    """
    later: Postponed | None = unless_empty(None)
    """Set while this is no result yet, because another system finishes the call."""
    needs: Needed | None = unless_empty(None)
    """Set while this is no result yet, because the tool waits for a person's answer."""
    ended_at: float | None = Field(default=None, alias="endedAt", exclude_if=operator.not_)
    """When the execution ended, in seconds since the epoch, by the server's clock; only with `RunOptions.stale_after`.
    """

    @property
    def text(self) -> str:
        """Text parts, joined without a separator."""
        return "".join([part.value for part in self.parts if isinstance(part, TextPart)])

    @property
    def is_denied(self) -> bool:
        """Return whether a guardrail or a person has denied the call."""
        return self.error_kind == DENIED

    @classmethod
    def of_text(cls, text: str) -> ToolResult:
        return cls(parts=[TextPart(value=text)])

    @classmethod
    def denial(cls, text: str) -> ToolResult:
        """Return the result of a call that was denied; `text` tells the model why."""
        return cls(parts=[TextPart(value=text)], error_kind=DENIED)

    @classmethod
    def cancellation(cls, *, outcome_unknown: bool = False) -> ToolResult:
        """Return the result of a call that a cancelled run did not execute, or (`outcome_unknown`) may have begun."""
        return cls.failure("[cancelled]", kind="cancelled", status="cancelled", outcome_unknown=outcome_unknown)

    @classmethod
    def failure(
        cls,
        text: str,
        *,
        kind: str,
        status: Literal["error", "cancelled", "timeout"] = "error",
        outcome_unknown: bool = False,
    ) -> ToolResult:
        """A result that is not a success; `text` tells the model what went wrong."""
        return cls(
            parts=[TextPart(value=text)],
            status=status,
            error_kind=kind,
            error_message=text,
            outcome_unknown=outcome_unknown,
        )


MAX_TOKENS = 10**12
"""More than any call can use: such a count is a mistake."""


class Usage(BaseModel):
    """The tokens that model calls have used, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_input_tokens: int = 0
    """The part of `input_tokens` that came from the provider's prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was spent on reasoning."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written into the prompt cache, where the provider charges for that."""
    cache_write_1h_tokens: int = unless_empty(0)
    """The part of `cache_write_tokens` that is kept for an hour, which costs more than five minutes."""
    lost_tokens: int = unless_empty(0)
    """The part of `total_tokens` that went to attempts which were lost together with their workers, so that the call
    was made again. An estimate, for the provider never told: of each such attempt the input, and the text that is known
    of it.
    """

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: count + getattr(other, name) for name, count in vars(self).items()})

    @property
    def cache_share(self) -> float:
        """Return the share of `input_tokens` that came from the provider's prompt cache, 0.0 to 1.0."""
        return min(1.0, self.cached_input_tokens / self.input_tokens) if self.input_tokens > 0 else 0.0

    def plausible(self) -> Usage:
        """With counts from 0 to `MAX_TOKENS`, a total of at least input and output, which limits look at, and of the
        input no more from and for caches than there is.

        A server may leave the total out, or say anything.
        """
        counts = {name: max(0, min(count, MAX_TOKENS)) for name, count in vars(self).items()}
        counts["total_tokens"] = max(counts["total_tokens"], counts["input_tokens"] + counts["output_tokens"])
        cached = counts["cached_input_tokens"] = min(counts["cached_input_tokens"], counts["input_tokens"])
        counts["cache_write_tokens"] = min(counts["cache_write_tokens"], counts["input_tokens"] - cached)
        counts["cache_write_1h_tokens"] = min(counts["cache_write_1h_tokens"], counts["cache_write_tokens"])
        return Usage(**counts)


class ProviderCall(BaseModel):
    """What the provider has executed itself while the model answered (`kind: provider`), as far as people read it."""

    name: str
    id: str = ""
    status: str = "completed"
    details: JsonObject = {}


CutShort = Literal["length", "content_filter", "limit"]
"""Why an answer ends before all was said: its length, the provider's filter, or a limit of the run (`on_limit`)."""
FILTERED = frozenset(
    {"content_filter", "content_filtered", "safety", "image_safety", "recitation", "blocklist", "prohibited_content"}
    | {"spii", "sensitive", "guardrail_intervened"}
)
"""The words of providers, in small letters, for a reply that their filter has ended."""


def end_word(finish_reason: Any) -> str:
    """Return a provider's word for why a reply ended, in small letters and without what it adds, as Gemini does in
    `content_filter: PROHIBITED_CONTENT`; "" for anything that is not a word.
    """
    return finish_reason.partition(":")[0].strip().lower() if isinstance(finish_reason, str) else ""


class ModelReply(BaseModel):
    """The result of one model call: the assistant message, and what the provider says about the call."""

    message: Message
    usage: Usage = Usage()
    finish_reason: str | None = None
    """The provider's own word for why the model stopped (`stop`, `tool_calls`, `end_turn`, …)."""
    ended: Literal["whole", "cut_short", "paused"] = Field(default="whole", exclude_if=lambda ended: ended == "whole")
    """How the reply ended: `cut_short`, before the model had said all; `paused`, in a turn that goes on when the reply
    is sent back."""
    model: str | None = None
    response_id: str | None = None
    output: Any = None
    """The structured value if the agent declares `outputs`; None if the text is the output."""
    raw: JsonObject | None = None
    """The provider's own response, only if the run asks for it (`RunOptions.raw`)."""
    warnings: list[str] = []
    """What the run should report about the call, each as a `status` event."""
    provider_calls: list[ProviderCall] = Field(default_factory=list, exclude_if=operator.not_)
    """What the provider's own tools did."""
    faults: list[str] = []
    """Why the answer does not fit the agent's `outputs`; [] when it does, or when there are none."""
    cost_usd: float | None = unless_none()
    """What the call has cost, in US dollars, as the worker's prices say; None where they do not know the model."""
    thinking: str = unless_empty("")
    """What the model has thought aloud, where the call was streamed (`RunOptions.stream`)."""
    lost_attempts: int = unless_empty(0)
    """How many attempts of the call were lost together with their workers, after they had asked the model. `usage` has
    an estimate of what they have used (`Usage.lost_tokens`)."""
    ended_at: float | None = unless_empty(None)
    """As `ToolResult.ended_at`."""

    @property
    def cut_short(self) -> CutShort | None:
        """Why it ended before the model had said all; None where it had."""
        if self.ended != "cut_short":
            return None
        return "content_filter" if end_word(self.finish_reason) in FILTERED else "length"
