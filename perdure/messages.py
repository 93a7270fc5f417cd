"""Messages, independent of any provider's format (§6.1)."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import IO, Annotated, Any, Literal, Self, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from .json_types import JsonObject as JsonObject
from .media import described_content, read_content

T = TypeVar("T")


class Exchanged(BaseModel):
    """Keeps unknown fields, and passes them on.

    The processes of one run may have different versions: a newer client may start a run, an older
    worker continue it, and a newer one continue it again. Fields that the older one does not
    understand must still arrive.
    """

    model_config = ConfigDict(extra="allow")


def unless_empty(default: T) -> T:
    """A field with this falsy default: it is omitted from the JSON while its value is falsy."""
    field: T = Field(default=default, exclude_if=operator.not_)
    return field


def unless_none() -> Any:
    """A field that is None by default, and is then omitted from the JSON."""
    return Field(default=None, exclude_if=partial(operator.is_, None))


Role = Literal["system", "user", "assistant", "developer", "tool"]
DELEGATED = "task-delegation"
"""KAOS's role for the task that another agent hands over: in perdure, a user's message with that
mark."""


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
    def from_bytes(
        cls, content: bytes, *, media_type: str | None = None, name: str = "", **more: Any
    ) -> Self:
        """Return the part with this content, whose type is detected if it is not given; `more` are
        further fields.

        Raises ValueError for content that is empty, too large, or evidently of another kind.
        """
        kind = cls.model_fields["kind"].default
        return cls.model_validate(
            {**described_content(kind, content, media_type=media_type, name=name), **more}
        )

    @classmethod
    def from_file(
        cls, file: str | PathLike[str] | IO[bytes], *, media_type: str | None = None, **more: Any
    ) -> Self:
        """Return the part with the content of this file, given as a path or open in binary mode;
        the file is read at once.

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
    """The file's name for the model."""


Part = Annotated[TextPart | ImagePart | AudioPart | FilePart, Field(discriminator="kind")]


class Message(Exchanged):
    """One message of a conversation.

    `metadata` holds a role's further data besides its parts. perdure itself writes these keys:

    - assistant: `tool_calls`, a list of `{id, type: "function", function: {name, arguments}}`,
      which have a `fault` if they can't be executed; `provider_content`, `{api, content}`, the
      provider's original blocks (thinking, signatures, reasoning items), which are sent back
      unchanged to the same API and ignored by all others
    - tool: `tool_call_id`; `status`, unless the result is a success; `error_kind`, which is
      "denied" for a call that a guardrail or a person has denied; `outcome_unknown`, `{same, key}`
      of a call that may have taken effect, and `settled_outcomes`, a list of the keys of such calls
      whose outcome is known by now
    - user: `sent_as`, which is "task-delegation" if the message was given with that role
    """

    role: Role
    parts: list[Part] = []
    metadata: JsonObject = {}

    @model_validator(mode="before")
    @classmethod
    def _accept_content(cls, data: Any) -> Any:
        """Accept `content` for `parts`, a plain string for one text part, and KAOS's role for
        delegated tasks.
        """
        if not isinstance(data, Mapping):
            return data
        fields = dict(data)
        if "parts" not in fields and "content" in fields:
            fields["parts"] = fields.pop("content")
        if isinstance(fields.get("parts"), str):
            fields["parts"] = [TextPart(value=fields["parts"])]
        if fields.get("role") == DELEGATED:
            fields |= {
                "role": "user",
                "metadata": {**(fields.get("metadata") or {}), "sent_as": DELEGATED},
            }
        return fields

    @property
    def text(self) -> str:
        """The text parts, joined without a separator; "" if there are none."""
        return "".join([part.value for part in self.parts if isinstance(part, TextPart)])

    @property
    def instructs(self) -> bool:
        """Return whether this is a system or developer message, which trimming never drops
        (§13.3).
        """
        return self.role in ("system", "developer")

    @property
    def is_delegated(self) -> bool:
        """Return whether this is a task from another agent."""
        return self.metadata.get("sent_as") == DELEGATED

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of this assistant message; [] if there are none."""
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
        """Return an assistant message, without a text part if `text` is empty (§9.5)."""
        metadata = {"tool_calls": [call.to_metadata() for call in tool_calls]} if tool_calls else {}
        return cls(
            role="assistant", parts=[TextPart(value=text)] if text else [], metadata=metadata
        )

    @classmethod
    def tool(cls, call: ToolCall, result: ToolResult, more: JsonObject | None = None) -> Message:
        """Return the result of one tool call; each provider groups such messages as its API
        requires (§9.5).

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
    """Why the call can't be executed: the model reads that as its result."""

    def to_metadata(self) -> JsonObject:
        """Return the call as an item of `Message.metadata["tool_calls"]` (§9.5)."""
        call = {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }
        return {**call, "fault": self.fault} if self.fault else call


