"""Sampling options under a provider's own names (§2.5, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..agent import Agent


def add_options(request: dict[str, Any], agent: Agent, names: Mapping[str, str]) -> None:
    """Adds the options that are set and that `names` (ours → the provider's) has; others are dropped."""
    options = agent.model.options if agent.model else None
    for ours, theirs in names.items():
        value = getattr(options, ours, None)
        if value is not None:
            request[theirs] = value


def add_additional(request: dict[str, Any], agent: Agent, *, merged: frozenset[str] = frozenset()) -> None:
    """Adds `additionalProperties` as top-level keys; what the request has already wins.

    Keys in `merged` hold objects that both sides may fill (an output format beside an effort level).
    """
    options = agent.model.options if agent.model else None
    for key, value in ((options and options.additional_properties) or {}).items():
        if key in merged and key in request and isinstance(value, Mapping):
            request[key] = {**value, **request[key]}
        else:
            request.setdefault(key, value)


def model_id(agent: Agent) -> str:
    return agent.model.id if agent.model else ""
