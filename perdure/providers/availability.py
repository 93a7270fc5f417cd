"""Says, before anything is started, whether there is a provider for an agent's model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Literal, NamedTuple

from ..agent import Agent
from ..errors import ConfigurationError, InvokerError, LoadError, UnsupportedMediaError
from ..messages import Message
from ..spelling import did_you_mean
from .media import kind_problem, sendable_parts
from .registry import ENTRY_POINT_GROUP, PROVIDERS, provider_for

_API_TYPES = ("chat", "responses")
_NO_AGENTS = {
    "embedding": "an embedding model answers with numbers",
    "image": "an image model answers with a picture",
}


class ModelProblem(NamedTuple):
    """Why no agent can use a model."""

    field: Literal["provider", "apiType"]
    """The field of `model` that has to change."""
    text: str


def model_problem(provider: str, api_type: str) -> ModelProblem | None:
    """Why this process has nothing that calls such a model; None when it has. Never raises."""
    if provider not in PROVIDERS and provider not in (known := _known_providers()):
        return ModelProblem(
            "provider",
            f"No executor registered for key: {provider}{did_you_mean(provider, known)}. Expected "
            f"{', '.join(known)}, or the provider of a package that is installed here (perdure docs providers)",
        )
    try:
        _find(provider, api_type)
    except (ImportError, AttributeError) as error:
        return ModelProblem("provider", f"the package that adds the provider {provider!r} can't be imported: {error}")
    except ValueError:
        return ModelProblem("apiType", _unsupported(provider, api_type))
    return None


def require_model(agent: Agent) -> None:
    """Raises InvokerError for a provider that this process does not know, and LoadError for an API that it lacks."""
    problem = next(filter(None, (model_problem(model.provider_key, model.api_type) for model in agent.models)), None)
    if problem is None:
        return
    if problem.field == "provider":
        raise InvokerError(problem.text)
    raise LoadError(problem.text, field="model.apiType")


def media_problem(provider: str, api_type: str, kind: str) -> str | None:
    """Why such a model can't be sent inputs of this kind; None when it can, and for one that nothing is known of."""
    found = provider_for(Agent(), provider=provider, api_type=api_type)
    return None if found.media is None else kind_problem(kind, found.media, found.title)


def require_media(agent: Agent, messages: Sequence[Message]) -> None:
    """Raises UnsupportedMediaError for messages with media that none of the agent's models can be sent."""
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


def require_provider(provider: str) -> None:
    """Raises ConfigurationError for a provider that this process does not know, and names those that it does."""
    if provider not in PROVIDERS and provider not in (known := _known_providers()):
        hint = did_you_mean(provider, known)
        raise ConfigurationError(f"there is no provider {provider!r}{hint}: expected one of {', '.join(known)}")


def _known_providers() -> list[str]:
    return sorted({*PROVIDERS, *(entry_point.name for entry_point in entry_points(group=ENTRY_POINT_GROUP))})


def _find(provider: str, api_type: str) -> None:
    provider_for(Agent(), provider=provider, api_type=api_type)


def _unsupported(provider: str, api_type: str) -> str:
    text = f"Unsupported API type: {api_type}"
    if api_type in _NO_AGENTS:
        return f"{text}. Expected chat or responses: {_NO_AGENTS[api_type]} and is no agent. Call it with its own SDK"
    offered = [each for each in _API_TYPES if _offers(provider, each)]
    expected = " or ".join(offered) or "an API that it has"
    return f"{text}{did_you_mean(api_type, offered)}. Expected {expected} with the provider {provider!r}"


def _offers(provider: str, api_type: str) -> bool:
    try:
        _find(provider, api_type)
    except ValueError:
        return False
    return True
