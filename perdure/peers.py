"""What the environment names of a KAOS agent: agents that it may delegate to, and MCP servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .agent import Agent, McpTool, Tool
from .agent_settings import settings_of
from .asset_nodes import Connection
from .delegates import with_delegates
from .errors import ConfigurationError

SUB_AGENTS = "AGENT_SUB_AGENTS"
"""`NAME:URL,…`; comes before `PEER_AGENTS`."""
PEERS = "PEER_AGENTS"
"""`NAME,…`; the URL of each is in `PEER_AGENT_NAME_CARD_URL`."""
MCP_SERVERS = "MCP_SERVERS"
"""`NAME,…` or `[NAME,…]`; the URL of each is in `MCP_SERVER_NAME_URL`."""


def as_started(agent: Agent, environment: Mapping[str, str]) -> Agent:
    """The agent with all that it may delegate to as tools. Raises as `with_peers` and `with_delegates` do."""
    return with_delegates(with_peers(agent, environment), environment)


def with_peers(agent: Agent, environment: Mapping[str, str]) -> Agent:
    """A copy of a KAOS agent that also has what the environment names; any other agent itself.

    An agent or a tool that the file has under the same name stays as it is. Raises ConfigurationError, which names
    the variable, and LoadError as `settings_of` does.
    """
    if not any(environment.get(name) for name in (SUB_AGENTS, PEERS, MCP_SERVERS)) or not settings_of(agent).is_kaos:
        return agent
    known = {tool.name for tool in agent.tools or ()}
    servers: list[Tool] = [tool for tool in _servers(environment) if tool.name not in known]
    copy = agent.model_copy(update={"tools": [*(agent.tools or []), *servers] or None})
    peers = [{"name": name, "cardUrl": url} for name, url in _peers(environment)]
    return _with_entries(copy, peers) if peers else copy


def _with_entries(agent: Agent, peers: list[dict[str, Any]]) -> Agent:
    metadata = dict(agent.metadata or {})
    own = dict(metadata.get("perdure") or {})
    entries = own.get("agents") or []
    known = {entry.get("name") for entry in entries if isinstance(entry, Mapping)}
    own["agents"] = [*entries, *(peer for peer in peers if peer["name"] not in known)]
    return agent.model_copy(update={"metadata": {**metadata, "perdure": own}})


def _peers(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and URL of each agent."""
    if direct := environment.get(SUB_AGENTS, "").strip():
        for written in _names(direct):
            name, colon, url = written.partition(":")
            if not (colon and name.strip() and "://" in url):
                text = f"environment variable {SUB_AGENTS}: {written!r:.80}: expected NAME:URL"
                raise ConfigurationError(f"{text}, such as researcher:http://researcher:8000")
            yield name.strip(), url.strip()
        return
    for name in _names(environment.get(PEERS, "")):
        variable = f"PEER_AGENT_{name.upper().replace('-', '_')}_CARD_URL"
        yield name, _url(environment, variable, f"{PEERS} names the agent {name!r}")


def _servers(environment: Mapping[str, str]) -> Iterator[McpTool]:
    written = environment.get(MCP_SERVERS, "").strip()
    if written.startswith("[") and written.endswith("]"):
        written = written[1:-1]
    for name in _names(written):
        url = _url(environment, f"MCP_SERVER_{name}_URL", f"{MCP_SERVERS} names the server {name!r}").rstrip("/")
        endpoint = url if url.endswith("/mcp") else f"{url}/mcp"
        yield McpTool(name=name, connection=Connection(kind="anonymous", endpoint=endpoint))


def _url(environment: Mapping[str, str], variable: str, why: str) -> str:
    if url := environment.get(variable, "").strip():
        return url
    raise ConfigurationError(f"environment variable {variable} is not set: expected a URL, because {why}")


def _names(written: str) -> list[str]:
    return [name.strip().strip("\"'") for name in written.split(",") if name.strip()]
