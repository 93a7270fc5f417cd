"""The rules of each server for conversations, and the private fields that it wants back.

The rows are in `dialects.toml`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..agents import Agent
from ..json_types import JsonView
from ..prompty.worker_limits import is_listed, server_in
from ..text import did_you_mean
from .sdks import SdkNames

ENTRY_POINT_GROUP = "perdure.server_dialects"
"""An installed package adds a dialect by an entry point of this group: a `WireDialect`."""


@dataclass(frozen=True, kw_only=True)
class WireDialect:
    """One server's rules. The defaults are the strictest common form, which every known server
    accepts.
    """

    name: str
    hosts: tuple[str, ...] = ()
    """The endpoints of the server: `name`, `name:port`, or `*.domain`."""
    ids: str = "[a-zA-Z0-9]{9}"
    """A regular expression of the call ids that it accepts; nine letters and digits replace
    others."""
    derive_id: Callable[[str], str] | None = None
    """Derives an acceptable id from nine letters and digits, for a server that does not accept
    these, not even its own."""
    keeps: tuple[str, ...] = ("reasoning_details", "extra_content")
    """Fields of its messages and calls (Chat Completions) that are sent back unchanged."""
    keeps_beside_calls: tuple[str, ...] = ("reasoning_content",)
    """Fields that are sent back only in messages with tool calls."""
    fills: JsonView = field(default_factory=dict)
    """Fields that it requires of a message with calls, filled in if another server wrote it."""
    fills_call: JsonView = field(default_factory=dict)
    """Fields that it requires of the first call of such a message."""
    needs_user: bool = True
    """Whether it refuses a conversation that does not begin with a user's message."""
    sees: bool = True
    """Whether it takes images and files; without, those in a tool's result are described in
    words."""
    refuses: tuple[str, ...] = ()
    """Keys of requests that it refuses; they are left out, with a note."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Keys of requests that have other names there."""


_ANY = WireDialect(name="any")
_OWN = {"openai": "openai", "azure": "azure", "foundry": "azure", "anthropic": "anthropic"}
"""Key of a provider → the dialect of its own servers."""
_registered: dict[str, WireDialect] = {}


class Recipient(NamedTuple):
    """The receiver of a request: decides the private fields and the dialect."""

    name: str
    """Marks content that only this server understands (`provider_content.server`)."""
    dialect: WireDialect


def register_dialect(dialect: WireDialect) -> None:
    """Add a server's dialect in this process, before all others; it replaces one of the same
    name.
    """
    _registered[dialect.name] = dialect
    _dialect.cache_clear()


def server_of(agent: Agent, sdk: SdkNames, provider: str) -> Recipient:
    """Return the server of the agent's model, with its dialect.

    Raises ValueError for a `dialect` of the file that this process does not know.
    """
    connection, options = (
        (agent.model.connection, agent.model.options) if agent.model else (None, None)
    )
    endpoint = (
        (connection.endpoint if connection else None) or os.environ.get(sdk.endpoint_variable) or ""
    )
    chosen = (options and options.dialect) or ""
    is_own = not endpoint or sdk.is_providers(endpoint)
    name = provider if is_own else _service(endpoint, chosen)
    return Recipient(name, _dialect(chosen, endpoint, provider))


@lru_cache(maxsize=1024)
def _service(endpoint: str, dialect: str) -> str:
    """Return a name of the server: one host may run several services, below its paths, which may
    contain secrets, or as a proxy with their dialects.
    """
    address = urlsplit(endpoint)
    below = blake2b(f"{address.path.rstrip('/')} {dialect}".encode(), digest_size=6).hexdigest()
    return f"{address.netloc.rpartition('@')[2].lower()} {below}"


@lru_cache(maxsize=1024)
def _dialect(chosen: str, endpoint: str, provider: str) -> WireDialect:
    known = known_dialects()
    if chosen:
        if problem := dialect_problem(chosen):
            raise ValueError(problem)
        return known[chosen]
    server = server_in(endpoint.partition("?")[0])
    found = next(
        (each for each in known.values() if server and is_listed(server, each.hosts)), None
    )
    own = _OWN.get(provider, "") if provider != "openai" or not endpoint else ""
    return found or known.get(own, _ANY)


def dialect_problem(name: str) -> str | None:
    """Return why this process can't use the dialect of that name; None if it can."""
    if name in (known := known_dialects()):
        return None
    return (
        f"there is no dialect {name!r}{did_you_mean(name, known)}: expected one of "
        f"{', '.join(sorted(known))}"
    )


def known_dialects() -> dict[str, WireDialect]:
    """Return all dialects by their names: the registered ones first, those of installed packages,
    and the table.
    """
    # A name keeps its first position and takes its last value.
    added = {**_registered, **_installed(), **_registered}
    return {**added, **table(), **added}


@cache
def table() -> dict[str, WireDialect]:
    """Return the dialects that come with perdure, by their names."""
    rows = tomllib.loads(files(__package__).joinpath("dialects.toml").read_text(encoding="utf-8"))
    return {
        name: WireDialect(name=name, **{key: _frozen(row[key]) for key in row})
        for name, row in rows.items()
    }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _installed() -> dict[str, WireDialect]:
    return {
        each.name: each
        for each in (entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP))
    }
