"""Names and attributes of the spans of a run's activities, from recorded values; shared by live and
rebuilt traces.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError

from ..agents import Agent, Model
from ..guardrails import GuardrailResult
from ..history.events import NANOSECONDS
from ..messages import Message, ModelReply, ToolResult, Usage
from ..protocol.activities import MODEL_ERROR, CompactInput, JudgeInput, ModelFailure, ModelInput
from ..redaction import redact
from ..text import bounded_text
from ..tool_calls import ToolRequest
from ..trace_ids import TraceIds
from . import content

Value = str | bool | int | float | tuple[str, ...]
SpanEvent = tuple[str, int, dict[str, str | int]]
"""Name, time in nanoseconds since the epoch, and attributes."""


def nanoseconds(seconds: float) -> int:
    """Convert a time."""
    return int(seconds * NANOSECONDS)


@dataclass
class SpanFacts:
    """Facts stated by a span."""

    name: str
    id: int
    parent_id: int | None
    attributes: dict[str, Value]
    kind: SpanKind = SpanKind.INTERNAL
    error: str | None = None
    """Error text in the span's status; None without an error."""
    links: list[tuple[int, int]] = field(default_factory=list)
    """Trace and span ids of other traces."""
    start: int = 0
    """In nanoseconds since the epoch, like `end`."""
    end: int | None = None
    """None while it is open."""
    events: list[SpanEvent] = field(default_factory=list)

    def set_error(self, kind: str, text: str = "") -> None:
        """Record that the span ended with an error of that kind."""
        self.attributes["error.type"] = kind
        self.error = text


UNFINISHED = "perdure.unfinished"
"""Set on a span that had not ended when it was read; its end is then that moment."""
COST = "gen_ai.usage.cost"


def operation(span: ReadableSpan) -> str:
    """Return the operation, such as `chat`; without the attribute, the first word of the span's
    name.
    """
    return str((span.attributes or {}).get("gen_ai.operation.name") or span.name.partition(" ")[0])


def content_of(attribute: Any) -> Any:
    """Return the value of an attribute that contains JSON; any other value unchanged."""
    if not isinstance(attribute, str):
        return attribute
    try:
        return json.loads(attribute)
    except ValueError:
        return attribute


def is_open(span: ReadableSpan) -> bool:
    """Return whether the span had not ended when it was read."""
    return span.end_time is None or bool((span.attributes or {}).get(UNFINISHED))


def seconds(span: ReadableSpan) -> float | None:
    """Return the span's duration; None if its end is unknown."""
    return None if span.end_time is None else (span.end_time - (span.start_time or 0)) / NANOSECONDS


def number(span: ReadableSpan, name: str) -> float | None:
    """Return an attribute's value, if it is a number."""
    value = (span.attributes or {}).get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def tokens(span: ReadableSpan) -> tuple[int, int] | None:
    """Return the tokens of input and output; None if they are not counted."""
    found = [number(span, f"gen_ai.usage.{side}_tokens") for side in ("input", "output")]
    return None if found == [None, None] else (int(found[0] or 0), int(found[1] or 0))


def problem(span: ReadableSpan) -> str:
    """Return the error in one line; "" without one."""
    kind = str((span.attributes or {}).get("error.type") or "")
    if not kind and span.status.status_code is not StatusCode.ERROR:
        return ""
    said = span.status.description or ""
    if said.startswith(kind):
        return said or "failed"
    return f"{kind}: {said}" if said else kind


PROVIDERS = {"azure": "azure.ai.openai", "foundry": "azure.ai.inference"}
"""`gen_ai.provider.name` of providers that have another name there than perdure's key."""
MAX_ERROR_BYTES = 2000

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
}

End = Any
"""How an activity ended: its result, or its error; None if unknown."""


@dataclass(frozen=True)
class Tries:
    """Counts of an activity's attempts."""

    attempt: int = 1
    """Number of the decisive execution, from 1."""
    refusals: int = 0
    """Number of times that a worker refused it, because it lacked something."""


