"""The base class of tool kinds, their discovery, and the process-wide registries of tools (§11)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..agents import Agent
from ..declared_tools import Tool
from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..prompty.worker_limits import OPEN, WorkerLimits
from ..redaction import get_logger

if TYPE_CHECKING:
    from ..tool_calls import Execution
    from .context import ToolContext  # with all types of a call; kinds are looked up without one


@dataclass(frozen=True)
class Offering:
    """One function offered to the model. The run records all of it: it must not contain secrets."""

    name: str
    """The name that the model calls: letters, digits, `_` and `-`, at most 64."""
    description: str | None = None
    parameters: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    """The JSON Schema of the arguments, of `type: object`, without bound parameters."""
    details: JsonObject = field(default_factory=dict)
    """Additional data for `execute`, such as the operation's path."""
    timeout: float | None = None
    """Seconds for one execution; None means `RunOptions.tool_timeout`."""
    idempotent: bool = True
    """Whether an execution that was lost with its worker may be repeated."""
    safe_to_repeat: bool = False
    """Whether an equal call is harmless; the model learns this after a call with an unknown
    outcome."""
    parallel_safe: bool = True
    """Whether it may run concurrently with the other calls of one reply."""
    needs_approval: bool = False
    """Whether a person must approve each call."""
    execution: Execution | None = None
    """The executor, if not `ToolKind.execute`: another worker's activity, a child workflow …"""
    takes_context: bool = False
    """Whether it uses the messages that the file attaches (`perdure: {context: N}`)."""


@dataclass(frozen=True)
class Asking:
    """The run whose model is offered functions."""

    agent: Agent
    """With the values of this process's environment in place of references."""
    inputs: Mapping[str, Any]
    prompt_root: str | os.PathLike[str] | None = None
    """The worker's base folder for relative paths; None for none."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """The agents of other files recorded when the run was started, by path."""
    limits: WorkerLimits = OPEN
    """Limits for agents on this worker. The declaration itself is already checked."""
    deps: Any = None
    """Deps of the run's functions (`ToolContext.deps`), as JSON."""


@dataclass(frozen=True)
class RunStart:
    """A starting run, in the process that starts it, which unlike its workers has the agent's
    files.

    The agents of other files that it can call are recorded with their own tools.
    """

    agent: Agent
    """The agent whose tools are recorded."""
    folder: Path | None = None
    """The folder of the agent's file, the base for relative paths; None for an agent that does not
    come from a file."""
    roots: Sequence[Path] = ()
    """The folders that may contain its files."""
    agents: dict[str, Agent] = field(default_factory=dict)
    """The agents of other files that the run records, by their paths from the run's own agent; a
    kind may add some."""
    is_child: bool = False
    """Whether this is one of `agents`, not the run's own agent."""

    def read(self, path: str) -> str | None:
        """Return the text of a file named in the declaration; None without such a file, or without
        a folder.

        Raises LoadError for a file outside `roots`, and for one that can't be read as text.
        """
        from ..prompty.asset_file import read_text
        from ..prompty.references import contained_path

        if self.folder is None:
            return None
        file = contained_path(path, self.folder, self.roots)
        return read_text(file) if file.exists() else None


@dataclass(frozen=True)
class KindCall:
    """One call of a function that a tool of the kind has offered."""

    tool: Tool
    """The file's declaration, with the values of this process's environment in place of
    references."""
    name: str
    """The function's name."""
    details: JsonObject
    """`Offering.details` of the function."""
    arguments: dict[str, Any]
    """The model's arguments, checked against the schema, and the bound parameters."""
    agent: Agent
    inputs: Mapping[str, Any]
    context: ToolContext
    limits: WorkerLimits = OPEN
    """As in `Asking`."""


