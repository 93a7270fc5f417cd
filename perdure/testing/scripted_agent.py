"""Points an agent at a scripted model, in the place of its own."""

from __future__ import annotations

from ..agent import Agent, Connection, Model
from ..delegates import with_delegates
from ..providers.registry import PROVIDERS
from ..tools.prompty.files import recorded_agents
from .server import ScriptedModel


def with_script(agent: Agent, model: ScriptedModel) -> Agent:
    """The agent, whose model is the script, and so is that of the agents that it calls.

    Raises RuntimeError while the scripted model is not running, and as `recorded_agents` does.
    """
    others = recorded_agents(with_delegates(agent))
    scripted = _with_endpoint(agent, model)
    scripted._others = {path: _with_endpoint(other, model) for path, other in others.items()}
    return scripted


def _with_endpoint(agent: Agent, model: ScriptedModel) -> Agent:
    declared = agent.model or Model(id="scripted")
    provider = "anthropic" if declared.provider == "anthropic" else "openai"
    endpoint = model.anthropic_endpoint if provider == "anthropic" else model.openai_endpoint
    change = {"provider": provider, "connection": Connection(kind="anonymous", endpoint=endpoint)}
    if declared.provider_key not in PROVIDERS:
        change["api_type"] = "chat"  # Another package's API has a name that the script does not know.
    return agent.model_copy(update={"model": declared.model_copy(update=change)})
