"""The limits of a run: the one that is reached, the text of its error, and the allowances of the
runs that it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import LimitExceededError, MaxIterationsError, RunError
from ..messages import ToolResult, Usage
from ..options import RunOptions
from ..text import DIGITS, count_of, format_usd
from .state import LoopState, usages

PARTIAL_TEXT = "I was unable to complete this task within the allowed steps."


def reached_limit(options: RunOptions, state: LoopState, now: float) -> RunError | None:
    """Return the error of the limit that forbids another model call; None when the run may go
    on.
    """
    if state.steps >= options.max_iterations and not state.answering:
        return no_step_left(options)
    if options.max_cost_usd is not None and state.unpriced_calls:
        return _unheld_cost(options.max_cost_usd, state)
    for name, measure in _BUDGETS:
        if (limit := getattr(options, name)) is None:
            continue
        untold = getattr(state, _UNTOLD.get(name, ""), 0)
        if (used := measure(state, now)) + untold >= limit:
            text = f"Budget exhausted: {name} ({limit}) reached"
            more = f", up to {untold:g} more that could not be counted" if untold else ""
            return LimitExceededError.of_option(name, text, reason=f"{name}: {used:g} used{more}")
    return None


def no_step_left(options: RunOptions) -> RunError:
    """Return the error of `max_iterations`."""
    return MaxIterationsError(
        f"Agent loop exceeded {options.max_iterations} iterations",
        reason=f"max_iterations={options.max_iterations} is used up: raise it, or look at the "
        "tools' answers",
    )


_BUDGETS: tuple[tuple[str, Callable[[LoopState, float], float]], ...] = (
    ("max_total_tokens", lambda state, now: state.usage.total_tokens),
    ("max_tool_calls", lambda state, now: state.tool_calls),
    ("max_cost_usd", lambda state, now: state.cost_usd or 0.0),
    ("max_seconds", lambda state, now: now - state.started_at - state.held_seconds),
)
"""Field of `RunOptions`, and the amount used of it."""
_UNTOLD = {"max_total_tokens": "untold_tokens", "max_tool_calls": "untold_calls"}
"""Field of `RunOptions`, and the field of `LoopState` with further use of it that was not
reported."""


def _unheld_cost(limit: float, state: LoopState) -> LimitExceededError:
    """The error of a cost that cannot be measured, which counts as a limit reached."""
    known = (
        f"; the others have cost {format_usd(state.cost_usd)}" if state.cost_usd is not None else ""
    )
    return LimitExceededError(
        f"Budget not certain: max_cost_usd ({limit:g}) can't be enforced, because the cost of "
        f"{count_of(state.unpriced_calls, 'model call')} is unknown",
        reason=f"max_cost_usd: no price for {count_of(state.unpriced_calls, 'model call')}{known}",
    )


def deadline(options: RunOptions, state: LoopState) -> float | None:
    """Return when `max_seconds` ends the run's waits, in seconds since the epoch; None for
    never.
    """
    return (
        None
        if options.max_seconds is None
        else state.started_at + state.held_seconds + options.max_seconds
    )


def time_is_over(options: RunOptions, why: str) -> LimitExceededError:
    """Return the error of `max_seconds`, when it ends the wait before a model call; `why` names the
    reason for the wait.
    """
    limit = options.max_seconds
    text = f"Budget exhausted: max_seconds ({limit}) reached"
    return LimitExceededError.of_option(
        "max_seconds", text, reason=f"max_seconds: {limit} used; {why}"
    )


def partial_text(options: RunOptions, state: LoopState) -> str:
    """Output of a run that a limit stopped: `limit_message`, or else a fixed text and the model's
    last text.
    """
    if options.limit_message is not None:
        return options.limit_message.replace("{max_iterations}", str(options.max_iterations))
    return f"{PARTIAL_TEXT}\n\n{state.last_text}" if state.last_text else PARTIAL_TEXT


LEAST_USD = 1e-6
"""A smaller amount counts as zero: it is a rounding error of a division."""


@dataclass(frozen=True)
class Allowance:
    """The limits of one called run; None for no limit."""

    total_tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class ChildEnd:
    """The end of a called run."""

    result: ToolResult
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    cost_usd: float | None = None
    unpriced_calls: int = 0
    """As in `LoopState`."""
    is_told: bool = True
    """Whether the run reported its use. A run that was cancelled or ended from outside does not."""


class Spent(Exception):
    """Too little of a limit is left for another run; the text names the limit."""


@dataclass
class Allowances:
    """Divides the rest of a run's limits among the runs that it calls.

    The runs of one round that run together get equal shares. A share is reserved while its run
    lasts; then the run's use counts as the caller's own, or the whole share if the run did not
    report its use. Each run makes a model call before it checks its limits. Therefore no share of
    tokens or money is smaller than the use of the caller's last model call: fewer runs start
    instead.
    """

    options: RunOptions
    state: LoopState
    _reserved: list[Allowance] = field(default_factory=list)
    _expected: int = 0

    def expect(self, runs: int) -> None:
        """Announce a number of runs that start together, or are refused. Without this, the next one
        may use all that is left.
        """
        self._expected = runs

    def give_up(self) -> None:
        """Count one of the expected runs as not started."""
        self._expected -= 1

    def take(self, now: float) -> Allowance:
        """Return the share of the next run. Raises `Spent`."""
        runs = max(1, self._expected)
        self._expected -= 1
        until = deadline(self.options, self.state)
        seconds = None if until is None else until - now
        if seconds is not None and seconds <= 0:
            raise Spent("max_seconds")
        state = self.state
        last = usages(state.iteration_usage[-1:])
        least = max([usage.total_tokens for usage in last], default=0)
        tokens = self._share(
            "total_tokens", runs, state.usage.total_tokens + state.untold_tokens, least
        )
        calls = self._share("tool_calls", runs, state.tool_calls + state.untold_calls)
        cost = self._share(
            "cost_usd", runs, state.cost_usd or 0.0, state.last_cost_usd or 0.0, LEAST_USD
        )
        share = Allowance(
            total_tokens=None if tokens is None else max(1, int(tokens)),
            tool_calls=None if calls is None else max(1, int(calls)),
            seconds=seconds,
            cost_usd=None if cost is None else round(cost, DIGITS),
        )
        self._reserved.append(share)
        return share

    def _share(
        self, name: str, runs: int, used: float, least: float = 0, nothing: float = 0
    ) -> float | None:
        """Return an equal share of the rest of a limit, for as many of the runs as can have at
        least `least`.

        An amount up to `nothing` counts as zero. Raises `Spent`.
        """
        limit = getattr(self.options, f"max_{name}")
        if limit is None:
            return None
        left = limit - used - sum([getattr(each, name) or 0 for each in self._reserved])
        if left <= nothing or left < least - nothing:
            raise Spent(f"max_{name}")
        affordable = min(runs, int((left + nothing) // least)) if least else runs
        return float(left / max(1, affordable))

    def settle(self, share: Allowance, end: ChildEnd) -> None:
        """Release the share of a run that ended, and count its use."""
        self._reserved.remove(share)
        self.state.usage = self.state.usage + end.usage
        self.state.tool_calls += end.tool_calls
        self.state.add_cost(end.cost_usd, unpriced=end.unpriced_calls)
        if not end.is_told:
            self.state.untold_tokens += share.total_tokens or 0
            self.state.untold_calls += share.tool_calls or 0
