"""What the next attempt of a tool's activity finds in the heartbeats of the one before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from perdure.activities.failures import Starts, last_heartbeat
from perdure.activities.heartbeat import Readers, heartbeats
from perdure.activities.tool_activities import ToolHeartbeat
from perdure.payloads.converter import perdure_data_converter
from perdure.tool_calls import ToolProgress

PROGRESS = ToolProgress(name="work", call_id="c", iteration=1, done=1)


@pytest.mark.parametrize("starts", [None, Starts(2, 1).detail])
async def test_progress_takes_no_detail_s_place(client: Client, starts: object) -> None:
    beats: list[tuple[Any, ...]] = []
    counted = () if starts is None else (starts,)
    environment, readers = ActivityEnvironment(client=client), Readers()
    readers.note("test")
    environment.payload_converter = perdure_data_converter.payload_converter
    environment.on_heartbeat = lambda *details: beats.append(details)
    told = [*counted, {"row": 7}, PROGRESS.model_dump(mode="json")]
    environment.info = replace(environment.info, heartbeat_details=told)

    async def work() -> tuple[Any, ...]:
        before = last_heartbeat()
        async with heartbeats(readers=readers) as heart:
            tool_heartbeat = ToolHeartbeat(heart, starts)
            tool_heartbeat.report(PROGRESS)
            await asyncio.sleep(0.15)
            tool_heartbeat.heartbeat({"row": 8})
            await asyncio.sleep(0.15)
        return before

    assert await environment.run(work) == ({"row": 7},)
    assert beats == [(*counted, {"row": 7}, PROGRESS), (*counted, {"row": 8}, PROGRESS)]


async def test_what_is_told_after_the_end_is_not_heard() -> None:
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with heartbeats() as heart:
            pass
        heart.tell("late")
        await asyncio.sleep(0.05)

    await environment.run(work)
    assert beats == []
