"""A pause on runs: they make no further call, new ones neither, until it is taken off; nothing is
lost or repeated.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.client import Interceptor as ClientInterceptor

from benchmarks.bench_pauses import measure
from perdure.activities.run_cache import RunCache
from perdure.client import RunHandle
from perdure.client.pauses import pause_runs, pauses_in_force, release_runs
from perdure.json_types import JsonObject
from perdure.protocol.outcome import RunStatus
from perdure.protocol.pauses import RECORD, Pause, Pauses, Release, RunFacts, Scope
from perdure.testing import asks, says
from perdure.worker.ending import in_background
from perdure.worker.pauses import PauseWatch

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


async def until_paused(run: RunHandle) -> RunStatus:
    async def paused() -> RunStatus | None:
        status = await run.status()
        return status if [each.reason for each in status.held] == ["paused"] else None

    return await wait_for(paused)


async def test_what_is_under_way_ends_and_nothing_more_begins(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def look(text: str = "") -> str:
        begun.set()
        await may_end.wait()
        return "seen"

    model = scripted([asks("look"), says("done")])
    async with stage.worker([look]):
        run = await stage.start(scripted_agent(model, ["look"]))
        await begun.wait()
        pause = await pause_runs(
            stage.client, task_queue=stage.task_queue, reason="too dear", by="ann"
        )
        assert await pause_runs(stage.client, task_queue=stage.task_queue) == pause

        async def is_known() -> bool:
            return f"A pause begins: {pause}" in caplog.text

        await wait_for(is_known)
        may_end.set()
        status = await until_paused(run)
        assert (status.model_calls, status.held[0].why) == (
            1,
            f"task queue '{stage.task_queue}' paused by ann: too dear",
        )
        later = await stage.start(scripted_agent(scripted([says("late")])))
        await until_paused(later)
    async with stage.worker([look]):
        await release_runs(stage.client, [pause.id])
        assert pause.id not in [each.id for each in await pauses_in_force(stage.client)]
        for each in (run, later):
            await each.go_on(by="ann")
        assert ((await run.result()).output, (await later.result()).output) == ("done", "late")
    await stage.replay()


class SlowReading(ClientInterceptor):
    """A client whose looks at the pauses' record take long to come back; what follows the record is
    as quick as ever.

    `is_read` is set while an answer is on its way, until `may_come` is.
    """

    def __init__(self) -> None:
        self.is_read, self.may_come = asyncio.Event(), asyncio.Event()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        slow = self

        class Outbound(OutboundInterceptor):
            def fetch_workflow_history_events(
                self, input: FetchWorkflowHistoryEventsInput
            ) -> WorkflowHistoryEventAsyncIterator:
                pages = super().fetch_workflow_history_events(input)
                return pages if input.id != RECORD or input.wait_new_event else slow.delayed(pages)

        return Outbound(next)

    def delayed(self, pages: Any) -> Any:
        fetch = pages.fetch_next_page

        async def fetch_next_page(**options: Any) -> None:
            await fetch(**options)
            self.is_read.set()
            await self.may_come.wait()

        pages.fetch_next_page = fetch_next_page
        return pages


async def test_a_late_reading_of_the_record_releases_no_newer_pause(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    slow = SlowReading()
    client = await Client.connect(
        stage.client.service_client.config.target_host,
        data_converter=stage.client.data_converter,
        interceptors=[slow],
    )
    watch, older, newer = PauseWatch(RunCache()), f"{stage.task_queue}-1", f"{stage.task_queue}-2"

    async def is_told(pause: Pause) -> bool:
        return f"A pause begins: {pause}" in caplog.text

    async with in_background(watch.watch, client):
        first = await pause_runs(stage.client, runs=[older])
        await wait_for(lambda: is_told(first))
        looking = asyncio.create_task(watch.pause_on_run(facts(id=older)))
        await slow.is_read.wait()
        second = await pause_runs(stage.client, runs=[newer])
        await wait_for(lambda: is_told(second))
        slow.may_come.set()
        assert await looking == first
        assert watch.may_be_on(facts(id=newer))
        assert "A pause ends" not in caplog.text
    await release_runs(stage.client, [first.id, second.id])


async def test_many_are_paused_and_go_on_over_a_restart_of_everything() -> None:
    figures = await measure(6)
    assert figures.last_call_seconds < 5
    assert (figures.calls_while_paused, list(figures.executions)) == (0, [1])


@pytest.mark.trial
@pytest.mark.timeout(600)
async def test_a_thousand_are_paused_within_five_seconds() -> None:
    figures = await measure(1_000)
    assert figures.last_call_seconds < 5
    assert (figures.calls_while_paused, list(figures.executions)) == (0, [1])


def facts(**more: Any) -> RunFacts:
    return RunFacts(**{"id": "r", "agent": "a", "tenant": None, "task_queue": "q", **more})


@pytest.mark.parametrize(
    ("scope", "covered", "others"),
    [
        ({}, [{}], []),
        ({"agent": "a"}, [{}], [{"agent": "b"}]),
        ({"agent": "a", "tenant": "t"}, [{"tenant": "t"}], [{}, {"agent": "b", "tenant": "t"}]),
        (
            {"runs": ["r", "s"]},
            [{}, {"id": "r/3-0"}, {"id": "s/7/1-1"}],
            [{"id": "r2"}, {"id": "x/r"}],
        ),
    ],
)
def test_a_scope(scope: JsonObject, covered: list[JsonObject], others: list[JsonObject]) -> None:
    for expected, cases in ((True, covered), (False, others)):
        assert [Scope(**scope).covers(facts(**each)) for each in cases] == [expected] * len(cases)


def test_the_lines_of_the_record() -> None:
    pauses = Pauses()
    pauses.take(Pause(id="1", scope=Scope(agent="a")), 1.0)
    pauses.take(Pause(id="2", scope=Scope(runs=["x", "y"])), 2.0)
    pauses.take(Release(pauses=["1", "2"], runs=["r", "x"]), 3.0)
    assert pauses.on(facts()) is None
    assert (pauses.on(facts(id="z")) or Pause(id="", scope=Scope())).id == "1"
    pauses.take(Release(pauses=["2"], runs=["y"]), 4.0)
    pauses.take(Release(pauses=["1"]), 5.0)
    assert pauses.in_force == {}
