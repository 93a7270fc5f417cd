"""An agent as plain JSON-like data, in the words of `.prompty` files (§2)."""

from __future__ import annotations

from typing import Any

from ..agent import Agent
from .places import Place, map_strings, pointer
from .secrets import is_literal_secret, is_resolved_late

REDACTED = "[REDACTED]"


def agent_to_dict(agent: Agent, *, include_secrets: bool = False) -> dict[str, Any]:
    """The agent in canonical form: `kind: "prompt"`, named things as ordered lists, absent sections None.

    Environment values in connections and options are given as the references that the file has, secrets
    written in the file itself as "[REDACTED]"; with `include_secrets` as the values.
    """
    fields = document_of(agent)
    if not include_secrets:
        fields = map_strings(fields, lambda place, text: _shown(agent, place, text))
    return {"kind": "prompt", **dict.fromkeys(Agent.file_keys()), **fields}


def document_of(agent: Agent) -> dict[str, Any]:
    """All fields that have a value, by the names that files use."""
    return agent.model_dump(mode="json", by_alias=True, exclude_none=True)


def written_reference(agent: Agent, place: Place, text: str) -> str | None:
    """The environment reference that the file has there; None when it has none, or the value was changed since."""
    reference = agent._references.get(pointer(place))
    return reference.text if reference and reference.value == text else None


def _shown(agent: Agent, place: Place, text: str) -> str:
    reference = written_reference(agent, place, text)
    if reference and is_resolved_late(place):
        return reference
    return REDACTED if is_literal_secret(place, text) else text
