"""The public, pure functions that convert between neutral messages and a provider's JSON (§7, §8, §9.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..agent import Agent
from ..messages import Message, ToolCall, ToolResult
from ..valid_text import valid_json
from .registry import provider_for


def to_request(
    agent: Agent,
    messages: Sequence[Message | Mapping[str, Any]],
    *,
    provider: str | None = None,
    api_type: str | None = None,
    extra_tools: Sequence[Mapping[str, Any]] = (),
    may_call_tools: bool = True,
) -> dict[str, Any]:
    """The keyword arguments of the SDK call that sends these messages (§7).

    `provider` and `api_type` override the agent's model. `extra_tools` holds `{name, description?, parameters?}`
    of tools that are not in the file itself, `parameters` being a JSON Schema. With `may_call_tools=False` the
    model has to answer without tools. Raises InvokerError for an unknown provider, and ValueError for an unknown
    API type, a message that is not valid (pydantic's ValidationError), or what the API cannot express.
    """
    neutral = [message if isinstance(message, Message) else Message.model_validate(message) for message in messages]
    found = provider_for(agent, provider=provider, api_type=api_type)
    return found.to_request(agent, neutral, extra_tools=extra_tools, may_call_tools=may_call_tools)


def process_response(
    agent: Agent, response: Mapping[str, Any], *, provider: str | None = None, api_type: str | None = None
) -> Any:
    """The answer in a provider's raw JSON: a list of ToolCall, the structured value, or the text (§8).

    A structured value is a StructuredResult when it is an object, and the plain text when that is not JSON.
    `provider` and `api_type` override the agent's model. Raises InvokerError for an unknown provider, and
    ValueError for an unknown API type or anything that is not a response of the API.
    """
    found = provider_for(agent, provider=provider, api_type=api_type, component="processor")
    return found.process(agent, valid_json(response))


def format_tool_messages(
    agent: Agent,
    response: Mapping[str, Any] | None,
    calls: Sequence[ToolCall],
    results: Sequence[str | ToolResult],
    *,
    text: str | None = None,
    provider: str | None = None,
    api_type: str | None = None,
) -> list[Message]:
    """The assistant message that asked for the calls, then one `tool` message for each result (§9.4, §9.5).

    They are neutral: every provider's `to_request` groups them as its API requires. The response's own content
    (thinking, reasoning) is kept for the API that it came from. `text` replaces the text of the response.
    Raises ValueError unless there is one result for each call, ModelError for a response that is not one of the
    API, and, when there is a response, the same errors as `process_response` for the provider and the API type.
    """
    asking = Message.assistant(text or "", calls)
    if response is not None:
        said = provider_for(agent, provider=provider, api_type=api_type).reply(agent, valid_json(response)).message
        asking = Message.assistant(said.text if text is None else text, calls)
        asking.metadata = {**said.metadata, **asking.metadata}
    return [asking, *(_tool_message(call, result) for call, result in zip(calls, results, strict=True))]


def _tool_message(call: ToolCall, result: str | ToolResult) -> Message:
    return Message.tool(call, ToolResult.of_text(result) if isinstance(result, str) else result)