DENIED = "denied"
"""The kind of a result by which a guardrail or a person denied the call, which is not a failure."""


class Postponed(Exchanged):
    """Marks a call whose tool has returned, and which another system finishes
    (`ToolContext.later`).
    """

    mark: str
    """The run recognises the call's token by it; the token can't be derived from it."""
    seconds: float | None = None
    """The time limit of the wait; None for ever."""


class Needed(Exchanged):
    """Marks a call whose tool has returned and needs a person's answer: the tool is called again
    with it.
    """

    question: str = Field(pattern=r"\S")
    choices: list[str] = []
    """The suggested answers; empty for none."""
    allow_other: bool = True
    """Whether another answer than the choices is accepted."""
    state: JsonObject = {}
    """The tool's own data, which is returned to it with the answer."""


class Answered(Exchanged):
    """A person's answer to a tool's question."""

    text: str | None = None
    """None without an answer, or if a person refused to give one."""
    state: JsonObject = {}
    """`Needed.state`."""


class ToolResult(BaseModel):
    """The result of one tool call, successful or not (§6.1)."""

    model_config = ConfigDict(populate_by_name=True)

    parts: list[Part]
    status: Literal["success", "error", "cancelled", "timeout"] = "success"
    error_kind: str | None = Field(default=None, alias="errorKind")
    error_message: str | None = Field(default=None, alias="errorMessage")
    duration_ms: float | None = Field(default=None, alias="durationMs")
    size: int | None = unless_empty(None)
    """The bytes of the complete text, if `parts` have fewer; None if they have all."""
    outcome_unknown: bool = Field(default=False, alias="outcomeUnknown", exclude_if=operator.not_)
    """Whether the call may have taken effect although it did not succeed: the model is informed,
    and perdure repeats only idempotent calls without asking a person."""
    later: Postponed | None = unless_empty(None)
    """Set while there is no result yet, because another system finishes the call."""
    needs: Needed | None = unless_empty(None)
    """Set while there is no result yet, because the tool waits for a person's answer."""

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
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
        """Return the result of a denied call; `text` is the reason for the model."""
        return cls(parts=[TextPart(value=text)], error_kind=DENIED)

    @classmethod
    def cancellation(cls, *, outcome_unknown: bool = False) -> ToolResult:
        """Return the result of a call that a cancelled run did not execute, or (`outcome_unknown`)
        may have begun.
        """
        return cls.failure(
            "[cancelled]", kind="cancelled", status="cancelled", outcome_unknown=outcome_unknown
        )

    @classmethod
    def failure(
        cls,
        text: str,
        *,
        kind: str,
        status: Literal["error", "cancelled", "timeout"] = "error",
        outcome_unknown: bool = False,
    ) -> ToolResult:
        """Return an unsuccessful result; `text` describes the error to the model."""
        return cls(
            parts=[TextPart(value=text)],
            status=status,
            error_kind=kind,
            error_message=text,
            outcome_unknown=outcome_unknown,
        )


MAX_TOKENS = 10**12
"""More than any call can use: such a count is an error."""


