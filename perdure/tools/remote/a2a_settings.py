"""What a declaration of kind `a2a` says: where the agent is, how to be let in, how long to wait. No network here."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...declared_tools import Connection, CustomTool, Tool
from ...redaction import redact
from ...text import did_you_mean

DEFAULT_TIMEOUT = 600.0
"""Seconds for one call: an agent takes its time."""
_KINDS = ("key", "remote", "anonymous")
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s/:@?#\[\]]+)(:\d{1,5})?")
_TOKEN, _LINE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\x20-\x7e]*")
_KEYS = frozenset({"kind", "name", "description", "connection", "options", "bindings", "perdure"})


class Options(BaseModel):
    """The tool's `options` in the file."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    discovery_timeout: float = Field(default=15.0, gt=0, le=55)
    """Seconds until the agent's card must be there."""
    reconnect_timeout: float = Field(default=60.0, ge=0, le=86400)
    """For so many seconds an agent that has begun may be out of reach before the call fails."""
    allowed_hosts: tuple[str, ...] = ()
    """Further hosts, `name` or `name:port`, that the card may point at. They are sent the credentials, too."""
    headers: dict[str, str] = Field(default={}, repr=False)
    """Sent with every request."""


@dataclass(frozen=True)
class Settings:
    """A declaration without problems."""

    name: str
    endpoint: str
    """The agent's base URL, without a slash at the end."""
    key: str | None
    options: Options
    repeats: bool = False
    """Whether the file wants executions repeated that have failed."""
    takes_answers: bool = True
    """Whether a further call can answer what the agent asks for."""

    def allows(self, url: str) -> bool:
        """Whether requests may go there: to the endpoint's host and port, or an allowed one, and not less encrypted."""
        scheme, host = origin(url)
        own_scheme, own_host = origin(self.endpoint)
        if scheme not in _PORTS or (own_scheme == "https" and scheme != "https"):
            return False
        return host == own_host or host in {_with_port(each, scheme) for each in self.options.allowed_hosts}

    def credentials(self, schemes: Mapping[str, str]) -> dict[str, str]:
        """The headers that let a request in. `schemes` is what `card.way_in` has read from the card."""
        return {**self.options.headers, **self._key_header(schemes)}

    def _key_header(self, schemes: Mapping[str, str]) -> dict[str, str]:
        if not self.key:
            return {}
        if schemes.get("header"):
            return {schemes["header"]: self.key}
        if schemes.get("scheme") == "basic":
            return {"Authorization": f"Basic {base64.b64encode(self.key.encode()).decode()}"}
        return {"Authorization": f"Bearer {self.key}"}


def settings_of(tool: Tool) -> Settings:
    """The settings of a declared tool that has no problems. Raises ValueError for one that has."""
    if found := problems_of(tool):
        raise ValueError("; ".join(found))
    assert isinstance(tool, CustomTool)
    assert tool.connection is not None
    assert tool.connection.endpoint is not None
    options = Options.model_validate(tool.options or {})
    repeats = tool.perdure is not None and bool(tool.perdure.retries)
    endpoint, key = tool.connection.endpoint.rstrip("/"), tool.connection.api_key
    return Settings(tool.name, endpoint, key, options, repeats, takes_answers=tool.kind == "a2a")


def problems_of(tool: Tool) -> list[str]:
    """What is wrong with the declaration, a sentence each; references to the environment may still be unresolved."""
    assert isinstance(tool, CustomTool)
    unknown = sorted(set(tool.model_extra or ()) - _KEYS)
    found = [f"{key!r} is not a key of a tool of kind a2a{did_you_mean(key, _KEYS)}" for key in unknown]
    if tool.parameters is not None:
        found.append("a tool of kind a2a has no 'parameters': the model is offered 'message' and 'context_id'")
    return [*found, *_problems_of_connection(tool.connection), *_problems_of_options(tool.options)]


def origin(url: str) -> tuple[str, str]:
    """The scheme of a URL, and `host:port`, in lower case; empty ones for what is not a URL, or has a user in it."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return "", ""
    return (parts.scheme, f"{parts.hostname}:{port}") if parts.hostname and "@" not in parts.netloc else ("", "")


def _with_port(host: str, scheme: str) -> str:
    """`host:port` of an allowed host, which has the port of the scheme if it names none."""
    return origin(f"{scheme}://{host}")[1]


def _problems_of_connection(connection: Connection | None) -> list[str]:
    if connection is None or not connection.endpoint:
        return ["it has no 'connection.endpoint': expected the base URL of the agent, such as https://agent.example"]
    if connection.kind not in _KINDS:
        return [f"'connection.kind' is {connection.kind!r}: expected one of {', '.join(_KINDS)}"]
    endpoint = connection.endpoint
    if "${" in endpoint or origin(endpoint)[0] in _PORTS:
        return []
    expected = "a URL that begins with http:// or https://, without user"
    return [f"'connection.endpoint' is {redact(endpoint)!r}: expected {expected}"]


def _problems_of_options(options: dict[str, Any] | None) -> list[str]:
    names = [str(field.alias) for field in Options.model_fields.values()]
    unknown = [key for key in options or {} if key not in names]
    found = [f"'options.{key}' is not known{did_you_mean(key, names)}: expected {', '.join(names)}" for key in unknown]
    try:
        checked = Options.model_validate({key: value for key, value in (options or {}).items() if key in names})
    except ValidationError as error:
        return found + [f"'options.{_place(each['loc'])}': {each['msg']}" for each in error.errors()]
    names = [name for name, value in checked.headers.items() if not (_TOKEN.fullmatch(name) and _LINE.fullmatch(value))]
    found += [f"'options.headers' has {name!r}, which can't be sent: expected a name, and a line" for name in names]
    hosts = [host for host in checked.allowed_hosts if not _HOST.fullmatch(host) and "${" not in host]
    return found + [f"'options.allowedHosts' has {host!r}: expected 'name' or 'name:port'" for host in hosts]


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))
