"""What the runs that a run calls may use of its limits, and what they have used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..messages import ToolResult, Usage
from ..money import DIGITS
from ..options import RunOptions
from .limits import deadline
from .state import LoopState, usages

LEAST_USD = 1e-6
"""Less than this is nothing: what dividing leaves over."""
LEAST_SHARE = "least-share"
"""The change since which no share is less than what the caller's last model call has used."""


@dataclass(frozen=True)
class Allowance:
    """What one called run may use; None for no limit."""

    total_tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class ChildEnd:
    """How a called run has ended."""

    result: ToolResult
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    cost_usd: float | None = None
    unpriced_calls: int = 0
    """As in `LoopState`."""


class Spent(Exception):
    """Nothing is left of a limit for another run, or too little; the text says of which."""


class Allowances:
    """Divides what is left of a run's limits among the runs that it calls.

    Those of one round that run together get equal shares. A share is reserved as long as its run goes on; what it has
    used then counts as the caller's own. Each of them makes a model call before it looks at its limits. So no share of
    tokens or money is less than what the caller's last model call has used: rather, fewer runs are started.
    """

    def __init__(
        self, options: RunOptions, state: LoopState, has_least_share: Callable[[], bool] = lambda: True
    ) -> None:
        """`has_least_share` says whether shares have a minimum, which runs of earlier versions did not know."""
        self._options = options
        self._state = state
        self._has_least_share = has_least_share
        self._reserved: list[Allowance] = []
        self._expected = 0

    def expect(self, runs: int) -> None:
        """So many runs are to be started together, or refused. Without this, the next one may use all that is left."""
        self._expected = runs

    def give_up(self) -> None:
        """One of the expected runs will not be started."""
        self._expected -= 1

    def take(self, now: float) -> Allowance:
        """The share of the next run. Raises `Spent`."""
        runs = max(1, self._expected)
        self._expected -= 1
        options, state = self._options, self._state
        until = deadline(options, state)
        seconds = None if until is None else until - now
        if seconds is not None and seconds <= 0:
            raise Spent("max_seconds")
        tokens = [each.total_tokens for each in self._reserved]
        calls = [each.tool_calls for each in self._reserved]
        used, least = state.usage.total_tokens, self._least_tokens()
        share = Allowance(
            total_tokens=self._share("max_total_tokens", options.max_total_tokens, used, tokens, runs, least),
            tool_calls=self._share("max_tool_calls", options.max_tool_calls, state.tool_calls, calls, runs),
            seconds=seconds,
            cost_usd=self._share_of_cost(runs),
        )
        self._reserved.append(share)
        return share

    def _share_of_cost(self, runs: int) -> float | None:
        limit = self._options.max_cost_usd
        if limit is None:
            return None
        left = limit - (self._state.cost_usd or 0.0) - sum(each.cost_usd or 0.0 for each in self._reserved)
        least = (self._state.last_cost_usd or 0.0) if self._has_least_share() else 0.0
        if left <= LEAST_USD or left < least - LEAST_USD:
            raise Spent("max_cost_usd")
        return round(left / _affordable(runs, left + LEAST_USD, least), DIGITS)

    def _least_tokens(self) -> int:
        last = self._state.iteration_usage[-1:]
        if self._options.max_total_tokens is None or not last or not self._has_least_share():
            return 0
        return usages(last)[0].total_tokens

    def settle(self, share: Allowance, end: ChildEnd) -> None:
        """The run has ended: its share is free again, less what it has used."""
        self._reserved.remove(share)
        self._state.usage = self._state.usage + end.usage
        self._state.tool_calls += end.tool_calls
        self._state.add_cost(end.cost_usd, unpriced=end.unpriced_calls)

    @staticmethod
    def _share(
        name: str, limit: int | None, used: int, reserved: Iterable[int | None], runs: int, least: int = 0
    ) -> int | None:
        if limit is None:
            return None
        left = limit - used - sum(each or 0 for each in reserved)
        if left <= 0 or left < least:
            raise Spent(name)
        return max(1, left // _affordable(runs, left, least))


def _affordable(runs: int, left: float, least: float) -> int:
    """How many of the runs can have a share that is not less than `least`."""
    return max(1, min(runs, int(left // least))) if least else runs
