"""What a worker keeps of runs is bounded in bytes; a run that waits costs nothing that it can't
give back.
"""

from __future__ import annotations

import pytest
from temporalio.worker import Worker

from perdure.client import RunHandle
from perdure.errors import MaxIterationsError, RunCancelled
from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest
from perdure.tools import tool
from perdure.worker import PerdurePlugin

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

KIB = 1024


@tool(needs_approval=True)
def delete(text: str = "") -> str:
    """Delete."""
    return f"deleted {text}"


@tool
def shout(text: str = "") -> str:
    """Shout."""
    return text.upper()


def asks_once(request: ScriptedRequest) -> ScriptedReply:
    return (
        says("done")
        if request.messages[-1].role == "tool"
        else asks(call("delete", "c", text="it"))
    )


def plugin_of(worker: Worker) -> PerdurePlugin:
    (plugin,) = worker.config()["plugins"]
    assert isinstance(plugin, PerdurePlugin)
    return plugin


async def waits(run: RunHandle) -> bool:
    return (await run.status()).status == "waiting_for_approval"


async def test_waiting_runs_are_given_back_and_go_on_all_the_same(
    roomy_stage: Stage, scripted: Scripted
) -> None:
    stage, limit = roomy_stage, 2000 * KIB
    agent = scripted_agent(scripted(asks_once), ["delete"])
    seed = [*QUESTION, Message.user("x" * 200 * KIB)]
    async with stage.worker([delete], workflow_cache_bytes=limit) as worker:
        held = plugin_of(worker).workflows_held
        runs = [await stage.start(agent, seed) for _ in range(12)]
        for run in runs:
            await wait_for(lambda run=run: waits(run))  # type: ignore[misc]

        async def bounded() -> bool:
            return 0 < held.bytes <= limit

        await wait_for(bounded)
        assert held.evictions >= 6
        for run in runs:
            await run.approve("c")
        assert [(await run.result()).output for run in runs] == ["done"] * 12


async def test_nothing_is_kept_of_a_run_that_has_ended(
    roomy_stage: Stage, scripted: Scripted
) -> None:
    stage = roomy_stage
    asking = scripted_agent(scripted(asks_once), ["delete"])
    failing = scripted_agent(
        scripted([asks(call("shout", f"c{number}")) for number in range(3)]), ["shout"]
    )
    async with stage.worker([shout, delete]) as worker:
        cache = plugin_of(worker).runs
        waiting, approved, cancelled = [await stage.start(asking) for _ in range(3)]
        await wait_for(lambda: waits(waiting))
        await wait_for(lambda: waits(approved))
        await wait_for(lambda: waits(cancelled))
        failed = await stage.start(failing, max_iterations=2)
        with pytest.raises(MaxIterationsError):
            await failed.result()
        await approved.approve("c")
        await approved.result()
        await cancelled.cancel()
        with pytest.raises(RunCancelled):
            await cancelled.result()

        async def only_the_waiting_one() -> bool:
            kept = [run.id in cache for run in (waiting, approved, cancelled, failed)]
            return kept == [True, False, False, False]

        await wait_for(only_the_waiting_one)
        hits = cache.hits
        await waiting.approve("c")
        await waiting.result()
        assert (cache.hits, cache.misses) == (hits + 1, 0)
