"""The memory that the environment asks for, by KAOS's names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

from temporalio.client import Client

from ...agent import Agent
from ...errors import ConfigurationError
from .memory import MAX_EVENTS, MAX_SESSIONS, KaosMemory
from .null import NullMemory

_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def memory_from_environment(
    client: Client,
    agent: Agent | str | PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    **more: Any,
) -> KaosMemory | NullMemory:
    """The memory as `MEMORY_ENABLED`, `MEMORY_MAX_SESSIONS` and `MEMORY_MAX_SESSION_EVENTS` say.

    `more` is as for `KaosMemory`. Whatever `MEMORY_TYPE` says, the Temporal server keeps the sessions. Raises
    `ConfigurationError`, which names the variable, for a value that it can't have.
    """
    values = os.environ if environment is None else environment
    if not _is_on(values):
        return NullMemory()
    more["max_sessions"] = _count(values, "MEMORY_MAX_SESSIONS", MAX_SESSIONS)
    more["max_events_per_session"] = _count(values, "MEMORY_MAX_SESSION_EVENTS", MAX_EVENTS)
    return KaosMemory(client, agent, **more)


def _is_on(values: Mapping[str, str]) -> bool:
    written = values.get("MEMORY_ENABLED", "").strip().lower()
    if written and written not in _WORDS:
        raise ConfigurationError(f"MEMORY_ENABLED={written!r:.80}: expected true or false")
    return _WORDS.get(written, True)


def _count(values: Mapping[str, str], name: str, default: int) -> int:
    written = values.get(name, "").strip()
    if not written:
        return default
    if not (written.isascii() and written.isdigit() and int(written) > 0):
        raise ConfigurationError(f"{name}={written!r:.80}: expected a whole number above 0")
    return int(written)
