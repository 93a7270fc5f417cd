"""What the three wire formats share: from an answer to a reply, and the call through an SDK (§8)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ValidationError

from ..agent import Agent
from ..errors import ModelError
from ..messages import Message, ModelReply, ToolCall, Usage
from .base import Delta, Provider, StreamAssembler
from .clients import SdkNames, client_for
from .errors import UNEXPECTED_FORMAT, error_from_http
from .sdk_call import SdkCall
from .structured import StructuredResult, output_faults, structured_value

_STREAMING_ONLY = ("stream", "stream_options")


@dataclass(frozen=True)
class Answer:
    """What one response says, whatever the wire format."""

    text: str
    tool_calls: list[ToolCall]
    usage: Usage
    finish_reason: str | None
    cut_short: bool = False
    """The model stopped before its answer was whole, or refused."""
    original: list[Any] | None = None
    """The response's content when text and tool calls alone would lose something of it."""


class WireFormat(Provider):
    """A Provider of which a subclass says only what its API looks like."""

    api: ClassVar[str]
    """Marks the original content that this API takes back (`provider_content.api`)."""
    sdk: SdkNames
    path: ClassVar[str]
    """Of the SDK's endpoint, below its base URL."""

    @abstractmethod
    def read(self, response: Mapping[str, Any]) -> Answer:
        """May raise any LookupError, TypeError, AttributeError or ValueError on what is no response of this API."""

    @abstractmethod
    def assembler(self) -> StreamAssembler: ...

    def streaming(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The body that asks for the same answer as a stream."""
        return {**request, "stream": True}

    def process(self, agent: Agent, response: Mapping[str, Any]) -> Any:
        answer = self._answer(response)
        if answer.tool_calls:
            return answer.tool_calls
        return structured_value(answer.text) if agent.outputs else answer.text

    def reply(self, agent: Agent, response: Mapping[str, Any]) -> ModelReply:
        try:
            answer = self._answer(response)
        except ValueError as error:
            raise ModelError(str(error), kind="invalid_response", provider=self.key) from error
        output, warnings = _output(agent, answer)
        if answer.cut_short:
            warnings.insert(0, f"The model stopped early: {answer.finish_reason}")
        return ModelReply(
            message=self._message(answer),
            usage=answer.usage,
            finish_reason=_text(answer.finish_reason),
            model=_text(response.get("model")),
            response_id=_text(response.get("id")),
            output=output,
            warnings=warnings,
        )

    async def call(
        self,
        agent: Agent,
        request: Mapping[str, Any],
        *,
        timeout: float,
        on_delta: Callable[[Delta], None] | None = None,
        stream: bool = False,
    ) -> dict[str, Any]:
        await self.sdk.load()
        client = client_for(self.sdk, agent.model.connection if agent.model else None, provider=self.key)
        call = SdkCall(self.sdk, client, self.path, timeout, provider=self.key)
        if stream:
            response = await call.stream(self.streaming(request), self.assembler(), on_delta or _ignore)
        else:
            response = await call.post({key: request[key] for key in request if key not in _STREAMING_ONLY})
        if response.get("error"):
            raise error_from_http(200, {}, response, provider=self.key)
        return response

    def _answer(self, response: Mapping[str, Any]) -> Answer:
        try:
            return self.read(response)
        except (LookupError, TypeError, AttributeError, ValidationError) as error:
            raise ValueError(UNEXPECTED_FORMAT) from error

    def _message(self, answer: Answer) -> Message:
        message = Message.assistant(answer.text, answer.tool_calls)
        if answer.original is not None:
            message.metadata["provider_content"] = {"api": self.api, "content": answer.original}
        return message


def original_content(message: Message, api: str) -> list[Any] | None:
    """The provider's own content that the message carries for this API; None for another's, or none at all."""
    kept = message.metadata.get("provider_content")
    return kept["content"] if kept and kept.get("api") == api else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _output(agent: Agent, answer: Answer) -> tuple[Any, list[str]]:
    if answer.tool_calls or not agent.outputs:
        return None, []
    value = structured_value(answer.text)
    if not isinstance(value, StructuredResult):
        return None, ["The answer is no JSON object, although the agent declares outputs"]
    return value, output_faults(value, agent.outputs)


def _ignore(delta: Delta) -> None:
    """Nobody is watching."""