class ToolKind:
    """Base of every kind of tool. A worker has one object of each; pass your own to
    `create_worker(tool_kinds={…})`.

    Its coroutines run on the event loop of async tools, so that they do not delay other runs. Its
    plain methods run in the caller; `file_problems` and `record` in the process that validates a
    file or starts a run.
    """

    asks_others: ClassVar[bool] = False
    """Whether `offer` reads files or queries servers. Then an ordinary activity calls it, once for
    each run."""
    closes_schemas: ClassVar[bool] = True
    """Whether to refuse unknown arguments of functions whose schema does not forbid or allow them.
    False for foreign functions, which may take more than they have declared.
    """

    def asks(self, tool: Tool) -> bool:
        """Return whether `offer` queries others, such as a server, for this declaration."""
        return self.asks_others

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of a declaration, a sentence each, for `perdure validate` and for the
        start of a run.
        """
        return ()

    def file_problems(self, tool: Tool, folder: Path) -> Sequence[str]:
        """Return the faults of files named in a declaration, for `perdure validate`; paths are
        relative to `folder`.
        """
        return ()

    def record(self, tool: Tool, start: RunStart) -> str | None:
        """Return the run's record of files named in a declaration; `offer` and `execute` find it in
        `tool.recorded`.

        Called where the run is started, for a kind that is installed or given there
        (`invoke_agent`, `InProcessRun`). The record must not contain secrets. None records nothing,
        so that `offer` reads the file on the worker. Raises LoadError for an invalid file.
        """
        return None

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return the functions that the model is offered for a declared tool, one or many.

        Raises `ToolOfferError` if they can't be listed: the run fails with its text, unless another
        worker can list them. After `ToolUnavailable`, the run continues without the tool.
        """
        raise NotImplementedError

    async def execute(self, call: KindCall) -> Any:
        """Execute one call; its value or error becomes the tool's result, as for a function.

        Raises `OutcomeUnknown` for a failed call that may have taken effect: a lost connection, an
        unreadable answer. Alternatively returns `ToolResult.failure(…, outcome_unknown=True)`.
        Cancelled at the end of the call's time, and when the run is cancelled.
        """
        raise NotImplementedError

    async def abandon(self, call: KindCall) -> None:
        """End the work that a lost attempt of the call has begun elsewhere, after the run was
        cancelled.

        `call.context.last_heartbeat` has the attempt's details. Errors of this method are logged.
        """

    async def close(self) -> None:
        """Close connections and other resources; called when the worker ends."""


class OutcomeUnknown(Exception):
    """A failed call that may nevertheless have taken effect; the text has the reason. Raised by
    tools.

    Any other error of a tool means that the call has not taken effect, and may be repeated
    (`retries`).
    """


class ToolOfferError(Exception):
    """The functions of a declared tool can't be listed; the text has the reason and the remedy."""


class ToolUnavailable(ToolOfferError):
    """The tool's server is out of reach; the run continues without the tool, and reports it."""


ToolFunction = Callable[..., Any]
KindHandler = Callable[..., Any]
"""`(tool, arguments, agent, inputs) -> result`, plain or async."""


_tools: dict[str, ToolFunction] = {}
_handlers: dict[str, KindHandler] = {}


def register_tool(name: str, function: ToolFunction) -> None:
    """Register `function` as the tool of that name in this process, in place of an earlier one."""
    _tools[name] = function


def get_tool(name: str) -> ToolFunction | None:
    """Return the tool registered under the name; None without one."""
    return _tools.get(name)


def clear_tools() -> None:
    """Remove every registered tool."""
    _tools.clear()


def register_tool_handler(kind: str, handler: KindHandler) -> None:
    """Register `handler` for tools of the kind without a function of their own, in this process."""
    _handlers[kind] = handler


def get_tool_handler(kind: str) -> KindHandler | None:
    """Return the handler registered for the tool kind; None without one."""
    return _handlers.get(kind)


def clear_tool_handlers() -> None:
    """Remove every registered handler."""
    _handlers.clear()


