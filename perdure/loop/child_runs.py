"""Runs that are tool calls of another run: their allowance, and their results."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ..agents import Agent
from ..errors import RunCancelled, RunError
from ..messages import ToolResult
from ..options import RunOptions
from ..settings.agent_file import called_options
from .limits import Allowance, ChildEnd
from .state import LoopState

Options = TypeVar("Options", bound=RunOptions)
_UNSAID = Agent()


def child_options(
    options: Options,
    allowance: Allowance,
    *,
    single: bool,
    caller: Agent = _UNSAID,
    called: Agent = _UNSAID,
) -> Options:
    """Return the options of a called run: the caller's, and those of the called agent's file,
    within the allowance.

    The called run takes neither the caller's turn nor `raw`: the caller's model reads the answer.
    With `single` it makes one model call, with its whole prompt (§13.3). Raises LoadError for a
    wrong setting in an agent's file.
    """
    allowed = options.model_copy(
        update={
            "turn": None,
            "raw": False,
            "max_total_tokens": allowance.total_tokens,
            "max_tool_calls": allowance.tool_calls,
            "max_seconds": allowance.seconds,
            "max_cost_usd": allowance.cost_usd,
        }
    )
    own = called_options(allowed, caller, called)
    once = {"max_iterations": 1, "tool_protocol": "native", "context_budget": None}
    return own.model_copy(update=once) if single else own


def depth_refusal(name: str, options: RunOptions, depth: int) -> ToolResult | None:
    """Return the result of a call that would exceed `max_depth`; `depth` is the number of runs
    above the caller.
    """
    if depth < options.max_depth:
        return None
    text = (
        f"Error: Tool '{name}' failed: agents may call each other {options.max_depth} levels deep "
        "(max_depth), and this one is at the last level: do the task yourself"
    )
    return ToolResult.failure(text, kind="limit")


def answer_result(output: Any) -> ToolResult:
    """Return the result of a call whose run succeeded: its answer alone."""
    text = (
        output
        if isinstance(output, str)
        else json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    )
    return ToolResult.of_text(text)


def end_of(result: ToolResult, state: LoopState) -> ChildEnd:
    """Return the end of a called run of this process."""
    return ChildEnd(result, state.usage, state.tool_calls, state.cost_usd, state.unpriced_calls)


def failure_result(name: str, error: RunError) -> ToolResult:
    """Return the result of a call whose run failed or was cancelled."""
    if isinstance(error, RunCancelled):
        return ToolResult.cancellation(outcome_unknown=True)
    text = f"Error: Tool '{name}' failed: {error.kind}: {error}"
    return ToolResult.failure(text, kind=error.kind)
