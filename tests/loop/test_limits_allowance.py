"""What is left of a run's limits, divided among the runs that it calls."""

from __future__ import annotations

import pytest

from perdure.errors import LimitExceededError
from perdure.loop.child_runs import child_options, depth_refusal
from perdure.loop.limits import Allowance, Allowances, ChildEnd, Spent, reached_limit
from perdure.loop.state import LoopState
from perdure.messages import Message, ModelReply, ToolResult, Usage
from perdure.options import RunOptions

RESULT = ToolResult.of_text("done")


def used(tokens: int, calls: int = 0) -> ChildEnd:
    return ChildEnd(RESULT, Usage(total_tokens=tokens), calls)


def test_without_limits_there_are_none() -> None:
    assert Allowances(RunOptions(), LoopState()).take(now=5.0) == Allowance()


def test_one_after_the_other_each_may_use_all_that_is_left() -> None:
    state = LoopState(usage=Usage(total_tokens=100))
    shares = Allowances(RunOptions(max_total_tokens=1000), state)
    first = shares.take(0)
    assert first.total_tokens == 900
    shares.settle(first, used(300))
    assert shares.take(0).total_tokens == 600
    assert state.usage.total_tokens == 400


@pytest.mark.parametrize(
    ("left", "shares"), [(100, [25] * 4), (103, [25, 26, 26, 26]), (2, [1, 1, None, None])]
)
def test_together_they_share_equally_and_never_more_than_is_left(
    left: int, shares: list[int | None]
) -> None:
    allowances = Allowances(RunOptions(max_total_tokens=left), LoopState())
    allowances.expect(4)
    taken: list[int | None] = []
    for _ in range(4):
        try:
            taken.append(allowances.take(0).total_tokens)
        except Spent:
            taken.append(None)
    assert taken == shares


def test_no_share_is_less_than_what_the_last_call_has_used() -> None:
    state = LoopState()
    state.count(
        ModelReply(message=Message.assistant("Hi"), usage=Usage(input_tokens=30, total_tokens=30))
    )
    allowances = Allowances(RunOptions(max_total_tokens=100), state)
    allowances.expect(4)
    assert [allowances.take(0).total_tokens, allowances.take(0).total_tokens] == [35, 35]
    with pytest.raises(Spent, match="max_total_tokens"):
        allowances.take(0)


def test_a_refused_call_leaves_its_share_to_the_others() -> None:
    allowances = Allowances(RunOptions(max_tool_calls=30), LoopState())
    allowances.expect(3)
    allowances.give_up()
    assert [allowances.take(0).tool_calls, allowances.take(0).tool_calls] == [15, 15]


def test_what_a_share_has_left_is_free_again() -> None:
    allowances = Allowances(RunOptions(max_total_tokens=100), LoopState())
    allowances.expect(2)
    first, second = allowances.take(0), allowances.take(0)
    with pytest.raises(Spent):
        allowances.take(0)
    allowances.settle(first, used(10))
    assert allowances.take(0).total_tokens == 40
    allowances.settle(second, used(70))
    with pytest.raises(Spent):
        allowances.take(0)


def test_a_run_that_does_not_tell_what_it_has_used_counts_with_its_share() -> None:
    options, state = RunOptions(max_total_tokens=100, max_tool_calls=10), LoopState()
    allowances = Allowances(options, state)
    allowances.expect(2)
    first, second = allowances.take(0), allowances.take(0)
    allowances.settle(first, ChildEnd(RESULT, is_told=False))
    allowances.settle(second, used(10, calls=1))
    assert reached_limit(options, state, 0.0) is None
    last = allowances.take(0)
    assert (last.total_tokens, last.tool_calls) == (40, 4)
    allowances.settle(last, ChildEnd(RESULT, is_told=False))
    reached = reached_limit(options, state, 0.0)
    assert isinstance(reached, LimitExceededError)
    assert reached.reason == "max_total_tokens: 10 used, up to 90 more that could not be counted"
    assert state.usage.total_tokens == 10


def test_the_time_is_everyone_s() -> None:
    allowances = Allowances(RunOptions(max_seconds=10), LoopState(started_at=100.0))
    allowances.expect(2)
    assert [allowances.take(103.0).seconds, allowances.take(104.0).seconds] == [7.0, 6.0]
    with pytest.raises(Spent, match="max_seconds"):
        allowances.take(110.0)


def test_the_options_of_a_called_run() -> None:
    options = RunOptions(
        turn=3, raw=True, guardrails="strict", stream=True, max_iterations=7, max_total_tokens=1000
    )
    called = child_options(options, Allowance(total_tokens=10, seconds=2.0), single=False)
    assert called == RunOptions(
        guardrails="strict", stream=True, max_iterations=7, max_total_tokens=10, max_seconds=2
    )
    assert child_options(options, Allowance(), single=True).max_iterations == 1


def test_how_deep_is_too_deep() -> None:
    assert depth_refusal("t", RunOptions(max_depth=2), 1) is None
    refused = depth_refusal("t", RunOptions(max_depth=2), 2)
    assert refused is not None
    assert (refused.status, refused.error_kind) == ("error", "limit")