class Usage(BaseModel):
    """The tokens used by model calls, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_input_tokens: int = 0
    """The part of `input_tokens` that came from the provider's prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was spent on reasoning."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written into the prompt cache, if the provider charges
    for that."""
    cache_write_1h_tokens: int = unless_empty(0)
    """The part of `cache_write_tokens` that is kept for an hour, which costs more than five
    minutes."""
    lost_tokens: int = unless_empty(0)
    """The part of `total_tokens` of attempts that were lost together with their workers, so that
    the call was repeated. It is an estimate, because the provider did not report it: the input of
    each such attempt, and its known text."""

    def __add__(self, other: Usage) -> Usage:
        mine = vars(self)
        added = {name: mine[name] + count for name, count in vars(other).items() if count}
        return self.model_copy(update=added)

    @property
    def cache_share(self) -> float:
        """Return the share of `input_tokens` that came from the provider's prompt cache, 0.0 to
        1.0.
        """
        return (
            min(1.0, self.cached_input_tokens / self.input_tokens) if self.input_tokens > 0 else 0.0
        )

    def plausible(self) -> Usage:
        """Return the counts clamped to 0 to `MAX_TOKENS`, with a total of at least input and
        output, which limits use, and cache counts within the input.

        A server may omit the total, or report anything.
        """
        counts = {name: max(0, min(count, MAX_TOKENS)) for name, count in vars(self).items()}
        counts["total_tokens"] = max(
            counts["total_tokens"], counts["input_tokens"] + counts["output_tokens"]
        )
        cached = counts["cached_input_tokens"] = min(
            counts["cached_input_tokens"], counts["input_tokens"]
        )
        counts["cache_write_tokens"] = min(
            counts["cache_write_tokens"], counts["input_tokens"] - cached
        )
        counts["cache_write_1h_tokens"] = min(
            counts["cache_write_1h_tokens"], counts["cache_write_tokens"]
        )
        return Usage(**counts)


class ProviderCall(BaseModel):
    """A tool call that the provider itself executed while the model answered (`kind: provider`),
    with its readable part.
    """

    name: str
    id: str = ""
    status: str = "completed"
    details: JsonObject = {}


CutShort = Literal["length", "content_filter", "limit"]
"""The reason why an answer is incomplete: its length, the provider's filter, or a limit of the run
(`on_limit`)."""
FILTERED = frozenset(
    {
        "content_filter",
        "content_filtered",
        "safety",
        "image_safety",
        "recitation",
        "blocklist",
        "prohibited_content",
    }
    | {"spii", "sensitive", "guardrail_intervened"}
)
"""The words of providers, in lower case, for a reply that their filter ended."""


def end_word(finish_reason: Any) -> str:
    """Return a provider's finish reason in lower case, without additions such as Gemini's in
    `content_filter: PROHIBITED_CONTENT`; "" for anything that is not a word.
    """
    return finish_reason.partition(":")[0].strip().lower() if isinstance(finish_reason, str) else ""


class ModelReply(BaseModel):
    """The result of one model call: the assistant message, and the provider's data about the
    call.
    """

    message: Message
    usage: Usage = Usage()
    finish_reason: str | None = None
    """The provider's own word for why the model stopped (`stop`, `tool_calls`, `end_turn`, …)."""
    ended: Literal["whole", "cut_short", "paused"] = Field(
        default="whole", exclude_if=lambda ended: ended == "whole"
    )
    """The end of the reply: `cut_short`, before the model had finished; `paused`, in a turn that
    continues when the reply is sent back."""
    model: str | None = None
    response_id: str | None = None
    output: Any = None
    """The structured value if the agent declares `outputs`; None if the text is the output."""
    raw: JsonObject | None = None
    """The provider's own response, only if the run asks for it (`RunOptions.raw`)."""
    warnings: list[str] = []
    """Warnings about the call, which the run reports as `status` events."""
    provider_calls: list[ProviderCall] = Field(default_factory=list, exclude_if=operator.not_)
    """The calls of the provider's own tools."""
    faults: list[str] = []
    """Why the answer does not fit the agent's `outputs`; [] if it does, or if there are none."""
    cost_usd: float | None = unless_none()
    """The call's cost, in US dollars, by the worker's prices; None if they do not have the
    model."""
    thinking: str = unless_empty("")
    """The model's thinking, if the call was streamed (`RunOptions.stream`)."""
    lost_attempts: int = unless_empty(0)
    """The number of the call's attempts lost together with their workers, after they had called the
    model. `usage` includes an estimate of their use (`Usage.lost_tokens`)."""

    @property
    def cut_short(self) -> CutShort | None:
        """Why it ended before the model had finished; None for a complete reply."""
        if self.ended != "cut_short":
            return None
        return "content_filter" if end_word(self.finish_reason) in FILTERED else "length"
