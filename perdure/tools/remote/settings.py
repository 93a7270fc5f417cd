"""Settings in declarations of remote agents: address, authentication, time-outs. No network."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ...declared_tools import Connection, CustomTool, Tool
from ...options import MAX_SECONDS, MIN_SECONDS
from ...prompty.worker_limits import Origin
from ...redaction import redact
from ...settings.child_agents import DELEGATE, DELEGATION_FAILED
from ...settings.delegates import REMOTE
from ...text import did_you_mean
from ..http import origin_of
from ..options import option_problems

DEFAULT_TIMEOUT = 600.0
"""Seconds for one call: agents are slow."""
WELL_KNOWN = "/.well-known/"
CARD_PATHS = ("agent-card.json", "agent.json", "agent")
"""Below `WELL_KNOWN`: A2A's since 0.3, A2A's before that, and that of KAOS."""
_CONNECTIONS = ("key", "remote", "anonymous")
Host = Annotated[
    str, Field(pattern=r"^((\[[0-9a-fA-F:.]+\]|[^\s/:@?#\[\]]+)(:\d{1,5})?|.*\$\{.*)$")
]
"""`name` or `name:port`, or a reference to the environment."""
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$")]
_KEYS = frozenset({"kind", "name", "description", "connection", "options", "bindings", "perdure"})


class Options(BaseModel):
    """The `options` of a tool of kind `a2a`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    discovery_timeout: float = Field(default=15.0, gt=0, le=55)
    """Seconds within which the agent's card must be available."""
    reconnect_timeout: float = Field(default=60.0, ge=0, le=86400)
    """Seconds for which an agent may be out of reach after it has begun, before the call fails."""
    allowed_hosts: tuple[Host, ...] = ()
    """Further hosts, `name` or `name:port`, that the card may name. They get the credentials,
    too."""
    headers: dict[HeaderName, HeaderValue] = Field(default={}, repr=False)
    """Sent with every request."""


