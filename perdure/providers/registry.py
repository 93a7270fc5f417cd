"""Finds an agent's provider in a small table and in the entry-point group `perdure.providers` (§11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import entry_points

from ..agent import DEFAULT_PROVIDER, Agent
from ..errors import InvokerError
from ..model_names import PROVIDERS_GROUP
from .anthropic_messages import AnthropicMessages
from .base import Provider
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

ENTRY_POINT_GROUP = PROVIDERS_GROUP

ProviderFactory = Callable[[str, str], Provider]
"""Takes the provider's key and the API type; raises ValueError when the provider has no such API."""


def _openai(key: str, api_type: str) -> Provider:
    match api_type:
        case "chat":
            return OpenAIChat(key)
        case "responses":
            return OpenAIResponses(key)
    raise _unsupported(api_type)


def _anthropic(key: str, api_type: str) -> Provider:
    if api_type != "chat":
        raise _unsupported(api_type)
    return AnthropicMessages(key)


PROVIDERS: dict[str, ProviderFactory] = {
    "openai": _openai,
    "azure": _openai,
    "foundry": _openai,
    "anthropic": _anthropic,
}
"""Those that come with perdure, by key."""


def provider_for(
    agent: Agent, *, provider: str | None = None, api_type: str | None = None, component: str = "executor"
) -> Provider:
    """The provider that the agent's model names, unless `provider` or `api_type` overrides it.

    The same object for the same key and API type. Raises InvokerError for an unknown key, with `component` in its
    text, and ValueError for an unknown API type.
    """
    model = agent.model
    key = provider or (model and model.provider) or DEFAULT_PROVIDER
    found = _provider(key, api_type or (model and model.api_type) or "chat")
    if found is None:
        raise InvokerError(f"No {component} registered for key: {key}")
    return found


@lru_cache(maxsize=256)
def _provider(key: str, api_type: str) -> Provider | None:
    factory = PROVIDERS.get(key) or _installed(key)
    return factory(key, api_type) if factory else None


def _installed(key: str) -> ProviderFactory | None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=key):
        factory: ProviderFactory = entry_point.load()
        return factory
    return None


def _unsupported(api_type: str) -> ValueError:
    return ValueError(f"Unsupported API type: {api_type}")
