"""Plain tools without their threads: on the event loop they block everything else, but cost nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..tools.collect import collect_tools
from ..tools.signature import is_async

Tools = Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]


def without_threads(tools: Tools) -> dict[str, Callable[..., Any]]:
    """The tools as async functions, by name, which are called on the event loop.

    Raises ConfigurationError when two tools have one name.
    """
    named = tools if isinstance(tools, Mapping) else collect_tools(tools)
    return {name: tool if is_async(tool) else _direct(tool) for name, tool in named.items()}


def _direct(tool: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(tool)
    async def call(*arguments: Any, **named: Any) -> Any:
        value = tool(*arguments, **named)
        return await value if inspect.isawaitable(value) else value

    return call
