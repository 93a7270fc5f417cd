"""§9.1, §18-9 and the budgets: which limit ends a run, when, and with what."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import LimitExceededError, MaxIterationsError, RunError
from perdure.json_types import JsonObject
from perdure.loop.limits import PARTIAL_TEXT
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage, Step, fails


def rounds(count: int, *, text: str = "", tokens: int = 0) -> list[Step]:
    """So many replies that ask for different calls."""
    return [
        asks(call("look", at=number), text=text, output_tokens=tokens) for number in range(count)
    ]


TOOLS: Any = {"look": lambda at=0: f"saw {at}"}


async def test_the_cap_is_reached_before_the_next_model_call() -> None:
    stage = Stage(*rounds(3), tools=TOOLS, max_iterations=3)
    with pytest.raises(MaxIterationsError, match="^Agent loop exceeded 3 iterations$") as failure:
        await stage.play()
    assert isinstance(failure.value, RuntimeError)
    assert (
        failure.value.reason
        == "max_iterations=3 is used up: raise it, or look at the tools' answers"
    )
    assert (failure.value.iterations, len(stage.seen)) == (3, 3)
    assert stage.results() == ["saw 0", "saw 1", "saw 2"]
    assert stage.data("failed") == [
        {"kind": "max_iterations", "message": "Agent loop exceeded 3 iterations"}
    ]


async def test_an_answer_in_the_last_iteration_is_an_answer() -> None:
    stage = Stage(*rounds(2), says("Done"), tools=TOOLS, max_iterations=3)
    result = await stage.play()
    assert (result.output, result.iterations, result.is_incomplete) == ("Done", 3, False)


@pytest.mark.parametrize(
    ("options", "text", "reason", "calls"),
    [
        (
            {"max_total_tokens": 25},
            "Budget exhausted: max_total_tokens (25) reached",
            "max_total_tokens: 30 used",
            3,
        ),
        (
            {"max_tool_calls": 2},
            "Budget exhausted: max_tool_calls (2) reached",
            "max_tool_calls: 2 used",
            2,
        ),
        (
            {"max_seconds": 4.5},
            "Budget exhausted: max_seconds (4.5) reached",
            "max_seconds: 4.5 used; the last model call failed: it broke",
            0,
        ),
    ],
)
async def test_budgets(options: JsonObject, text: str, reason: str, calls: int) -> None:
    limited = [fails("overloaded", retry_after=5.0)] if "max_seconds" in options else []
    stage = Stage(*limited, *rounds(5, tokens=10), tools=TOOLS, **options)
    with pytest.raises(LimitExceededError) as failure:
        await stage.play()
    assert (str(failure.value), failure.value.reason) == (text, reason)
    assert failure.value.iterations == calls
    assert stage.types()[-1] == "failed"


async def test_a_budget_that_the_answer_itself_exceeds_does_not_matter() -> None:
    stage = Stage(says("Done", output_tokens=1000), max_total_tokens=10)
    assert (await stage.play()).output == "Done"


async def test_partial_gives_a_text_and_the_last_that_the_model_said() -> None:
    stage = Stage(
        *rounds(1, text="Half of it is blue."),
        *rounds(1),
        tools=TOOLS,
        max_iterations=2,
        on_limit="partial",
    )
    result = await stage.play()
    assert result.output == f"{PARTIAL_TEXT}\n\nHalf of it is blue."
    assert (result.is_incomplete, result.iterations) == (True, 2)
    assert stage.data("done") == [{"response": result.output, "cutShort": "limit"}]
    assert result.messages[-1].role == "tool"


async def test_final_answer_is_one_last_call_without_tools() -> None:
    stage = Stage(
        *rounds(2), says("So far: blue"), tools=TOOLS, max_iterations=2, on_limit="final_answer"
    )
    result = await stage.play()
    assert (result.output, result.is_incomplete, result.iterations) == ("So far: blue", True, 3)
    assert [bool(agent.tools) for agent in stage.agents] == [True, True, False]
    assert result.messages[-1].text == "So far: blue"
    assert stage.types()[-4:] == ["llm_start", "llm_complete", "messages_updated", "done"]


@pytest.mark.parametrize(("text", "output"), [("Blue?", "Blue?"), ("", PARTIAL_TEXT)])
async def test_calls_in_the_final_answer_are_not_run(text: str, output: str) -> None:
    ran: list[int] = []
    stage = Stage(
        *rounds(1),
        asks(call("look"), text=text),
        tools={"look": lambda at=0: ran.append(at)},
        max_iterations=1,
        on_limit="final_answer",
    )
    result = await stage.play()
    assert (result.output, ran) == (output, [0])
    assert result.messages[-1].tool_calls == []


async def test_a_final_answer_that_fails_fails_the_run() -> None:
    stage = Stage(
        *rounds(1),
        fails("bad_request", "no"),
        tools=TOOLS,
        max_iterations=1,
        on_limit="final_answer",
    )
    with pytest.raises(RunError, match="LLM call failed: no"):
        await stage.play()
    assert stage.types()[-1] == "failed"


async def test_time_that_ends_in_a_wait_for_another_try_gives_the_partial_result() -> None:
    limited = fails("overloaded", retry_after=50.0)
    stage = Stage(
        *rounds(1, text="Half."), limited, tools=TOOLS, max_seconds=4.5, on_limit="partial"
    )
    result = await stage.play()
    assert (result.output, result.is_incomplete, result.iterations) == (
        f"{PARTIAL_TEXT}\n\nHalf.",
        True,
        1,
    )
    assert stage.effects.waited == [4.5]
    assert stage.types()[-1] == "done"


async def test_time_that_ends_in_a_wait_for_another_try_leaves_a_final_answer() -> None:
    limited = fails("overloaded", retry_after=50.0)
    stage = Stage(
        *rounds(1), limited, says("Blue"), tools=TOOLS, max_seconds=4.5, on_limit="final_answer"
    )
    result = await stage.play()
    assert (result.output, result.is_incomplete, result.iterations) == ("Blue", True, 2)
    assert [bool(agent.tools) for agent in stage.agents] == [True, True, False]


async def test_a_final_answer_beyond_the_time_is_tried_once() -> None:
    limited = fails("overloaded", retry_after=50.0)
    stage = Stage(limited, limited, max_seconds=4.5, on_limit="final_answer")
    with pytest.raises(LimitExceededError, match="max_seconds") as failure:
        await stage.play()
    assert "it broke" in str(failure.value.reason)
    assert (len(stage.seen), stage.effects.waited[0]) == (2, 4.5)
    assert stage.types()[-1] == "failed"
