"""Decisions about calls of a run that continues as new: before, during and after."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import ApprovalError
from perdure.client import RunHandle
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

ROUNDS = 7


async def decided(run: RunHandle, number: int) -> dict[str, int]:
    """Approve that call as soon as it waits, however often it is refused before; what it was
    refused for.
    """
    refusals: dict[str, int] = {}
    while True:
        try:
            await run.approve(f"c{number}", by=f"person {number}")
            return refusals
        except ApprovalError as refusal:
            refusals[refusal.kind] = refusals.get(refusal.kind, 0) + 1
            await asyncio.sleep(0.02)


async def test_decisions_sent_at_any_moment(stage: Stage, scripted: Scripted) -> None:
    done: list[str] = []
    may_end = [threading.Event() for _ in range(ROUNDS)]

    @tool(needs_approval=True, idempotent=False)
    def act(text: str = "") -> str:
        """Act."""
        done.append(text)
        assert may_end[int(text)].wait(60)
        return "x" * 400

    steps = [asks(call("act", f"c{number}", text=str(number))) for number in range(ROUNDS)]
    async with stage.worker([act]):
        run = await stage.start(
            scripted_agent(scripted([*steps, says("done")]), ["act"]), max_iterations=50
        )
        refusals = []
        for number in range(ROUNDS):
            refusals.append(await decided(run, number))
            with pytest.raises(ApprovalError) as early:
                await run.approve(f"c{number + 1}")
            assert early.value.kind == "unknown", (
                "the next call can't wait before this one has ended"
            )
            may_end[number].set()
            # A decision that was accepted, repeated while the run goes on, perhaps in its next
            # link.
            if number < ROUNDS - 1:
                await run.approve(f"c{number}")
                with pytest.raises(
                    ApprovalError, match=f"was approved by person {number} .claimed. already"
                ):
                    await run.deny(f"c{number}", "too late")
        assert (await run.result()).output == "done"
    assert done == [str(number) for number in range(ROUNDS)], "each ran once"
    assert {kind for each in refusals for kind in each} <= {"unknown"}
    described = await stage.client.get_workflow_handle(run.id).describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
