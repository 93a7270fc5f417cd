"""The process-wide registries of tools by name and of handlers by tool kind (§11)."""

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
    """Makes `function` the tool of that name in this process; the last one registered counts."""
    _tools.put(name, function)


def get_tool(name: str) -> ToolFunction | None:
    """The tool registered under that name, or None."""
    return _tools.get(name)


def clear_tools() -> None:
    """Forgets every registered tool."""
    _tools.clear()


def register_tool_handler(kind: str, handler: KindHandler) -> None:
    """Makes `handler` execute the tools of that kind which have no function of their own."""
    _handlers.put(kind, handler)


def get_tool_handler(kind: str) -> KindHandler | None:
    """The handler registered for that tool kind, or None."""
    return _handlers.get(kind)


def clear_tool_handlers() -> None:
    """Forgets every registered kind handler."""
    _handlers.clear()
