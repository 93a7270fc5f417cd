"""Keeps the process-wide registries: tools by name, and handlers by tool kind (§11)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

ToolFunction = Callable[..., Any]
KindHandler = Callable[..., Any]
"""`(tool, arguments, agent, inputs) -> result`, plain or async."""


class _Registry:
    def __init__(self) -> None:
        self._entries: dict[str, Callable[..., Any]] = {}
        self._guard = threading.Lock()

    def put(self, key: str, entry: Callable[..., Any]) -> None:
        with self._guard:
            self._entries[key] = entry

    def get(self, key: str) -> Callable[..., Any] | None:
        with self._guard:
            return self._entries.get(key)

    def clear(self) -> None:
        with self._guard:
            self._entries.clear()


_tools = _Registry()
_handlers = _Registry()


def register_tool(name: str, function: ToolFunction) -> None:
    """Make `function` the tool of that name in this process, in place of an earlier one."""
    _tools.put(name, function)


def get_tool(name: str) -> ToolFunction | None:
    """The tool that is registered under the name; None when there is none."""
    return _tools.get(name)


def clear_tools() -> None:
    """Remove every registered tool."""
    _tools.clear()


def register_tool_handler(kind: str, handler: KindHandler) -> None:
    """Make `handler` execute those tools of the kind that have no function of their own, in this process."""
    _handlers.put(kind, handler)


def get_tool_handler(kind: str) -> KindHandler | None:
    """The handler that is registered for the tool kind; None when there is none."""
    return _handlers.get(kind)


def clear_tool_handlers() -> None:
    """Remove every registered handler."""
    _handlers.clear()