class Describer:
    """Describes the spans of one run. `with_content` adds messages, arguments and results, without
    secrets.

    `session` is the id of the session of which the run is a turn; "" otherwise.
    """

    def __init__(
        self, ids: TraceIds, agent: Agent, *, with_content: bool = False, session: str = ""
    ) -> None:
        self.ids = ids
        self.agent = agent
        self.with_content = with_content
        self.session = session
        self.clean = cache(partial(redact, agent=agent))
        """Removes secrets from a text. Cached: a model call repeats most texts of the previous
        one."""

    def with_agent(self, agent: Agent) -> Describer:
        """Return the same describer for a link of the run with this agent."""
        return Describer(self.ids, agent, with_content=self.with_content, session=self.session)

    def chat(
        self,
        input: ModelInput,
        end: End,
        tries: Tries | None = None,
        messages: Sequence[Message] = (),
    ) -> SpanFacts:
        """Describe one attempt of a model call."""
        model = input.model_of(self.agent)
        facts = self._facts(
            f"chat {model.id}" if model.id else "chat",
            self.ids.chat(input.iteration, input.earlier),
            {
                "gen_ai.operation.name": "chat",
                **({"gen_ai.agent.name": self.agent.name} if self.agent.name else {}),
                **(_of_model(model) if self.agent.model else {}),
                **self._request(model),
                "perdure.iteration": input.iteration,
                **({"perdure.mock": True} if input.mock else {}),
                **_beyond_first("perdure.try", input.earlier + 1),
                **_attempts(tries),
            },
            kind=SpanKind.CLIENT,
        )
        if self.with_content and messages:
            facts.attributes |= content.conversation(messages, self.clean)
        if isinstance(end, ModelReply):
            facts.attributes |= _of_reply(end)
            if self.with_content:
                facts.attributes |= content.reply(end.message, end.finish_reason, self.clean)
                if end.provider_calls:
                    did = json.dumps(
                        [call.model_dump() for call in end.provider_calls], ensure_ascii=False
                    )
                    facts.attributes["perdure.provider_tools.details"] = self.text(did)
        return self._with_error(facts, end)

    def tool(
        self, request: ToolRequest, end: End, *, earlier: int = 0, tries: Tries | None = None
    ) -> SpanFacts:
        """Describe one execution of a tool."""
        facts = self._facts(
            f"execute_tool {request.name}",
            self.ids.tool(request.iteration, request.index, earlier),
            {
                "gen_ai.operation.name": "execute_tool",
                **self._of_tool(request),
                **_beyond_first("perdure.tool.execution", earlier + 1),
                **_attempts(tries),
            },
        )
        if self.with_content:
            facts.attributes |= content.arguments(request.arguments, self.clean)
        if isinstance(end, ToolResult):
            if end.status != "success":
                # A tool's text about its failure is content.
                facts.set_error(
                    end.error_kind or end.status, self.text(end.text) if self.with_content else ""
                )
            if self.with_content:
                facts.attributes |= content.result(end, self.clean)
        return self._with_error(facts, end)

    def judge(self, input: JudgeInput | None, end: End, link: str, activity_id: str) -> SpanFacts:
        """Describe a guardrail, or a tool's own approval check; `input` is None if it is
        unknown.
        """
        name = "guardrail" if input is None else f"guardrail {input.point}"
        attributes: dict[str, Value] = {"perdure.guardrail.point": input.point} if input else {}
        if input and input.request:
            attributes |= self._of_tool(input.request)
        if isinstance(end, GuardrailResult):
            attributes["perdure.guardrail.allowed"] = end.allowed
            attributes["perdure.guardrail.rewritten"] = end.rewrite is not None
            if end.reason and self.with_content:
                attributes["perdure.guardrail.reason"] = self.text(end.reason)
        return self._with_error(
            self._facts(name, self.ids.activity(link, activity_id), attributes), end
        )

    def compact(
        self, input: CompactInput, end: End, link: str, activity_id: str, tries: Tries | None = None
    ) -> SpanFacts:
        """Describe a compaction."""
        attributes = {"perdure.compaction.dropped": input.drop, **_attempts(tries)}
        facts = self._facts("compact", self.ids.activity(link, activity_id), attributes)
        if self.with_content and isinstance(end, str):
            facts.attributes["perdure.compaction.summary"] = self.text(end)
        return self._with_error(facts, end)

    @property
    def of_model(self) -> dict[str, Value]:
        """Attributes that identify the model."""
        return _of_model(self.agent.model) if self.agent.model else {}

    def text(self, text: str) -> str:
        """Redact and shorten a foreign text."""
        return bounded_text(self.clean(text), MAX_ERROR_BYTES)

    def _request(self, model: Model) -> dict[str, Value]:
        said: dict[str, Value] = {"gen_ai.output.type": "json" if self.agent.outputs else "text"}
        options = model.options
        for option, name in _OPTIONS.items():
            if options is not None and (value := getattr(options, option)) is not None:
                said[f"gen_ai.request.{name}"] = value
        if options is not None and options.stop_sequences:
            said["gen_ai.request.stop_sequences"] = tuple(options.stop_sequences)
        return {**said, **_address(model.connection.endpoint if model.connection else None)}

    def _of_tool(self, request: ToolRequest) -> dict[str, Value]:
        tool = self.agent.tool(request.name)
        kind = "function" if tool is not None and tool.kind == "function" else "extension"
        return {
            "gen_ai.tool.name": request.name,
            "gen_ai.tool.call.id": request.call_id,
            "gen_ai.tool.type": kind,
            "perdure.iteration": request.iteration,
            "perdure.tool.index": request.index,
        }

    def _facts(
        self,
        name: str,
        id: int,
        attributes: Mapping[str, Value],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> SpanFacts:
        own: dict[str, Value] = {"perdure.run.id": self.ids.workflow_id, **attributes}
        if self.session:
            own["gen_ai.conversation.id"] = self.session
        return SpanFacts(name, id, self.ids.agent, own, kind)

    def _with_error(self, facts: SpanFacts, end: End) -> SpanFacts:
        if isinstance(end, BaseException):
            kind, text = described_error(end)
            facts.set_error(kind, self.text(text))
        return facts


def _of_model(model: Model) -> dict[str, Value]:
    key = model.provider_key
    said: dict[str, Value] = {"gen_ai.provider.name": PROVIDERS.get(key, key)}
    return {**said, "gen_ai.request.model": model.id} if model.id else said


def described_error(error: BaseException) -> tuple[str, str]:
    """Return `error.type` and a text for an activity's error, live or from its history."""
    cause = error.cause if isinstance(error, ActivityError) and error.cause else error
    match cause:
        case ApplicationError() if cause.type == MODEL_ERROR and cause.details:
            return ModelFailure.model_validate(_plain(cause.details[0])).kind, cause.message
        case ApplicationError():
            return cause.type or "_OTHER", cause.message
        case TimeoutError():
            kind = cause.type.name.lower() if cause.type else ""
            return ("worker_lost" if kind == "heartbeat" else "timeout"), cause.message
        case CancelledError() | asyncio.CancelledError():
            return "cancelled", "cancelled"
    return type(cause).__name__, str(cause)


def usage_attributes(usage: Usage, cost_usd: float | None) -> dict[str, Value]:
    """Return the tokens, as the GenAI conventions count them, and their cost, if known."""
    said: dict[str, Value] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_input_tokens:
        said["gen_ai.usage.cache_read.input_tokens"] = usage.cached_input_tokens
    if usage.reasoning_tokens:
        said["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    if usage.cache_write_tokens:
        said["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if cost_usd is not None:
        said[COST] = cost_usd
    return said


def _of_reply(reply: ModelReply) -> dict[str, Value]:
    said = usage_attributes(reply.usage, reply.cost_usd)
    if reply.response_id:
        said["gen_ai.response.id"] = reply.response_id
    if reply.model:
        said["gen_ai.response.model"] = reply.model
    if reply.finish_reason:
        said["gen_ai.response.finish_reasons"] = (reply.finish_reason,)
    if reply.provider_calls:
        said["perdure.provider_tools"] = tuple(call.name for call in reply.provider_calls)
    return said


def _attempts(tries: Tries | None) -> dict[str, Value]:
    counted = tries or Tries()
    refusals: dict[str, Value] = {"perdure.refusals": counted.refusals} if counted.refusals else {}
    return {**_beyond_first("perdure.attempt", counted.attempt), **refusals}


def _beyond_first(name: str, number: int) -> dict[str, Value]:
    return {name: number} if number > 1 else {}


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, ModelFailure) else value


def _address(endpoint: str | None) -> dict[str, Value]:
    """Return the address of the model's API if the file contains it, not a reference."""
    if not endpoint or "${" in endpoint:
        return {}
    try:
        url = urlsplit(endpoint)
        said: dict[str, Value] = {"server.address": url.hostname} if url.hostname else {}
        return {**said, "server.port": url.port} if url.port else said
    except ValueError:
        return {}
