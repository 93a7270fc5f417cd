"""The limits of a run: which one is reached, and how its error explains it."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import LimitExceededError, MaxIterationsError, ModelError, RunError
from ..options import RunOptions
from .state import LoopState

PARTIAL_TEXT = "I was unable to complete this task within the allowed steps."


def reached_limit(options: RunOptions, state: LoopState, now: float) -> RunError | None:
    """The error of the limit that forbids another model call; None when the run may go on."""
    if state.iterations >= options.max_iterations:
        return MaxIterationsError(
            f"Agent loop exceeded {options.max_iterations} iterations",
            reason=_repetition(state)
            or f"max_iterations={options.max_iterations} is used up: raise it, or look at what the tools answer",
        )
    if options.max_repeated_calls and state.repeated >= options.max_repeated_calls:
        return LimitExceededError(
            f"The same tool call was repeated {state.repeated} times in a row", reason=_repetition(state)
        )
    for name, measure in _BUDGETS:
        limit = getattr(options, name)
        if limit is not None and (used := measure(state, now)) >= limit:
            return LimitExceededError(f"Budget exhausted: {name} ({limit}) reached", reason=f"{name}: {used:g} used")
    return None


_BUDGETS: tuple[tuple[str, Callable[[LoopState, float], float]], ...] = (
    ("max_total_tokens", lambda state, now: state.usage.total_tokens),
    ("max_tool_calls", lambda state, now: state.tool_calls),
    ("max_seconds", lambda state, now: now - state.started_at),
)
"""Field of `RunOptions`, and what has been used of it."""


def deadline(options: RunOptions, state: LoopState) -> float | None:
    """When `max_seconds` ends the run's waits, in seconds since the epoch; None for never."""
    return None if options.max_seconds is None else state.started_at + options.max_seconds


def time_is_over(options: RunOptions, error: ModelError) -> LimitExceededError:
    """The error of `max_seconds`, where it ends the wait that follows the failure of a model call."""
    limit = options.max_seconds
    return LimitExceededError(
        f"Budget exhausted: max_seconds ({limit}) reached",
        reason=f"max_seconds: {limit} used; the last model call failed: {error.account}",
    )


def _repetition(state: LoopState) -> str | None:
    if state.repeated < 2:
        return None
    return f"the model asked {state.repeated} times in a row for {state.last_calls}"


def partial_text(state: LoopState) -> str:
    """The output of a run that a limit stopped: a fixed text, and the last text of the model."""
    return f"{PARTIAL_TEXT}\n\n{state.last_text}" if state.last_text else PARTIAL_TEXT
