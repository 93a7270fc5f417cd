"""A handle speaks of the run that it was made for, and only of what is still to be decided."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment

from perdure import RunNotFound
from perdure.client import RunHandle, get_run, start_run
from perdure.events import as_changes
from perdure.history.chain import Chain
from perdure.testing import asks, call, says

from ..long_runs.conftest import short_histories
from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..test_events_changes import rebuilt

__all__ = ["short_histories"]


async def test_an_id_used_again_leaves_the_first_handle_alone(
    stage: Stage, scripted: Scripted
) -> None:
    gate = Gate()
    async with stage.worker({"gate": gate}):
        first = await stage.start(scripted_agent(scripted([says("first")])))
        found = get_run(stage.client, first.id)
        assert (await found.status()).status in ("running", "done")
        assert (await first.result()).output == "first"
        agent = scripted_agent(scripted([asks(call("gate")), says("second")]), ["gate"])
        second = await start_run(
            stage.client, agent, messages=QUESTION, task_queue=stage.task_queue, id=first.id
        )
        await gate.reached.wait()
        for handle in (first, found):
            await speaks_of_the_first(handle)
            with pytest.raises(RunNotFound, match="has ended"):
                await handle.steer("What?")
            await handle.cancel("enough")
        gate.open.set()
        assert (await second.result()).output == "second"
        assert (await get_run(stage.client, first.id).result()).output == "second"
        await speaks_of_the_first(first)


async def speaks_of_the_first(handle: RunHandle) -> None:
    assert (await handle.result()).output == "first"
    assert (await handle.messages())[-1].text == "first"
    assert (await handle.events())[-1].data["response"] == "first"
    assert [event async for event in handle.stream()] == await handle.events()
    assert (await handle.status()).status == "done"


async def test_all_links_belong_to_a_run_and_those_of_a_later_run_do_not(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted
) -> None:
    def echo(text: str = "") -> str:
        return text

    stage = Stage(short_histories.client, task_queue)
    rounds = [asks(call("echo", f"{number}", text=f"{number}")) for number in range(9)]
    agent = scripted_agent(scripted([*rounds, says("first")]), ["echo"])
    async with stage.worker({"echo": echo}):
        first = await stage.start(agent)
        unasked = RunHandle(
            stage.client, first.id, origin=await Chain(stage.client, first.id).origin()
        )
        result = await first.result()
        second = await stage.start(scripted_agent(scripted([says("second")])), id=first.id)
        assert (await second.result()).output == "second"
    assert len([link async for link in Chain(stage.client, first.id).links()]) == 1
    for handle in (first, unasked):
        assert (await handle.result()).messages == await handle.messages() == result.messages
        events = await handle.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert rebuilt([as_changes(event) for event in events]) == result.messages
        assert (await handle.status()).last_seq == len(events)
    chain = Chain(stage.client, first.id, await unasked._chain.origin())
    assert len([link async for link in chain.links()]) > 1


async def test_a_run_that_does_not_exist(stage: Stage) -> None:
    run = get_run(stage.client, "no such run")
    calls = (run.status, run.events, run.messages, run.result, run.cancel, lambda: run.steer("hi"))
    for each in calls:
        with pytest.raises(
            RunNotFound, match="there is no run 'no such run' in the namespace 'default'"
        ):
            await each()
    with pytest.raises(RunNotFound):
        await anext(run.stream())
