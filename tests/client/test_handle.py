"""Reading a run: status, events, messages and stream, open and closed, with a worker and
without.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.client import RunEvent, RunHandle, get_run
from perdure.messages import Message
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.waiting import wait_for

WHOLE = [
    ("llm_start", 1),
    ("llm_complete", 1),
    ("tool_call_start", 1),
    ("tool_result", 1),
    ("messages_updated", 1),
    ("llm_start", 2),
    ("llm_complete", 2),
    ("messages_updated", 2),
    ("done", 2),
]


def kinds(events: list[RunEvent]) -> list[tuple[str, int]]:
    return [(event.type, event.iteration) for event in events]


def without_time(events: list[RunEvent]) -> list[RunEvent]:
    """A worker that replays a run moves the clock a little after a local activity; nothing else may
    differ.
    """
    return [event.model_copy(update={"time": 0.0}) for event in events]


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def finished(stage: Stage, scripted: Scripted, gate: Gate) -> RunHandle:
    gate.open.set()
    async with stage.worker({"gate": gate}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("gate")), says("done")]), ["gate"])
        )
        await run.result()
    return get_run(stage.client, run.id)


async def test_a_closed_run_without_a_worker(stage: Stage, scripted: Scripted, gate: Gate) -> None:
    run = await finished(stage, scripted, gate)
    events = await run.events()
    assert kinds(events) == WHOLE
    assert [event.seq for event in events] == list(range(1, 10))
    assert events[2].data == {"name": "gate", "arguments": "{}"}
    assert events[2].call_id == events[3].call_id == "call_gate"
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert events[-1].data["response"] == "done"
    assert [message.text for message in events[-1].data["messages"][2:]] == ["", "through", "done"]
    assert len(events[4].data["messages"]) == 4
    assert await run.events(after=7) == events[7:]
    assert [event async for event in run.stream()] == events
    assert kinds([event async for event in run.stream(after=7)]) == WHOLE[7:]
    result, status = await run.result(), await run.status()
    assert await run.messages() == result.messages
    assert (status.status, status.iteration, status.model_calls, status.last_seq) == (
        "done",
        2,
        2,
        9,
    )
    assert status.usage == result.usage


async def test_what_is_read_live_is_what_is_read_later(
    stage: Stage, scripted: Scripted, gate: Gate
) -> None:
    live: list[RunEvent] = []

    async def watch(run: RunHandle) -> None:
        async for event in run.stream():
            live.append(event)

    async with stage.worker({"gate": gate}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("gate")), says("done")]), ["gate"])
        )
        watching = asyncio.create_task(watch(get_run(stage.client, run.id)))
        await gate.reached.wait()
        await wait_for(lambda: seen(live, 3))
        assert kinds(live) == WHOLE[:3]
        status = await run.status()
        assert (status.status, status.iteration, status.model_calls) == ("running", 1, 1)
        assert [message.role for message in await run.messages()] == ["system", "user"]
        gate.open.set()
        await asyncio.wait_for(watching, 10)
    assert without_time(live) == without_time(await get_run(stage.client, run.id).events())


async def seen(events: list[RunEvent], count: int) -> bool:
    return len(events) >= count


async def test_an_open_run_without_a_worker(stage: Stage, scripted: Scripted, gate: Gate) -> None:
    model = scripted([asks(call("gate")), says("done")])
    async with stage.worker({"gate": gate}, graceful_shutdown_timeout=timedelta(0)):
        run = await stage.start(scripted_agent(model, ["gate"]))
        await gate.reached.wait()
    readers = [get_run(stage.client, run.id) for _ in range(4)]
    streaming = asyncio.create_task(first(3, readers[3]))
    status, events, messages = await asyncio.gather(
        readers[0].status(), readers[1].events(), readers[2].messages()
    )
    assert (status.status, status.iteration, status.model_calls) == ("running", 1, 1)
    assert kinds(events) == WHOLE[:3]
    assert await asyncio.wait_for(streaming, 10) == events
    assert [message.role for message in messages] == ["system", "user"]
    gate.open.set()
    async with stage.worker({"gate": gate}):
        result = await run.result()
    assert [message.text for message in result.messages[2:]] == ["", "through", "done"]


async def first(count: int, run: RunHandle) -> list[RunEvent]:
    events: list[RunEvent] = []
    async for event in run.stream():
        events.append(event)
        if len(events) == count:
            break
    return events


async def test_a_run_that_no_worker_ever_took_up(stage: Stage, scripted: Scripted) -> None:
    run = await stage.start(scripted_agent(scripted([says("done")])), [Message.user("hi")])
    readers = [get_run(stage.client, run.id) for _ in range(3)]
    status, events, messages = await asyncio.gather(
        readers[0].status(), readers[1].events(), readers[2].messages()
    )
    assert (status.status, status.iteration) == ("running", 0)
    assert events == []
    assert messages == [Message.user("hi")]
    await run.cancel()
    async with stage.worker():
        await wait_for(lambda: is_cancelled(run))


async def is_cancelled(run: RunHandle) -> bool:
    return (await run.status()).status == "cancelled"
