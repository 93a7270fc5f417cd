"""One tool call within a run: what is known of the tool, what is to be executed, what a person decides about it."""

from __future__ import annotations

from .exchanged import Exchanged
from .json_types import JsonObject


class ToolRequest(Exchanged):
    """A tool call that is to be executed, with its arguments parsed."""

    call_id: str
    name: str
    arguments: JsonObject
    iteration: int
    index: int
    """The call's place in the model's reply, from 0."""


class ToolSpec(Exchanged):
    """What the loop needs to know of a tool."""

    name: str
    timeout: float | None = None
    """Seconds for one execution; None means `RunOptions.tool_timeout`."""
    idempotent: bool = True
    """Whether an execution that was lost together with its worker may be repeated."""
    parallel_safe: bool = True
    """Whether it may run at the same time as the other calls of one reply."""
    needs_approval: bool = False
    """Whether a person must approve each call."""


class Approval(Exchanged):
    """A person's decision about one tool call: yes, yes with other arguments, or no."""

    approved: bool
    reason: str | None = None
    """Why it was denied; the model is told."""
    arguments: JsonObject | None = None
    """Replace the model's arguments; None keeps those."""
