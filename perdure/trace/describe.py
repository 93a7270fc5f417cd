"""What the spans of a run's activities say, from values that are recorded: one place, for live and rebuilt traces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError

from ..agent import Agent, Model
from ..guardrails import GuardrailResult
from ..messages import Message, ModelReply, ToolResult, Usage
from ..protocol.activities import MODEL_ERROR, CompactInput, JudgeInput, ModelFailure, ModelInput
from ..redaction import redact
from ..tool_calls import ToolRequest
from ..trace_ids import TraceIds
from ..valid_text import bounded_text
from . import content
from .facts import SpanFacts, Value
from .shown import COST

PROVIDERS = {"azure": "azure.ai.openai", "foundry": "azure.ai.inference"}
"""`gen_ai.provider.name` where it is not perdure's own key."""
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
"""How an activity has ended: with its result, or with the error that it raised; None where that is not known."""


class Describer:
    """Describes the spans of one run. `with_content` adds messages, arguments and results, without secrets.

    `session` is the id of the session that the run is a turn of; "" for no turn.
    """

    def __init__(self, ids: TraceIds, agent: Agent, *, with_content: bool = False, session: str = "") -> None:
        self.ids = ids
        self.agent = agent
        self.with_content = with_content
        self.session = session
        self.clean = cache(partial(redact, agent=agent))
        """Takes secrets out of a text. Each call of the model has most texts of the one before it."""

    def chat(self, input: ModelInput, end: End, *, attempt: int = 1, messages: Sequence[Message] = ()) -> SpanFacts:
        """One try of a model call."""
        model = self.agent.models[input.fallback]
        facts = self._facts(
            f"chat {model.id}" if model.id else "chat",
            self.ids.chat(input.iteration, input.earlier),
            {
                "gen_ai.operation.name": "chat",
                **(_of_model(model) if self.agent.model else {}),
                **self._request(model),
                "perdure.iteration": input.iteration,
                **({"perdure.mock": True} if input.mock else {}),
                **_beyond_first("perdure.try", input.earlier + 1),
                **_beyond_first("perdure.attempt", attempt),
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
                    did = json.dumps([call.model_dump() for call in end.provider_calls], ensure_ascii=False)
                    facts.attributes["perdure.provider_tools.details"] = self.text(did)
        return self._ended(facts, end)

    def tool(self, request: ToolRequest, end: End, *, earlier: int = 0, attempt: int = 1) -> SpanFacts:
        """One execution of a tool."""
        facts = self._facts(
            f"execute_tool {request.name}",
            self.ids.tool(request.iteration, request.index, earlier),
            {
                "gen_ai.operation.name": "execute_tool",
                **self._of_tool(request),
                **_beyond_first("perdure.tool.execution", earlier + 1),
                **_beyond_first("perdure.attempt", attempt),
            },
        )
        if self.with_content:
            facts.attributes |= content.arguments(request.arguments, self.clean)
        if isinstance(end, ToolResult):
            if end.status != "success":
                # What a tool says of its failure is content.
                facts.failed(end.error_kind or end.status, self.text(end.text) if self.with_content else "")
            if self.with_content:
                facts.attributes |= content.result(end, self.clean)
        return self._ended(facts, end)

    def judge(self, input: JudgeInput | None, end: End, link: str, activity_id: str) -> SpanFacts:
        """A guardrail, or a tool's own function that is asked about approvals; None where its input is not known."""
        name = "guardrail" if input is None else f"guardrail {input.point}"
        attributes: dict[str, Value] = {"perdure.guardrail.point": input.point} if input else {}
        if input and input.request:
            attributes |= self._of_tool(input.request)
        if isinstance(end, GuardrailResult):
            attributes["perdure.guardrail.allowed"] = end.allowed
            attributes["perdure.guardrail.rewritten"] = end.rewrite is not None
            if end.reason and self.with_content:
                attributes["perdure.guardrail.reason"] = self.text(end.reason)
        return self._ended(self._facts(name, self.ids.activity(link, activity_id), attributes), end)

    def compact(self, input: CompactInput, end: End, link: str, activity_id: str, *, attempt: int = 1) -> SpanFacts:
        """A compactor at work."""
        attributes = {"perdure.compaction.dropped": input.drop, **_beyond_first("perdure.attempt", attempt)}
        facts = self._facts("compact", self.ids.activity(link, activity_id), attributes)
        if self.with_content and isinstance(end, str):
            facts.attributes["perdure.compaction.summary"] = self.text(end)
        return self._ended(facts, end)

    @property
    def of_model(self) -> dict[str, Value]:
        """The attributes that say which model."""
        return _of_model(self.agent.model) if self.agent.model else {}

    def text(self, text: str) -> str:
        """A text of somebody else: without secrets, and not too long."""
        return bounded_text(self.clean(text), MAX_ERROR_BYTES)

    def _request(self, model: Model) -> dict[str, Value]:
        said: dict[str, Value] = {"gen_ai.output.type": "json" if self.agent.outputs else "text"}
        options = model.options
        for field, name in _OPTIONS.items():
            if options is not None and (value := getattr(options, field)) is not None:
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
        self, name: str, id: int, attributes: Mapping[str, Value], *, kind: SpanKind = SpanKind.INTERNAL
    ) -> SpanFacts:
        own: dict[str, Value] = {"perdure.run.id": self.ids.workflow_id, **attributes}
        if self.session:
            own["gen_ai.conversation.id"] = self.session
        return SpanFacts(name, id, self.ids.agent, own, kind)

    def _ended(self, facts: SpanFacts, end: End) -> SpanFacts:
        if isinstance(end, BaseException):
            kind, text = described_error(end)
            facts.failed(kind, self.text(text))
        return facts


def _of_model(model: Model) -> dict[str, Value]:
    key = model.provider_key
    said: dict[str, Value] = {"gen_ai.provider.name": PROVIDERS.get(key, key)}
    return {**said, "gen_ai.request.model": model.id} if model.id else said


def described_error(error: BaseException) -> tuple[str, str]:
    """`error.type` and a text for what an activity has raised, or for what the history says of it."""
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
    """The tokens, as the GenAI conventions count them, and what they have cost, if that is known."""
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


def _beyond_first(name: str, number: int) -> dict[str, Value]:
    return {name: number} if number > 1 else {}


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, ModelFailure) else value


def _address(endpoint: str | None) -> dict[str, Value]:
    """Where the model is asked, if the file says it itself and not by a reference."""
    if not endpoint or "${" in endpoint:
        return {}
    try:
        url = urlsplit(endpoint)
        said: dict[str, Value] = {"server.address": url.hostname} if url.hostname else {}
        return {**said, "server.port": url.port} if url.port else said
    except ValueError:
        return {}
