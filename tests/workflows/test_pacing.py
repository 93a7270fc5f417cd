"""Model calls at a rate that the workers of a task queue share (`create_worker(model_rate=…)`)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.worker import Worker

from perdure.agents import Model
from perdure.client import RunHandle
from perdure.errors import ConfigurationError, RunCancelled
from perdure.protocol.names import PERMIT
from perdure.protocol.run import paced_with, rate_of, rate_queue
from perdure.testing import asks, call, says
from perdure.worker import PerdurePlugin, create_worker

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

FAST, SLOW = 1000.0, 0.1


def echo(text: str = "") -> str:
    return text


async def permits(run: RunHandle) -> Counter[str]:
    """How often the run has asked for a permit, by rate queue."""
    asked: Counter[str] = Counter()
    history = run._client.get_workflow_handle(run.id).fetch_history_events()
    async for event in history:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == PERMIT:
                asked[scheduled.task_queue.name] += 1
    return asked


async def all_results(runs: Sequence[RunHandle]) -> None:
    await asyncio.gather(*(run.result() for run in runs))


async def test_two_workers_share_one_rate(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("done")])
    paced = {"model_rate": {"openai": 5.0}}
    async with stage.worker(**paced), stage.another_worker(**paced):
        began = time.monotonic()
        runs = [await stage.start(scripted_agent(model)) for _ in range(12)]
        await all_results(runs)
    # The permits of one second come at once, the others at their rate: what is slow here only makes
    # it longer.
    assert time.monotonic() - began > (12 - 5) / 5.0
    assert len(model.requests) == 12
    assert [await permits(run) for run in runs] == 12 * [
        {rate_queue(stage.task_queue, "openai"): 1}
    ]


async def test_each_attempt_of_a_call_takes_a_permit(stage: Stage, scripted: Scripted) -> None:
    model = scripted([[says("", status=500), asks(call("echo", text="x"))], says("done")])
    async with stage.worker({"echo": echo}, model_rate={"openai/scripted": FAST, "openai": SLOW}):
        run = await stage.start(scripted_agent(model, ["echo"]))
        await run.result()
    assert len(model.requests) == 3
    assert await permits(run) == {rate_queue(stage.task_queue, "openai/scripted"): 3}


async def test_a_call_that_is_lost_with_its_worker_takes_another_permit(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([[says("too slow", delay=30), says("done")]])
    at_once = timedelta(milliseconds=100)
    async with stage.worker(model_rate={"openai": FAST}, graceful_shutdown_timeout=at_once):
        run = await stage.start(scripted_agent(model))
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
    async with stage.worker(model_rate={"openai": FAST}):
        assert (await run.result()).output == "done"
    assert await permits(run) == {rate_queue(stage.task_queue, "openai"): 2}


async def test_a_run_that_waits_for_a_permit_says_so_and_can_be_cancelled(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([says("done")])
    async with stage.worker(model_rate={"openai": SLOW}):
        runs = [await stage.start(scripted_agent(model)) for _ in range(8)]

        async def waits() -> bool:
            return any([(await run.status()).waits_for_rate == "openai" for run in runs])

        await wait_for(waits)
        await asyncio.gather(*(run.cancel() for run in runs))
        ends = await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)
    assert any(isinstance(end, RunCancelled) for end in ends)
    assert len(model.requests) < 8


async def test_where_nobody_gives_permits_a_run_says_so_and_goes_on(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks(call("echo", text="x")), says("done")])
    plugin = PerdurePlugin(tools={"echo": echo}, model_rate={"openai": FAST})
    plugin.rates = {}  # What it tells of rates is that of a worker that has left.
    async with Worker(stage.client, task_queue=stage.task_queue, plugins=[plugin]):
        run = await stage.start(scripted_agent(model, ["echo"]))
        await run.result()
    [said] = [event.data["message"] for event in await run.events() if event.type == "status"]
    assert "go on without a rate" in said
    assert rate_queue(stage.task_queue, "openai") in said
    assert (await permits(run)).total() == 1


def test_a_rate_of_an_unknown_provider_is_refused(stage: Stage) -> None:
    with pytest.raises(ConfigurationError, match="'opnai'.*did you mean 'openai'"):
        create_worker(stage.client, model_rate={"opnai": 1.0})


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        ("openai/big", "openai/big"),
        ("openai/small", "openai"),
        ("anthropic/claude", "anthropic"),
        ("azure/x", None),
    ],
)
def test_a_run_that_goes_on_with_another_model_takes_permits_of_its_rate(
    model: str, rate: str | None
) -> None:
    provider, id = model.split("/")
    names = {"model": "openai/big", "fallback 1": "openai", "compactor": "anthropic"}
    before = {call: rate_queue("q", name) for call, name in names.items()}
    after = paced_with(before, Model(provider=provider, id=id))
    others = {call: name for call, name in names.items() if call != "model"}
    assert {call: rate_of(queue) for call, queue in after.items()} == others | (
        {"model": rate} if rate else {}
    )
