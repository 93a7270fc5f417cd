"""What a kind of tool is: how its declaration is read, what the model is offered, and how a call is executed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..agent import Agent, Tool
from ..json_types import JsonObject
from ..tool_calls import Execution
from ..worker_limits import OPEN, WorkerLimits
from .context import ToolContext


@dataclass(frozen=True)
class Offering:
    """One function that the model is offered. All of it is recorded in the run: it must not have secrets."""

    name: str
    """What the model calls: letters, digits, `_` and `-`, at most 64."""
    description: str | None = None
    parameters: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    """The JSON Schema of the arguments, of `type: object`. Bound parameters are taken out of it."""
    details: JsonObject = field(default_factory=dict)
    """What `execute` wants to know of it, such as the operation's path."""
    timeout: float | None = None
    """Seconds for one execution; None means `RunOptions.tool_timeout`."""
    idempotent: bool = True
    """Whether an execution that was lost together with its worker may be repeated."""
    parallel_safe: bool = True
    """Whether it may run at the same time as the other calls of one reply."""
    needs_approval: bool = False
    """Whether a person must approve each call."""
    execution: Execution | None = None
    """How a call is executed if not by `ToolKind.execute`: by another worker's activity, by a child workflow …"""
    takes_context: bool = False
    """Whether it has a use for the messages that the file wants to go along (`perdure: {context: N}`)."""


@dataclass(frozen=True)
class Asking:
    """The run whose model is to be offered functions."""

    agent: Agent
    """With the values of this process's environment in the place of references."""
    inputs: Mapping[str, Any]
    prompt_root: str | os.PathLike[str] | None = None
    """The folder on the worker where relative paths start; None for none."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """The agents of other files that were recorded when the run was started, by path."""
    limits: WorkerLimits = OPEN
    """What agents may use of this worker. What the declaration itself says is checked already."""


@dataclass(frozen=True)
class KindCall:
    """One call of a function that a tool of the kind has offered."""

    tool: Tool
    """What the file declares, with the values of this process's environment in the place of references."""
    name: str
    """The function's name."""
    details: JsonObject
    """`Offering.details` of the function."""
    arguments: dict[str, Any]
    """What the model wrote, checked against the schema, and the bound parameters."""
    agent: Agent
    inputs: Mapping[str, Any]
    context: ToolContext
    limits: WorkerLimits = OPEN
    """As in `Asking`."""


class ToolKind:
    """Base of every kind of tool. A worker has one object of each; give yours to `create_worker(tool_kinds={…})`.

    Its methods run on the event loop of async tools, so that nothing they do delays other runs.
    """

    asks_others: ClassVar[bool] = False
    """Whether `offer` reads files or asks servers. Then an ordinary activity does it, once for each run."""

    def problems(self, tool: Tool) -> Sequence[str]:
        """What is wrong with a declaration, a sentence each, for `perdure validate` and for the start of a run."""
        return ()

    def file_problems(self, tool: Tool, folder: Path) -> Sequence[str]:
        """What is wrong with files that a declaration names, for `perdure validate`; paths start at `folder`."""
        return ()

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """What the model is offered for a declared tool: one function or many.

        Raises `ToolOfferError` when that can't be found out: the run fails with its text, unless another worker knows.
        A `ToolUnavailable` lets the run go on without the tool.
        """
        raise NotImplementedError

    async def execute(self, call: KindCall) -> Any:
        """Execute one call; what it returns or raises becomes the tool's result, as for a function.

        Raises `OutcomeUnknown` where the call has failed, but may have taken effect: a lost connection, an answer that
        can't be read. Or returns `ToolResult.failure(…, outcome_unknown=True)`. It is cancelled when the call's time is
        over, and when the run is cancelled.
        """
        raise NotImplementedError

    async def abandon(self, call: KindCall) -> None:
        """End what a lost attempt of the call has begun elsewhere, since the run was cancelled meanwhile.

        `call.context.last_heartbeat` has what it told. What this raises is logged.
        """

    async def close(self) -> None:
        """Close connections and the like; called when the worker ends."""


class OutcomeUnknown(Exception):
    """A call has failed, and may have taken effect all the same; the text says why. It is for tools to raise.

    What else a tool raises says that it has not taken effect: the call may be repeated (`retries`).
    """


class ToolOfferError(Exception):
    """What a declared tool offers can't be found out; the text says why, and what to do."""


class ToolUnavailable(ToolOfferError):
    """What the tool asks is out of reach; the run goes on without it, and says so."""
