"""Finds an agent's provider (§11), checks beforehand that it exists, and offers its pure
conversions (§7, §8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, NamedTuple

from ..agents import DEFAULT_PROVIDER, PROVIDERS_GROUP, Agent
from ..errors import InvokerError, LoadError, UnsupportedMediaError
from ..json_types import JsonObject, JsonView
from ..messages import Message, ToolCall, ToolResult
from ..text import did_you_mean, valid_json
from .base import Provider
from .tool_call_text import kind_problem, sendable_parts

ENTRY_POINT_GROUP = PROVIDERS_GROUP

ProviderFactory = Callable[[str, str], Provider]
"""Takes the provider's key and the API type; raises ValueError when the provider has no such
API."""


_OPENAI = {"chat": ".openai_chat:OpenAIChat", "responses": ".openai_responses:OpenAIResponses"}
PROVIDERS: Mapping[str, Mapping[str, str]] = {
    "openai": _OPENAI,
    "azure": _OPENAI,
    "foundry": _OPENAI,
    "anthropic": {"chat": ".anthropic:AnthropicMessages"},
}
"""The providers that come with perdure: key → API type → module and class, imported on use."""


def provider_for(
    agent: Agent,
    *,
    provider: str | None = None,
    api_type: str | None = None,
    component: str = "executor",
) -> Provider:
    """Return the provider that the agent's model names, unless `provider` or `api_type` overrides
    it.

    The same object for the same key and API type. Raises InvokerError for an unknown key, with
    `component` in its text, and ValueError for an unknown API type.
    """
    model = agent.model
    key = provider or (model and model.provider) or DEFAULT_PROVIDER
    found = _provider(key, api_type or (model and model.api_type) or "chat")
    if found is None:
        raise InvokerError(f"No {component} registered for key: {key}")
    return found


@lru_cache(maxsize=256)
def _provider(key: str, api_type: str) -> Provider | None:
    """Return the provider; None for a key unknown to this process. Raises ValueError for an API
    that the provider lacks.
    """
    if key not in PROVIDERS:
        installed = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=key)), None)
        factory: ProviderFactory | None = installed.load() if installed else None
        return factory(key, api_type) if factory else None
    if api_type not in PROVIDERS[key]:
        raise ValueError(f"Unsupported API type: {api_type}")
    module, _, name = PROVIDERS[key][api_type].partition(":")
    make: Callable[[str], Provider] = getattr(import_module(module, __package__), name)
    return make(key)


class ModelProblem(NamedTuple):
    """The reason why agents can't use a model."""

    field: Literal["provider", "apiType", "id"]
    """The field of `model` that must change."""
    text: str
    is_fatal: bool = True
    """Whether it prevents runs; otherwise a server may well accept it."""


def model_problem(provider: str, api_type: str) -> ModelProblem | None:
    """Return why this process can't call such a model; None if it can. Never raises."""
    if provider not in PROVIDERS and provider not in (known := _known_providers()):
        return ModelProblem(
            "provider",
            f"No executor registered for key: {provider}{did_you_mean(provider, known)}. Expected "
            f"{', '.join(known)}, or the provider of a package that is installed here (perdure "
            "docs providers)",
        )
    try:
        is_offered = _offers(provider, api_type)
    except (ImportError, AttributeError) as error:
        return ModelProblem(
            "provider",
            f"the package that adds the provider {provider!r} can't be imported: {error}",
        )
    if is_offered:
        return None
    offered = [each for each in ("chat", "responses") if _offers(provider, each)]
    return ModelProblem(
        "apiType",
        f"Unsupported API type: {api_type}{did_you_mean(api_type, offered)}. Expected "
        f"{' or '.join(offered) or 'an API that it has'} with the provider {provider!r}",
    )


def id_problem(
    provider: str, id: str | None, endpoint: str | None, kind: str | None
) -> ModelProblem | None:
    """Return the problem of a model without an id; None for one that has an id, or needs none.
    Never raises.

    `endpoint` and `kind` are those of its connection. A self-hosted server, or the provider of an
    installed package, may have a single model; an endpoint or the environment may name a deployment
    of Azure.
    """
    if (id or "").strip() or "/deployments/" in (endpoint or ""):
        return None
    is_own = provider not in ("openai", "anthropic") or bool(endpoint) or kind == "reference"
    return ModelProblem(
        "id", "is missing: expected a model's id, such as gpt-4.1-mini", is_fatal=not is_own
    )


def require_ids(agent: Agent) -> None:
    """Raise LoadError if the agent's model, or one of its fallback, has no id and needs one."""
    for model in agent.models if agent.model else ():
        endpoint, kind = (
            (model.connection.endpoint, model.connection.kind) if model.connection else (None, None)
        )
        problem = id_problem(model.provider_key, model.id, endpoint, kind)
        if problem is not None and problem.is_fatal:
            raise LoadError(problem.text, field="model.id")


