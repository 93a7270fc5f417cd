"""The copy of an agent that may travel and be recorded, and the way back where it is used."""

from __future__ import annotations

from collections.abc import Callable

from ..agent import Agent, EnvReference
from ..errors import ConfigurationError
from .document import REDACTED, document_of, written_reference
from .environment import env_name, env_value, is_env_reference
from .places import Place, dotted, map_strings, pointer
from .secrets import LITERAL_SECRET, is_literal_secret, is_resolved_late


def portable(agent: Agent) -> Agent:
    """A copy without any secret: environment values in connections and options are references again.

    Secrets in `metadata`, which no run needs, are redacted. Raises ConfigurationError when a secret is
    written elsewhere in the agent itself.
    """

    def travelling(place: Place, text: str) -> str:
        reference = written_reference(agent, place, text)
        if reference and is_resolved_late(place):
            return reference
        if not is_literal_secret(place, text):
            return text
        if place[0] == "metadata":
            return REDACTED
        raise ConfigurationError(f"{dotted(place)} {LITERAL_SECRET}")

    return _rewritten(agent, travelling)


def resolve_environment(agent: Agent) -> Agent:
    """A copy with the references that `portable` left resolved from this process's environment.

    Raises ConfigurationError, naming the variable, when one is not set and has no default.
    """
    found: dict[str, EnvReference] = {}

    def resolved(place: Place, text: str) -> str:
        if not is_env_reference(text) or not is_resolved_late(place):
            return text
        value = env_value(text)
        if value is None:
            raise ConfigurationError(
                f"Environment variable '{env_name(text)}' is not set on the worker ({dotted(place)}): "
                "set it and start the worker again"
            )
        found[pointer(place)] = EnvReference(text, value)
        return value

    rewritten = _rewritten(agent, resolved)
    rewritten._references = {**agent._references, **found}
    return rewritten


def _rewritten(agent: Agent, change: Callable[[Place, str], str]) -> Agent:
    copy = Agent.model_validate(map_strings(document_of(agent), change))
    copy._references = dict(agent._references)
    copy._base_dir = agent._base_dir
    return copy
