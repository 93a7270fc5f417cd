"""What is told of the tools that a provider executes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..excerpt import excerpt
from ..messages import ProviderCall

MAX_CALLS = 50
MAX_VALUE_CHARS = 300
MAX_ENTRIES = 20
MAX_DEPTH = 6
_HIDDEN = ("encrypted", "result")
"""What only the provider can read, or is a whole picture, begins so."""


def provider_call(name: str, id: Any, status: Any, details: Mapping[str, Any]) -> ProviderCall:
    """What is recorded of one call; of `details`, as much as people read."""
    shortened = _shortened({key: value for key, value in details.items() if value not in (None, "", [], {})}, 0)
    status = status if isinstance(status, str) else "completed"
    return ProviderCall(name=name[:100], id=str(id or "")[:200], status=status[:100], details=shortened)


def _shortened(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, str):
        return excerpt(value, MAX_VALUE_CHARS)
    if isinstance(value, Mapping):
        shown = [(key, each) for key, each in value.items() if not (isinstance(key, str) and key.startswith(_HIDDEN))]
        return {str(key)[:100]: _shortened(each, depth + 1) for key, each in shown[:MAX_ENTRIES]}
    if isinstance(value, list):
        return [_shortened(each, depth + 1) for each in value[:MAX_ENTRIES]]
    return value
