"""Agents that an agent delegates to or hands over to: those of `metadata.perdure.agents` and
`handoffs`, and peers from the environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from ..agents import Agent, loaded_from
from ..declared_tools import (
    MAX_CONTEXT,
    Connection,
    CustomTool,
    McpTool,
    PromptyTool,
    Property,
    Tool,
    ToolPolicy,
)
from ..errors import ConfigurationError, LoadError
from ..json_types import JsonObject, JsonView
from ..options import MAX_SECONDS, MIN_SECONDS
from ..text import did_you_mean, fault_text, function_name
from .agent_file import context_messages, settings_of
from .child_agents import DELEGATE, SUFFIX, TASK, TRANSFER
from .foreign import system_of

REMOTE = "delegate"
"""The kind of the tools that delegate to remote agents."""
_NO_VARIABLES: Mapping[str, str] = {}
_WHERE = "metadata.perdure.{}"
_FORM = "{name, path, description}, or {name, url, description} for a remote agent"
_HANDOFF_FORM = "the path of a .prompty file, or {name, path, description}"
_ELSEWHERE = ("protocol", "model", "retries", "headers", "api_key", "allowed_hosts")


class _Entry(BaseModel):
    """One agent in the file's list."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,52}$")
    path: str | None = None
    """The path of its file; an agent without one is remote, at `url`."""
    url: str | None = None
    card_url: str | None = None
    """The URL under the name that peers of other systems use."""
    description: str | None = None
    protocol: Literal["auto", "a2a", "openai"] = "auto"
    model: str | None = None
    context: int | None = Field(default=None, ge=0, le=MAX_CONTEXT)
    timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    retries: int | None = Field(default=None, ge=0, le=100)
    headers: dict[str, str] | None = None
    api_key: str | None = Field(default=None, repr=False)
    allowed_hosts: list[str] | None = None

    @model_validator(mode="after")
    def _require_one_place(self) -> _Entry:
        given = [
            to_camel(key) for key in ("path", "url", "card_url") if getattr(self, key) is not None
        ]
        if len(given) != 1:
            raise ValueError(
                f"expected either path (of a {SUFFIX} file) or url; it has "
                f"{' and '.join(given) or 'none'}"
            )
        if self.path is not None and (
            wrong := [key for key in _ELSEWHERE if key in self.model_fields_set]
        ):
            raise ValueError(f"{to_camel(wrong[0])} is for a remote agent, and this one has a path")
        return self


def with_delegates(agent: Agent, environment: Mapping[str, str] = _NO_VARIABLES) -> Agent:
    """Return a copy with a tool `delegate_to_NAME` for each of `metadata.perdure.agents`; the agent
    itself if there are none.

    The tool's one argument is the task, which becomes the message to that agent.
    `metadata.perdure.handoffs` become tools `transfer_to_NAME`, after whose call the run continues
    as that agent. For a system with peers, the environment may set the number of messages that a
    delegated task takes along. Raises LoadError for a wrong entry, and ConfigurationError for an
    environment variable.
    """
    entries, handoffs = list(_entries(agent, "agents")), list(_entries(agent, "handoffs"))
    if not (entries or handoffs):
        return agent
    tools = list(agent.tools or ())
    known = {tool.name for tool in tools}
    usual = context_messages(agent, environment) if _has_peers(agent) else None
    new = [_delegate(entry, usual if entry.context is None else entry.context) for entry in entries]
    new += [handoff_tool(entry.name, entry.path or "", entry.description) for entry in handoffs]
    for tool in new:
        if tool.name in known:
            raise LoadError(f"there is a tool {tool.name!r} already", field="metadata.perdure")
        known.add(tool.name)
    return agent.model_copy(update={"tools": [*tools, *new]})


def handoff_tool(name: str, path: str, description: str | None) -> PromptyTool:
    """Return the tool by which a run continues as the agent of that name and path; its name is
    valid for models.
    """
    return PromptyTool(
        name=function_name(f"{TRANSFER}{name}"), path=path, mode="handoff", description=description
    )


def is_delegate(tool: Tool) -> bool:
    """Return whether a tool has the form that `with_delegates` gives to the entries of
    `metadata.perdure.agents` and `handoffs`.
    """
    if tool.is_handoff:
        return True
    if not tool.name.startswith(DELEGATE):
        return False
    return tool.kind == REMOTE or (
        tool.kind == "prompty" and tool.perdure is not None and tool.perdure.message == TASK
    )


def _entries(agent: Agent, setting: Literal["agents", "handoffs"]) -> Iterator[_Entry]:
    settings = (agent.metadata or {}).get("perdure")
    entries = settings.get(setting) if isinstance(settings, Mapping) else None
    if entries is None:
        return
    form, before = (_FORM, DELEGATE) if setting == "agents" else (_HANDOFF_FORM, TRANSFER)
    if not isinstance(entries, list):
        raise LoadError(
            f"expected a list of {form}, got {entries!r:.80}", field=_WHERE.format(setting)
        )
    # A run records its agent with these tools, and a recorded agent is not expanded again.
    declared = {tool.name for tool in agent.tools or () if is_delegate(tool)}
    for index, entry in enumerate(entries):
        if setting == "handoffs" and isinstance(entry, str):
            entry = {"path": entry}
        if not isinstance(entry, Mapping) or (setting == "handoffs" and "path" not in entry):
            raise LoadError(f"{entry!r:.80}: expected {form}", field=_WHERE.format(setting))
        if isinstance(path := entry.get("path"), str):
            entry = {"name": PurePosixPath(path).stem, **entry}
        if f"{before}{entry.get('name')}" not in declared:
            yield _entry(agent, entry, setting, index)


