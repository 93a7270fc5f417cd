"""What a declaration of kind `delegate` says: where the agent is, how it is spoken to, how long to wait. No network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...declared_tools import CustomTool, Tool
from ...options import MAX_SECONDS, MIN_SECONDS
from ...settings.child_agents import DELEGATE
from ...text import did_you_mean
from .a2a_settings import origin
from .a2a_settings import problems_of as a2a_problems_of

DEFAULT_TIMEOUT = 600.0
"""Seconds for one task: an agent takes its time."""
WELL_KNOWN = "/.well-known/"
_PASSED_ON = ("headers", "allowedHosts", "reconnectTimeout")


class Options(BaseModel):
    """The tool's `options`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    protocol: Literal["auto", "a2a", "openai"] = "auto"
    """`auto` is what the agent's card says."""
    model: str = ""
    """What the agent is called in requests by Chat Completions; the tool's name after `delegate_to_` if empty."""
    timeout: float = Field(default=DEFAULT_TIMEOUT, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds for one task."""
    discovery_timeout: float = Field(default=5.0, gt=0, le=55)
    """Seconds until the agent's card must be there."""
    headers: dict[str, str] = Field(default={}, repr=False)
    """Sent with every request."""
    allowed_hosts: tuple[str, ...] = ()
    """As for `a2a`."""
    reconnect_timeout: float = Field(default=60.0, ge=0, le=86400)
    """As for `a2a`."""


@dataclass(frozen=True)
class Settings:
    """A declaration without problems."""

    agent: str
    """Its name for people and for itself."""
    base: str
    """Its URL, without a slash at the end."""
    card: str
    """The URL of its card, if the file names it; else ""."""
    headers: Mapping[str, str] = field(repr=False)
    """Those of each request, with the key."""
    options: Options = field(repr=False)

    @property
    def shown(self) -> str:
        """Where it is, as errors may show it."""
        return f"{'://'.join(origin(self.base))}{urlsplit(self.base).path}"[:200]

    @property
    def chat(self) -> str:
        """Where Chat Completions are asked for."""
        return f"{self.base}{'' if self.base.endswith('/v1') else '/v1'}/chat/completions"


def settings_of(tool: Tool) -> Settings:
    """The settings of a declared tool that has no problems. Raises ValueError for one that has."""
    if found := problems_of(tool):
        raise ValueError("; ".join(found))
    assert isinstance(tool, CustomTool)
    assert tool.connection is not None
    options = Options.model_validate(tool.options or {})
    base, card = _places(tool.connection.endpoint or "")
    headers = dict(options.headers)
    if tool.connection.api_key and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = f"Bearer {tool.connection.api_key}"
    return Settings(agent_of(tool, options), base, card, headers, options)


def agent_of(tool: Tool, options: Options) -> str:
    """What the agent is called."""
    return options.model or tool.name.removeprefix(DELEGATE)


def as_a2a(tool: Tool) -> CustomTool:
    """The same tool as the kind `a2a` reads it."""
    assert isinstance(tool, CustomTool)
    options = {key: value for key, value in (tool.options or {}).items() if key in _PASSED_ON}
    connection = tool.connection
    if connection is not None:
        connection = connection.model_copy(update={"endpoint": _places(connection.endpoint or "")[0]})
    return tool.model_copy(update={"options": options, "connection": connection})


def problems_of(tool: Tool) -> list[str]:
    """What is wrong with the declaration, a sentence each; references to the environment may still be unresolved."""
    if not isinstance(tool, CustomTool):
        return [f"expected kind: delegate, not {tool.kind!r}"]
    names = [str(each.alias) for each in Options.model_fields.values()]
    options = tool.options or {}
    found = [f"'options.{key}' is not known{did_you_mean(key, names)}" for key in options if key not in names]
    try:
        Options.model_validate({key: value for key, value in options.items() if key in names})
    except ValidationError as error:
        place = [".".join(map(str, each["loc"])) for each in error.errors()]
        return found + [f"'options.{at}': {each['msg']}" for at, each in zip(place, error.errors(), strict=True)]
    return found + a2a_problems_of(as_a2a(tool))


def _places(url: str) -> tuple[str, str]:
    """The agent's base URL, and that of its card where the URL is one."""
    head, known, _ = url.partition(WELL_KNOWN)
    base = head if known else url
    return base.rstrip("/").removesuffix("/chat/completions").rstrip("/"), url if known else ""


def card_urls(settings: Settings, paths: tuple[str, ...]) -> list[str]:
    """Where the card may be, the likeliest place first."""
    if settings.card:
        return [settings.card]
    below = settings.base.removesuffix("/v1")
    urls = [f"{below}{WELL_KNOWN}{path}" for path in paths]
    scheme, host = origin(below)
    if urlsplit(below).path.strip("/"):
        urls += [f"{scheme}://{host}{WELL_KNOWN}{paths[0]}"]
    return urls
