"""§9.10: which failures of a model call are tried again, how often, and after which waits."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import ExecuteError, ModelErrorKind, RunCancelled
from perdure.json_types import JsonObject
from perdure.testing import asks, says

from ..support.loop_stage import Stage, fails

PASSING = ["overloaded", "timeout", "connection", "server"]
LASTING = ["authentication", "permission", "bad_request", "not_found", "quota_exhausted", "refusal"]


@pytest.mark.parametrize("kind", PASSING)
async def test_a_failure_that_may_pass_is_tried_again(kind: str) -> None:
    stage = Stage(fails(kind), fails(kind), says("At last"))
    result = await stage.play()
    assert (result.output, result.iterations) == ("At last", 1)
    assert stage.said() == [
        "LLM call failed, retrying (attempt 2/3)...",
        "LLM call failed, retrying (attempt 3/3)...",
    ]
    assert [data["reason"] for data in stage.data("status")] == ["it broke", "it broke"]
    assert stage.seen[0] == stage.seen[1] == stage.seen[2]


@pytest.mark.parametrize("kind", LASTING)
async def test_a_failure_that_lasts_is_not_tried_again(kind: str) -> None:
    stage = Stage(fails(kind, "no"))
    with pytest.raises(ExecuteError, match="^LLM call failed: no$") as failure:
        await stage.play()
    assert failure.value.reason == kind
    assert stage.effects.waited == []


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_attempts_in_total(attempts: int) -> None:
    stage = Stage(*[fails("server", "broken")] * attempts, max_llm_retries=attempts)
    with pytest.raises(
        ExecuteError, match=f"^LLM call failed after {attempts - 1} retries: broken$"
    ):
        await stage.play()
    assert len(stage.seen) == attempts
    assert len(stage.effects.waited) == attempts - 1


async def test_the_error_holds_the_whole_conversation() -> None:
    stage = Stage(asks("look"), fails("bad_request"), tools={"look": lambda: "🟦"})
    with pytest.raises(ExecuteError) as failure:
        await stage.play()
    assert [message.role for message in failure.value.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert failure.value.messages == stage.messages
    assert failure.value.iterations == 1


@pytest.mark.parametrize(
    ("base", "waits"),
    [
        (2.0, [2.5, 4.5, 8.5, 16.5, 32.5, 60.0, 60.0]),
        (0.0, [0.0] * 7),
    ],
)
async def test_waits_double_with_jitter_up_to_a_minute(base: float, waits: list[float]) -> None:
    stage = Stage(*[fails("server")] * 7, says("Fine"), max_llm_retries=8, retry_base_seconds=base)
    await stage.play()
    assert stage.effects.waited == waits


async def test_two_thousand_attempts_overflow_nothing() -> None:
    stage = Stage(*[fails("server")] * 1999, says("Fine"), max_llm_retries=2000)
    assert (await stage.play()).output == "Fine"


@pytest.mark.parametrize("kind", ["overloaded", "server", "connection"])
@pytest.mark.parametrize(
    ("asked", "waited"), [(7.0, 7.0), (0.0, 0.0), (61.0, 61.0), (300.0, 300.0), (3600.0, 60.0)]
)
async def test_retry_after_is_honoured_as_far_as_waits_are_allowed(
    kind: ModelErrorKind, asked: float, waited: float
) -> None:
    """Beyond `rate_limit_seconds`, a minute is as good as any wait."""
    stage = Stage(fails(kind, retry_after=asked), says("Fine"))
    await stage.play()
    assert stage.effects.waited == [waited]


async def test_long_waits_that_a_provider_asks_for_cost_no_attempt_until_the_allowance_is_used_up() -> (
    None
):
    stage = Stage(*[fails("overloaded", retry_after=140.0)] * 3, says("Fine"), max_llm_retries=2)
    assert (await stage.play()).output == "Fine"
    assert stage.effects.waited == [140.0, 140.0, 60.0]
    assert stage.said()[0] == "The provider asks for it, waiting 140 s..."


async def test_waits_for_a_rate_limit_cost_no_attempt() -> None:
    stage = Stage(
        *[fails("rate_limit", retry_after=30.0)] * 5,
        fails("server"),
        says("Fine"),
        max_llm_retries=2,
    )
    assert (await stage.play()).output == "Fine"
    assert stage.effects.waited == [30.0] * 5 + [2.5]
    assert stage.said()[0] == "Rate limit reached, waiting 30 s..."
    assert stage.said()[-1] == "LLM call failed, retrying (attempt 2/2)..."


async def test_waits_for_a_rate_limit_double_when_the_provider_names_none() -> None:
    stage = Stage(*[fails("rate_limit")] * 3, says("Fine"), max_llm_retries=1)
    await stage.play()
    assert stage.effects.waited == [2.5, 4.5, 8.5]


@pytest.mark.parametrize(
    ("options", "asked", "waits", "text"),
    [
        ({}, 100.0, [100.0] * 3, "after waiting 300 s"),
        ({}, 301.0, [], "after waiting 0 s"),
        ({"rate_limit_seconds": 0.0}, 1.0, [], "after waiting 0 s"),
        ({"rate_limit_seconds": 5.0}, 0.0, [0.0] * 5, "after waiting 5 s"),
        (
            {"rate_limit_seconds": 5.0, "retry_base_seconds": 0.0},
            None,
            [0.0] * 5,
            "after waiting 5 s",
        ),
    ],
    ids=["used up", "asked too much", "none allowed", "retry at once for ever", "no backoff"],
)
async def test_waits_for_a_rate_limit_are_bounded(
    options: JsonObject, asked: float | None, waits: list[float], text: str
) -> None:
    stage = Stage(*[fails("rate_limit", "slow down", retry_after=asked)] * 10, **options)
    with pytest.raises(ExecuteError, match=f"^LLM call failed {text} for a rate limit: slow down$"):
        await stage.play()
    assert stage.effects.waited == waits


async def test_each_model_call_has_its_own_attempts() -> None:
    twice = fails("server"), fails("server")
    stage = Stage(*twice, asks("look"), *twice, says("Fine"), tools={"look": lambda: "🟦"})
    assert (await stage.play()).iterations == 2


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_cancel_during_the_wait_ends_the_run(moment: str) -> None:
    stage = Stage(fails("server"), says("never"))
    if moment == "before":
        stage.effects.cancel_at = ("status", 1)
    else:
        stage.effects.after_wait = stage.run.cancel
    with pytest.raises(RunCancelled):
        await stage.play()
    assert len(stage.seen) == 1
    assert stage.types()[-2:] == ["status", "cancelled"]


async def test_what_a_model_function_raises_fails_the_run() -> None:
    def broken() -> Any:
        raise ZeroDivisionError("by zero")

    stage = Stage(broken)
    with pytest.raises(ExecuteError, match="the model function raised ZeroDivisionError"):
        await stage.play()
    assert stage.types()[-1] == "failed"