ENTRY_POINT_GROUP = "perdure.tool_kinds"
"""An installed package adds a kind by an entry point of this group: the kind's name, and a subclass
of `ToolKind`."""
BUILT_IN: Mapping[str, str] = {
    "mcp": ".mcp.kind:McpKind",
    "prompty": ".prompty:PromptyKind",
    "activity": ".foreign:ActivityKind",
    "workflow": ".foreign:WorkflowKind",
    "builtin": ".builtin:BuiltInTools",
    "a2a": ".remote.kind:A2AKind",
    "delegate": ".remote.kind:DelegateKind",
    "openapi": ".openapi.kind:OpenApiKind",
    "provider": ".builtin:ProviderTools",
}
"""Kind → module and class, below this package; imported when a run needs it."""
RECORDING = frozenset({"openapi", "prompty"})
"""The built-in kinds that record something; the others need not be imported where runs are
started."""
_log = get_logger("perdure.tools")


class Kinds:
    """A worker's kinds of tools; each is created once, and closed with the worker.

    Raises ConfigurationError for a kind that is neither a `ToolKind` nor a handler function.
    """

    def __init__(self, given: Mapping[str, ToolKind | KindHandler] | None = None) -> None:
        self._given = dict(given or {})
        self._found: dict[str, ToolKind] = {}
        for name, kind in self._given.items():
            if isinstance(kind, type) or not (isinstance(kind, ToolKind) or callable(kind)):
                raise ConfigurationError(
                    f"tool_kinds[{name!r}] is {kind!r}: expected an object of a subclass of "
                    "perdure.tools.ToolKind"
                )

    def get(self, name: str) -> ToolKind | KindHandler | None:
        """Return the kind of that name, or its handler function; None without either.

        Raises ConfigurationError for a kind of an installed package that can't be loaded.
        """
        if found := self._given.get(name) or get_tool_handler(name) or self._found.get(name):
            return found
        if (make := _installed_kind(name) or _built_in_kind(name)) is None:
            return None
        kind = make()
        if not isinstance(kind, ToolKind):
            raise ConfigurationError(
                f"The tool kind {name!r} is {kind!r}: expected an object of perdure.tools.ToolKind"
            )
        self._found[name] = kind
        return kind

    def recording(self, name: str) -> ToolKind | None:
        """Return the kind of that name, if it may record something. Raises as `get` does."""
        known = name in self._given or name not in BUILT_IN or name in RECORDING
        kind = self.get(name) if known and name != "function" else None
        return kind if isinstance(kind, ToolKind) else None

    @property
    def open_kinds(self) -> dict[str, ToolKind]:
        """Kinds that may have something open, by name."""
        kinds = {**self._given, **self._found}
        return {name: kind for name, kind in kinds.items() if isinstance(kind, ToolKind)}

    async def close(self) -> None:
        """Close all kinds; log failures."""
        for name, kind in self.open_kinds.items():
            try:
                await kind.close()
            except Exception:
                _log.exception("The tool kind %r failed to close", name)
        self._found.clear()


def _installed_kind(name: str) -> Callable[[], object] | None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            make: Callable[[], object] = entry_point.load()
        except (ImportError, AttributeError) as error:
            text = f"The package that adds the tool kind {name!r} can't be imported: {error}"
            raise ConfigurationError(text) from error
        return make
    return None


def _built_in_kind(name: str) -> Callable[[], object] | None:
    if name not in BUILT_IN:
        return None
    module, _, attribute = BUILT_IN[name].partition(":")
    make: Callable[[], object] = getattr(import_module(module, __package__), attribute)
    return make


_OPENING = {
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "$ref",
    "$dynamicRef",
}
"""Keywords that decide which further properties an object may have."""


def is_silent(schema: JsonView) -> bool:
    """Return whether a schema of `type: object` leaves open which properties it allows besides its
    own.
    """
    return not schema.keys() & _OPENING


def closed_schema(schema: JsonView) -> JsonObject:
    """Return the schema, which allows no properties besides its own unless it declares which."""
    return {**schema, "additionalProperties": False} if is_silent(schema) else dict(schema)
