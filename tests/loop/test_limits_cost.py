"""What a run costs: how it is counted, which limits it has, and what called runs may spend."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import LimitExceededError
from perdure.loop.limits import Allowances, ChildEnd
from perdure.loop.state import LoopState, usages
from perdure.messages import Message, ModelReply, ToolResult, Usage
from perdure.options import RunOptions
from perdure.testing import call

from ..support.loop_stage import Stage

TOOLS: Any = {"look": lambda at=0: f"saw {at}"}


def asking(cost: float | None, at: int = 0) -> ModelReply:
    """A reply that asks for a tool, and has cost so much."""
    return ModelReply(message=Message.assistant(tool_calls=[call("look", at=at)]), cost_usd=cost)


def saying(cost: float | None) -> ModelReply:
    return ModelReply(message=Message.assistant("Done"), cost_usd=cost)


async def test_the_costs_of_the_calls_are_added() -> None:
    stage = Stage(asking(0.1), asking(0.2, 1), saying(0.0), tools=TOOLS)
    result = await stage.play()
    assert (result.cost_usd, result.unpriced_calls) == (0.3, 0)
    assert [data["costUsd"] for data in stage.data("llm_complete")] == [0.1, 0.2, 0.0]


async def test_a_call_without_a_price_is_counted_beside_them() -> None:
    result = await Stage(asking(0.1), saying(None), tools=TOOLS).play()
    assert (result.cost_usd, result.unpriced_calls) == (0.1, 1)
    result = await Stage(saying(None)).play()
    assert (result.cost_usd, result.unpriced_calls) == (None, 1)


async def test_a_sum_that_is_no_number_is_not_known() -> None:
    result = await Stage(asking(1e308), asking(1e308, 1), saying(0.1), tools=TOOLS).play()
    assert (result.cost_usd, result.unpriced_calls) == (1e308, 1)


async def test_the_limit_is_looked_at_before_a_call() -> None:
    stage = Stage(asking(0.3), asking(0.3, 1), tools=TOOLS, max_cost_usd=0.5)
    with pytest.raises(LimitExceededError) as failure:
        await stage.play()
    assert str(failure.value) == "Budget exhausted: max_cost_usd (0.5) reached"
    assert failure.value.reason == "max_cost_usd: 0.6 used"
    assert failure.value.iterations == 2


async def test_a_call_without_a_price_ends_a_run_with_a_limit() -> None:
    stage = Stage(asking(0.1), asking(None, 1), tools=TOOLS, max_cost_usd=0.5)
    with pytest.raises(LimitExceededError) as failure:
        await stage.play()
    text = (
        "Budget not certain: max_cost_usd (0.5) can't be enforced, because the cost of 1 model "
        "call is unknown"
    )
    assert str(failure.value) == text
    assert (
        failure.value.reason
        == "max_cost_usd: no price for 1 model call; the others have cost $0.10"
    )


def spent(cost: float | None, unpriced: int = 0) -> ChildEnd:
    return ChildEnd(ToolResult.of_text("done"), cost_usd=cost, unpriced_calls=unpriced)


def test_called_runs_share_what_is_left() -> None:
    state = LoopState(cost_usd=0.4)
    shares = Allowances(RunOptions(max_cost_usd=1.0), state)
    shares.expect(3)
    first, second = shares.take(0), shares.take(0)
    shares.settle(first, spent(0.05))
    third = shares.take(0)
    assert [first.cost_usd, second.cost_usd, third.cost_usd] == [0.2, 0.2, 0.35]
    shares.settle(second, spent(0.2))
    shares.settle(third, spent(None, unpriced=2))
    assert (state.cost_usd, state.unpriced_calls) == (0.65, 2)


def test_counts_of_calls_are_read_with_and_without_their_last_field() -> None:
    plain, cached = (
        Usage(input_tokens=3, total_tokens=3),
        Usage(input_tokens=3, total_tokens=3, cache_write_tokens=2),
    )
    longer = Usage(input_tokens=3, total_tokens=3, cache_write_1h_tokens=2)
    state = LoopState()
    for usage in (plain, cached, longer):
        state.count(ModelReply(message=Message.assistant(), usage=usage))
    assert list(map(len, state.iteration_usage)) == [5, 6, 7]
    assert usages(state.iteration_usage) == [plain, cached, longer]
