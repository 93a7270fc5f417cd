"""The limits of a run: which one is reached, and how its error explains it."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import LimitExceededError, MaxIterationsError, RunError
from ..event_data import CostWarningData
from ..excerpt import counted
from ..money import format_usd
from ..options import RunOptions
from .state import LoopState

PARTIAL_TEXT = "I was unable to complete this task within the allowed steps."


def reached_limit(options: RunOptions, state: LoopState, now: float) -> RunError | None:
    """The error of the limit that forbids another model call; None when the run may go on."""
    if state.steps >= options.max_iterations and not state.answering:
        return no_step_left(options, state)
    if options.max_repeated_calls and state.repeated >= options.max_repeated_calls:
        return LimitExceededError(
            f"The same tool call was repeated {state.repeated} times in a row", reason=_repetition(state)
        )
    if options.max_cost_usd is not None and state.unpriced_calls:
        return _unheld_cost(options.max_cost_usd, state)
    for name, measure in _BUDGETS:
        limit = getattr(options, name)
        if limit is not None and (used := measure(state, now)) >= limit:
            return LimitExceededError(f"Budget exhausted: {name} ({limit}) reached", reason=f"{name}: {used:g} used")
    return None


def no_step_left(options: RunOptions, state: LoopState) -> RunError:
    """The error of `max_iterations`."""
    return MaxIterationsError(
        f"Agent loop exceeded {options.max_iterations} iterations",
        reason=_repetition(state)
        or f"max_iterations={options.max_iterations} is used up: raise it, or look at what the tools answer",
    )


_BUDGETS: tuple[tuple[str, Callable[[LoopState, float], float]], ...] = (
    ("max_total_tokens", lambda state, now: state.usage.total_tokens),
    ("max_tool_calls", lambda state, now: state.tool_calls),
    ("max_cost_usd", lambda state, now: state.cost_usd or 0.0),
    ("max_seconds", lambda state, now: now - state.started_at),
)
"""Field of `RunOptions`, and what has been used of it."""


_UNCERTAIN = "Budget not certain:"
UNWATCHED_COST = "The cost of a model call is not known, so that warn_cost_usd may be passed unseen"


def warning_of(options: RunOptions, state: LoopState) -> CostWarningData:
    """The data of the event which says that the run has cost `warn_cost_usd`; only where there is such a threshold."""
    return CostWarningData(
        costUsd=state.cost_usd or 0.0, warnCostUsd=options.warn_cost_usd or 0.0, maxCostUsd=options.max_cost_usd
    )


def _unheld_cost(limit: float, state: LoopState) -> LimitExceededError:
    """A limit that nobody can watch is taken for reached."""
    known = f"; the others have cost {format_usd(state.cost_usd)}" if state.cost_usd is not None else ""
    return LimitExceededError(
        f"{_UNCERTAIN} max_cost_usd ({limit:g}) can't be held, because the cost of "
        f"{counted(state.unpriced_calls, 'model call')} is not known",
        reason=f"max_cost_usd: no price for {counted(state.unpriced_calls, 'model call')}{known}",
    )


def is_uncertain(error: RunError) -> bool:
    """Whether the run has ended because nobody can know whether a limit is reached: a higher one does not help."""
    return str(error).startswith(_UNCERTAIN)


def deadline(options: RunOptions, state: LoopState) -> float | None:
    """When `max_seconds` ends the run's waits, in seconds since the epoch; None for never."""
    return None if options.max_seconds is None else state.started_at + options.max_seconds


def time_is_over(options: RunOptions, why: str) -> LimitExceededError:
    """The error of `max_seconds`, where it ends the wait before a model call; `why` says what was waited for."""
    limit = options.max_seconds
    return LimitExceededError(
        f"Budget exhausted: max_seconds ({limit}) reached",
        reason=f"max_seconds: {limit} used; {why}",
    )


def _repetition(state: LoopState) -> str | None:
    if state.repeated < 2:
        return None
    return f"the model asked {state.repeated} times in a row for {state.last_calls}"


def partial_text(options: RunOptions, state: LoopState) -> str:
    """The output of a run that a limit stopped: `limit_message`, or else a fixed text and the model's last one."""
    if options.limit_message is not None:
        return options.limit_message.replace("{max_iterations}", str(options.max_iterations))
    return f"{PARTIAL_TEXT}\n\n{state.last_text}" if state.last_text else PARTIAL_TEXT