class DelegateOptions(Options):
    """The `options` of a tool of kind `delegate`."""

    discovery_timeout: float = Field(default=5.0, gt=0, le=55)
    protocol: Literal["auto", "a2a", "openai"] = "auto"
    """`auto` takes the protocol of the agent's card."""
    model: str = ""
    """The agent's name in Chat Completions requests; if empty, the tool's name after
    `delegate_to_`."""
    timeout: float = Field(default=DEFAULT_TIMEOUT, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds for one task."""


@dataclass(frozen=True)
class RemoteSettings:
    """A declaration without faults."""

    name: str
    """The tool's name."""
    endpoint: str
    """The agent's base URL, without a trailing slash."""
    key: str | None = field(default=None, repr=False)
    options: Options = field(default=Options(), repr=False)
    repeats: bool = False
    """Whether the file wants failed executions repeated."""
    card: str = ""
    """The URL of its card, if the file has it."""

    @property
    def delegation(self) -> DelegateOptions | None:
        """The options of a tool of kind `delegate`, each of whose calls is a complete task; None
        for `a2a`.
        """
        return self.options if isinstance(self.options, DelegateOptions) else None

    @property
    def agent(self) -> str:
        """The agent's name, for people and for itself."""
        return (self.delegation and self.delegation.model) or self.name.removeprefix(DELEGATE)

    @property
    def address(self) -> str:
        """Return the agent's address for error texts."""
        return f"{origin_of(self.endpoint)}{urlsplit(self.endpoint).path}"[:200]

    @property
    def chat(self) -> str:
        """Return the URL for Chat Completions."""
        return f"{self.endpoint}{'' if self.endpoint.endswith('/v1') else '/v1'}/chat/completions"

    @property
    def cards(self) -> list[str]:
        """URLs that may have the card, the likeliest first."""
        if self.card:
            return [self.card]
        below = self.endpoint.removesuffix("/v1")
        urls = [f"{below}{WELL_KNOWN}{path}" for path in CARD_PATHS]
        if urlsplit(below).path.strip("/"):
            urls.append(f"{origin_of(below)}{WELL_KNOWN}{CARD_PATHS[0]}")
        return urls

    def allows(self, url: str) -> bool:
        """Return whether requests may go to the URL: to the endpoint's host and port, or an allowed
        one, with no less encryption.
        """
        asked, own = _origin(url), _origin(self.endpoint)
        if asked is None or own is None or (own.scheme == "https" and asked.scheme != "https"):
            return False
        allowed = [
            own,
            *(_origin(f"{asked.scheme}://{host}") for host in self.options.allowed_hosts),
        ]
        return any(each is not None and asked[1:] == each[1:] for each in allowed)

    def credentials(self, schemes: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that authenticate a request. `schemes` is the result of `way_in` for
        the card.
        """
        return {**self.options.headers, **self._key_header(schemes)}

    def failure_text(self, why: str) -> str:
        """Return the model's text for a failed call."""
        return f"{DELEGATION_FAILED}{why}]" if self.delegation else f"Error: {why}"

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of a request before the card is known; the file's own headers override
        the key's.
        """
        own = self.options.headers
        key = {} if any(name.lower() == "authorization" for name in own) else self._key_header({})
        return [(name, value.encode()) for name, value in {**own, **key}.items()]

    def _key_header(self, schemes: Mapping[str, str]) -> dict[str, str]:
        if not self.key:
            return {}
        if schemes.get("header"):
            return {schemes["header"]: self.key}
        if schemes.get("scheme") == "basic":
            return {"Authorization": f"Basic {base64.b64encode(self.key.encode()).decode()}"}
        return {"Authorization": f"Bearer {self.key}"}


def remote_settings(tool: Tool) -> RemoteSettings:
    """Return the settings of a declared tool without faults. Raises ValueError for one with
    faults.
    """
    if found := remote_problems(tool):
        raise ValueError("; ".join(found))
    assert isinstance(tool, CustomTool)
    assert tool.connection is not None
    endpoint, card = _places(tool)
    return RemoteSettings(
        name=tool.name,
        endpoint=endpoint,
        key=tool.connection.api_key,
        options=_options_of(tool).model_validate(tool.options or {}),
        repeats=tool.perdure is not None and bool(tool.perdure.retries),
        card=card,
    )


def remote_problems(tool: Tool) -> Sequence[str]:
    """Return the faults of the declaration, a sentence each; references to the environment may
    still be unresolved.
    """
    if not isinstance(tool, CustomTool):
        return [f"expected kind: delegate, not {tool.kind!r}"]
    unknown = sorted(set(tool.model_extra or ()) - _KEYS)
    found = [
        f"{key!r} is not a key of a tool of kind {tool.kind}{did_you_mean(key, _KEYS)}"
        for key in unknown
    ]
    if tool.parameters is not None:
        found.append(f"a tool of kind {tool.kind} has no 'parameters': the kind has its own")
    return [
        *found,
        *_problems_of_connection(tool.connection),
        *option_problems(_options_of(tool), tool.options),
    ]


def _options_of(tool: Tool) -> type[Options]:
    return DelegateOptions if tool.kind == REMOTE else Options


def _places(tool: CustomTool) -> tuple[str, str]:
    """Return the agent's base URL, and that of its card if the file has it."""
    url = (tool.connection.endpoint if tool.connection else None) or ""
    if tool.kind != REMOTE:
        return url.rstrip("/"), ""
    base, known, _ = url.partition(WELL_KNOWN)
    return base.rstrip("/").removesuffix("/chat/completions").rstrip("/"), url if known else ""


def _origin(url: str) -> Origin | None:
    try:
        return origin_of(url)
    except ValueError:
        return None


def _problems_of_connection(connection: Connection | None) -> Iterator[str]:
    endpoint = (connection and connection.endpoint) or ""
    if connection is not None and connection.kind not in _CONNECTIONS:
        yield f"'connection.kind' is {connection.kind!r}: expected one of {', '.join(_CONNECTIONS)}"
    if "${" not in endpoint and _origin(endpoint) is None:
        yield (
            f"'connection.endpoint' is {redact(endpoint)!r}: expected the base URL of the agent, "
            "such as https://agent.example, without user"
        )