def _entry(agent: Agent, value: Mapping[str, Any], setting: str, index: int) -> _Entry:
    written = _as_written(agent, value, f"/metadata/perdure/{setting}/{index}")
    try:
        return _Entry.model_validate(written)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        where = ".".join(map(str, first["loc"]))
        raise LoadError(
            f"{value.get('name')!r:.80}: {where and f'{where}: '}{_why(where, first)}",
            field=_WHERE.format(setting),
        ) from None


def _why(where: str, error: JsonView) -> str:
    if error["type"] == "extra_forbidden":
        known = [to_camel(name) for name in _Entry.model_fields]
        return f"is unknown{did_you_mean(where, known)}. Expected {', '.join(known)}"
    text = fault_text(error)
    # The error shows neither a possible secret nor the whole entry.
    shown = f"{error['input']!r:.80}: " if where in _SHOWN else ""
    return _EXPECTED.get(where) or f"{shown}{text[:1].lower() if shown else text[:1]}{text[1:]}"


_SHOWN = ("protocol", "context", "timeout", "retries")
_EXPECTED = {"name": "expected a name of at most 52 letters, digits, '_' and '-'"}


def _as_written(agent: Agent, value: Any, place: str) -> Any:
    """Return the value with the file's references to the environment in place of their values: runs
    record the references, and workers resolve them.
    """
    if isinstance(value, Mapping):
        return {key: _as_written(agent, child, f"{place}/{key}") for key, child in value.items()}
    reference = loaded_from(agent).references.get(place)
    return reference.text if reference is not None and reference.value == value else value


def _delegate(entry: _Entry, context: int | None) -> PromptyTool | CustomTool:
    name = f"{DELEGATE}{entry.name}"
    if entry.path is None:
        return _remote(name, entry, context)
    task = Property(
        name=TASK, kind="string", required=True, description="The whole task of the agent"
    )
    return PromptyTool(
        name=name,
        path=entry.path,
        mode="agentic",
        description=entry.description,
        parameters=[task],
        perdure=ToolPolicy(message=TASK, context=context, timeout=entry.timeout),
    )


def _remote(name: str, entry: _Entry, context: int | None) -> CustomTool:
    options = {
        "protocol": entry.protocol,
        "model": entry.model or entry.name,
        "timeout": entry.timeout,
        "headers": entry.headers,
        "allowedHosts": entry.allowed_hosts,
    }
    return CustomTool(
        name=name,
        kind=REMOTE,
        description=entry.description,
        connection=Connection(endpoint=entry.url or entry.card_url, api_key=entry.api_key),
        options={key: value for key, value in options.items() if value is not None},
        perdure=ToolPolicy(context=context, retries=entry.retries),
    )


SUB_AGENTS = "AGENT_SUB_AGENTS"
"""`NAME:URL,…`; has precedence over `PEER_AGENTS`."""
PEERS = "PEER_AGENTS"
"""`NAME,…`; the URL of each is in `PEER_AGENT_NAME_CARD_URL`."""
MCP_SERVERS = "MCP_SERVERS"
"""`NAME,…` or `[NAME,…]`; the URL of each is in `MCP_SERVER_NAME_URL`."""


def as_started(agent: Agent, environment: Mapping[str, str]) -> Agent:
    """Return the agent with a tool for each agent that it may delegate to. Raises as `with_peers`
    and `with_delegates` do.
    """
    return with_delegates(with_peers(agent, environment), environment)


def with_peers(agent: Agent, environment: Mapping[str, str]) -> Agent:
    """Return a copy with the agents and MCP servers that `SUB_AGENTS`, `PEERS` and `MCP_SERVERS`
    name, if the file has settings of a system with peers; otherwise the agent itself.

    The file's own agents and tools of the same names take precedence. Raises ConfigurationError,
    which names the variable, and LoadError as `settings_of` does.
    """
    if not any(
        environment.get(name) for name in (SUB_AGENTS, PEERS, MCP_SERVERS)
    ) or not _has_peers(agent):
        return agent
    known = {tool.name for tool in agent.tools or ()}
    servers: list[Tool] = [tool for tool in _servers(environment) if tool.name not in known]
    copy = agent.model_copy(update={"tools": [*(agent.tools or []), *servers] or None})
    peers = [{"name": name, "cardUrl": url} for name, url in _peers(environment)]
    return _with_entries(copy, peers) if peers else copy


def _has_peers(agent: Agent) -> bool:
    system = settings_of(agent).system
    return system is not None and system_of(system).has_peers


def _with_entries(agent: Agent, peers: list[JsonObject]) -> Agent:
    metadata = dict(agent.metadata or {})
    own = dict(metadata.get("perdure") or {})
    entries = own.get("agents") or []
    known = {entry.get("name") for entry in entries if isinstance(entry, Mapping)}
    own["agents"] = [*entries, *(peer for peer in peers if peer["name"] not in known)]
    return agent.model_copy(update={"metadata": {**metadata, "perdure": own}})


def _peers(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the URL of each agent."""
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
        url = _url(
            environment, f"MCP_SERVER_{name}_URL", f"{MCP_SERVERS} names the server {name!r}"
        ).rstrip("/")
        endpoint = url if url.endswith("/mcp") else f"{url}/mcp"
        yield McpTool(name=name, connection=Connection(kind="anonymous", endpoint=endpoint))


def _url(environment: Mapping[str, str], variable: str, why: str) -> str:
    if url := environment.get(variable, "").strip():
        return url
    raise ConfigurationError(
        f"environment variable {variable} is not set: expected a URL, because {why}"
    )


def _names(written: str) -> list[str]:
    return [name.strip().strip("\"'") for name in written.split(",") if name.strip()]
