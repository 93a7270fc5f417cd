"""One tool call between its parts of a run: what is known of the tool, what is asked for, what a person says to it."""

from __future__ import annotations

from .exchanged import Exchanged
from .json_values import JsonObject


class ToolRequest(Exchanged):
    """One tool execution, decided: the arguments are parsed and the guardrail has let it pass."""

    call_id: str
    name: str
    arguments: JsonObject
    iteration: int
    index: int
    """The call's place in the model's reply, from 0."""


class ToolSpec(Exchanged):
    """What the worker knows of a tool and the loop decides by."""

    name: str
    timeout: float | None = None
    """Seconds per execution; None takes `RunOptions.tool_timeout`."""
    idempotent: bool = True
    """Whether an execution that was lost with its worker may be started again."""
    parallel_safe: bool = True
    needs_approval: bool = False


class Approval(Exchanged):
    """What a person says to one tool call: yes, yes with other arguments, or no."""

    approved: bool
    reason: str | None = None
    arguments: JsonObject | None = None
    """Replaces the model's arguments; None keeps them."""
