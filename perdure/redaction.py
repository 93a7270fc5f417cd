"""Removes secrets from texts that come from outside, such as a provider's error that repeats the key it was given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .agent import Agent

_SECRET_VARIABLE = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
_SHORTEST = 8
"""A shorter value may be an ordinary word of the text."""


def redact(text: str, agent: Agent) -> str:
    """The text with the reference in place of each secret: `${env:NAME}` for the value of NAME.

    Secrets are what the agent's environment references stand for, endpoints excepted, and the values of all variables
    of this process whose names say so.
    """
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
