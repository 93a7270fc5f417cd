"""Finds the code of a kind of tool: the worker's own, this process's, that of an installed package, or perdure's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import ConfigurationError
from ..logs import get_logger
from .kind import ToolKind
from .registry import KindHandler, get_tool_handler

ENTRY_POINT_GROUP = "perdure.tool_kinds"
"""An installed package adds a kind by an entry point of this group: the kind's name, and a subclass of `ToolKind`."""
BUILT_IN: Mapping[str, str] = {
    "mcp": ".mcp.kind:McpKind",
    "prompty": ".prompty.kind:PromptyKind",
    "activity": ".foreign.kinds:ActivityKind",
    "workflow": ".foreign.kinds:WorkflowKind",
    "builtin": ".builtin.kind:BuiltInTools",
    "a2a": ".a2a.kind:A2AKind",
    "delegate": ".delegate.kind:DelegateKind",
    "openapi": ".openapi.kind:OpenApiKind",
    "provider": ".provider.kind:ProviderTools",
}
"""Kind → module and class, below this package; imported when a run needs it."""
_log = get_logger("perdure.tools")


class Kinds:
    """The kinds of tools of one worker; each is made once, and closed with the worker.

    Raises ConfigurationError for a kind that is neither a `ToolKind` nor a handler function.
    """

    def __init__(self, given: Mapping[str, ToolKind | KindHandler] | None = None) -> None:
        self._given = dict(given or {})
        self._found: dict[str, ToolKind] = {}
        for name, kind in self._given.items():
            if isinstance(kind, type) or not (isinstance(kind, ToolKind) or callable(kind)):
                raise ConfigurationError(
                    f"tool_kinds[{name!r}] is {kind!r}: expected an object of a subclass of perdure.tools.ToolKind"
                )

    def get(self, name: str) -> ToolKind | KindHandler | None:
        """The kind of that name, or a handler function of it; None when nothing here executes such tools.

        Raises ConfigurationError for one of an installed package that can't be loaded.
        """
        if found := self._given.get(name) or get_tool_handler(name) or self._found.get(name):
            return found
        if (make := _installed(name) or _built_in(name)) is None:
            return None
        kind = make()
        if not isinstance(kind, ToolKind):
            raise ConfigurationError(
                f"The tool kind {name!r} is {kind!r}: expected an object of perdure.tools.ToolKind"
            )
        self._found[name] = kind
        return kind

    @property
    def opened(self) -> dict[str, ToolKind]:
        """Those that may have something open, by name."""
        kinds = {**self._given, **self._found}
        return {name: kind for name, kind in kinds.items() if isinstance(kind, ToolKind)}

    async def close(self) -> None:
        """Close all kinds; one that fails to is logged."""
        for name, kind in self.opened.items():
            try:
                await kind.close()
            except Exception:
                _log.exception("The tool kind %r failed to close", name)
        self._found.clear()


def _installed(name: str) -> Callable[[], object] | None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            make: Callable[[], object] = entry_point.load()
        except (ImportError, AttributeError) as error:
            text = f"The package that adds the tool kind {name!r} can't be imported: {error}"
            raise ConfigurationError(text) from error
        return make
    return None


def _built_in(name: str) -> Callable[[], object] | None:
    if name not in BUILT_IN:
        return None
    module, _, attribute = BUILT_IN[name].partition(":")
    make: Callable[[], object] = getattr(import_module(module, __package__), attribute)
    return make