def require_model(agent: Agent) -> None:
    """Raise InvokerError for a provider unknown to this process, and LoadError for an API that it
    lacks, and for a missing id.
    """
    require_ids(agent)
    problem = next(
        filter(None, (model_problem(model.provider_key, model.api_type) for model in agent.models)),
        None,
    )
    if problem is None:
        return
    if problem.field == "provider":
        raise InvokerError(problem.text)
    raise LoadError(problem.text, field="model.apiType")


def media_problem(provider: str, api_type: str, kind: str) -> str | None:
    """Return why such a model can't take inputs of this kind; None if it can, or if its media are
    unknown.
    """
    found = provider_for(Agent(), provider=provider, api_type=api_type)
    return None if found.media is None else kind_problem(kind, found.media, found.title)


def require_media(agent: Agent, messages: Sequence[Message]) -> None:
    """Raise UnsupportedMediaError for messages with media that none of the agent's models can
    take.
    """
    refusals = []
    for number in range(len(agent.models)):
        provider = provider_for(agent.with_fallback(number))
        try:
            for message in messages if provider.media is not None else ():
                sendable_parts(message, provider.media or {}, provider.title)
            return
        except UnsupportedMediaError as error:
            refusals.append(error)
    raise refusals[0]


def _known_providers() -> list[str]:
    return sorted(
        {*PROVIDERS, *(entry_point.name for entry_point in entry_points(group=ENTRY_POINT_GROUP))}
    )


def _offers(provider: str, api_type: str) -> bool:
    """Return whether the provider has the API, without importing perdure's own providers."""
    if provider in PROVIDERS:
        return api_type in PROVIDERS[provider]
    try:
        return _provider(provider, api_type) is not None
    except ValueError:
        return False


def to_request(
    agent: Agent,
    messages: Sequence[Message | JsonView],
    *,
    provider: str | None = None,
    api_type: str | None = None,
    extra_tools: Sequence[JsonView] = (),
    may_call_tools: bool = True,
) -> JsonObject:
    """Return the keyword arguments of the SDK call that sends these messages (§7).

    `provider` and `api_type` override the agent's model. `extra_tools` holds `{name, description?,
    parameters?}` of tools that are not in the file itself, `parameters` being a JSON Schema. With
    `may_call_tools=False` the model must answer without tools. Raises InvokerError for an unknown
    provider, and ValueError for an unknown API type, a message that is not valid (pydantic's
    ValidationError), or anything that the API cannot express.
    """
    neutral = [
        message if isinstance(message, Message) else Message.model_validate(message)
        for message in messages
    ]
    found = provider_for(agent, provider=provider, api_type=api_type)
    return found.to_request(agent, neutral, extra_tools=extra_tools, may_call_tools=may_call_tools)


def process_response(
    agent: Agent, response: JsonView, *, provider: str | None = None, api_type: str | None = None
) -> Any:
    """Return the answer in a provider's raw JSON: a list of ToolCall, the structured value, or the
    text (§8).

    A structured value is a StructuredResult if it is an object, and the plain text if that is not
    JSON. `provider` and `api_type` override the agent's model. Raises InvokerError for an unknown
    provider, and ValueError for an unknown API type or anything that is not a response of the API.
    """
    found = provider_for(agent, provider=provider, api_type=api_type, component="processor")
    return found.process(agent, valid_json(response))


def format_tool_messages(
    agent: Agent,
    response: JsonView | None,
    calls: Sequence[ToolCall],
    results: Sequence[str | ToolResult],
    *,
    text: str | None = None,
    provider: str | None = None,
    api_type: str | None = None,
) -> list[Message]:
    """Return the assistant message that asked for the calls, then one `tool` message for each
    result (§9.4, §9.5).

    They are neutral: every provider's `to_request` groups them as its API requires. The response's
    own content (thinking, reasoning) is kept for the API that it came from. `text` replaces the
    text of the response. Raises ValueError unless there is one result for each call, ModelError for
    a response that is not one of the API, and, when there is a response, the same errors as
    `process_response` for the provider and the API type.
    """
    asking = Message.assistant(text or "", calls)
    if response is not None:
        said = (
            provider_for(agent, provider=provider, api_type=api_type)
            .reply(agent, valid_json(response))
            .message
        )
        asking = Message.assistant(said.text if text is None else text, calls)
        asking.metadata = {**said.metadata, **asking.metadata}
    return [
        asking,
        *(_tool_message(call, result) for call, result in zip(calls, results, strict=True)),
    ]


def _tool_message(call: ToolCall, result: str | ToolResult) -> Message:
    return Message.tool(call, ToolResult.of_text(result) if isinstance(result, str) else result)
