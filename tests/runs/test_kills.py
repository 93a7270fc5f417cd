"""SIGKILL, to workers and to the server: nothing that was completed happens again, and work resumes
soon.

All scenarios run at the same time, beside other tests: they mostly wait for time-outs.
"""

from __future__ import annotations

import asyncio

import pytest

from ..support.comparison import portable
from ..support.kill_scenarios import KILLED_AT, KillScenarios
from ..support.kills import ROUNDS, Point
from ..support.unknown_outcomes import NEEDS_APPROVAL

RESUME_SECONDS = 10.0
STEPS = range(ROUNDS + 1)
CALLS = [f"call_{number}" for number in range(1, ROUNDS + 1)]


@pytest.mark.parametrize("point", KILLED_AT, ids=str)
async def test_a_worker_killed_at(kills: KillScenarios, point: Point) -> None:
    outcome = await kills.outcome(str(point))
    reference = await kills.outcome("undisturbed")
    assert portable(outcome.result.messages) == portable(reference.result.messages)
    assert outcome.result.output == reference.result.output == "All done."
    assert outcome.result.iterations == reference.result.iterations == ROUNDS + 1
    assert outcome.answered == reference.answered == dict.fromkeys(STEPS, 1)
    assert outcome.ended == reference.ended == dict.fromkeys(CALLS, 1)
    again = {point.number - 1: 2} if point.kind == "model" else {}
    assert outcome.asked == {**dict.fromkeys(STEPS, 1), **again}, outcome.delays
    again_calls = {f"call_{point.number}": 2} if point.kind == "tool" else {}
    assert outcome.started == {**dict.fromkeys(CALLS, 1), **again_calls}
    assert outcome.resumed_after is not None
    assert outcome.resumed_after < RESUME_SECONDS, outcome.delays


async def test_a_tool_that_must_not_run_twice_does_not(kills: KillScenarios) -> None:
    outcome = await kills.outcome("paid")
    assert outcome.started == {"call_1": 1}
    assert outcome.ended == {}
    lost = f"Error: Tool 'pay' failed: its worker was lost while it ran{NEEDS_APPROVAL}"
    assert outcome.result.messages[-2].text == lost
    assert outcome.result.output == "I do not know whether it was paid."
    assert outcome.resumed_after is not None
    assert outcome.resumed_after < RESUME_SECONDS, outcome.delays


async def test_the_server_killed_at_every_point(kills: KillScenarios) -> None:
    kill = await asyncio.wait_for(asyncio.shield(kills.server_kill), 100)
    reference = await kills.outcome("undisturbed")
    for point, outcome in kill.outcomes.items():
        assert portable(outcome.result.messages) == portable(reference.result.messages), point
        assert outcome.answered == outcome.asked == dict.fromkeys(STEPS, 1), (point, outcome)
        assert outcome.started == outcome.ended == dict.fromkeys(CALLS, 1), (point, outcome)
        assert outcome.resumed_after is not None
        assert outcome.resumed_after < RESUME_SECONDS, (point, outcome.delays)


async def test_a_tool_that_kills_its_workers_ends(kills: KillScenarios) -> None:
    outcome = await kills.outcome("poisoned")
    assert outcome.started == {"call_1": 2}
    assert "its worker was lost" in outcome.result.messages[-2].text
    assert outcome.result.output == "That did not go well."
