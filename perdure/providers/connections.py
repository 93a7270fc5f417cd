"""The process-wide registry that `kind: reference` connections name their clients in (§11)."""

from __future__ import annotations

from threading import Lock
from typing import Any

_lock = Lock()
_clients: dict[str, Any] = {}


def register_connection(name: str, client: Any) -> None:
    """Makes an asynchronous SDK client (AsyncOpenAI, AsyncAnthropic) known under a name; the last one wins."""
    with _lock:
        _clients[name] = client


def get_connection(name: str) -> Any:
    """The client registered under the name, or None."""
    with _lock:
        return _clients.get(name)


def clear_connections() -> None:
    """Forgets every registered client, without closing any."""
    with _lock:
        _clients.clear()
