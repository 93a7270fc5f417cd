"""The forms that agent cards have had, and the places where they were to be found. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

CARD_PATHS = ("agent-card.json", "agent.json", "agent")
"""Below `/.well-known/`: A2A's since 0.3, A2A's before that, and that of KAOS."""
_TRANSPORTS = ("supportedInterfaces", "preferredTransport", "additionalInterfaces")

Form = Literal["a2a", "kaos", "kaos-tasks"]
"""`kaos` has a list of capabilities; `kaos-tasks` came after it, with a JSON-RPC that is not A2A's."""


def form_of(document: Mapping[str, Any]) -> Form:
    """The form of a card."""
    if isinstance(document.get("capabilities"), list):
        return "kaos"
    if "supportedProtocols" in document and not any(key in document for key in _TRANSPORTS):
        return "kaos-tasks"
    return "a2a"
