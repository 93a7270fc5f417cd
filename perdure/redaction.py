"""Keeps keys out of what is recorded when a provider repeats them in its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .agent import Agent

_SECRET_VARIABLE = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
_SHORTEST = 8
"""A shorter value may be a word of the text that means something else."""


def redact(text: str, agent: Agent) -> str:
    """The text with a placeholder for each secret that the agent's call may have used."""
    for placeholder, secret in _secrets(agent):
        text = text.replace(secret, placeholder)
    return text


def _secrets(agent: Agent) -> Iterator[tuple[str, str]]:
    for pointer, reference in agent._references.items():
        if len(reference.value) >= _SHORTEST and not pointer.endswith("/endpoint"):
            yield reference.text, reference.value
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET_VARIABLE.search(name):
            yield f"${{env:{name}}}", value
