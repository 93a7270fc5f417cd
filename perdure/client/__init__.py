"""For callers: connect, start runs, follow and steer them, read what they did."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..events import RunEvent
    from ..options import RunOptions
    from ..protocol.run import RunResult, RunStatus
    from .connection import connect
    from .handle import RunHandle
    from .runs import get_run, start_run

__all__ = ["RunEvent", "RunHandle", "RunOptions", "RunResult", "RunStatus", "connect", "get_run", "start_run"]

_HOMES = {
    "RunEvent": "..events",
    "RunHandle": ".handle",
    "RunOptions": "..options",
    "RunResult": "..protocol.run",
    "RunStatus": "..protocol.run",
    "connect": ".connection",
    "get_run": ".runs",
    "start_run": ".runs",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: the command line must not pay for what it does not need.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
