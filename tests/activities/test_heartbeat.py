"""Heartbeats: as soon as they are needed, with what is being said, and without losing a cancellation."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from temporalio import activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.heartbeat import HEART_FAILED, HEARTBEAT_SECONDS, MAX_SAID_CHARS, heartbeats
from perdure.protocol.activities import StreamedText


@pytest.fixture
def beats() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def environment(beats: list[tuple[Any, ...]]) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)
    return environment


async def test_what_is_done_at_once_never_beats(environment: ActivityEnvironment, beats: list[tuple[Any, ...]]) -> None:
    async def work() -> None:
        async with heartbeats():
            await asyncio.sleep(0.05)

    await environment.run(work)
    assert beats == []


async def test_beats_every_second(environment: ActivityEnvironment, beats: list[tuple[Any, ...]]) -> None:
    async def work() -> None:
        async with heartbeats():
            await asyncio.sleep(2.5 * HEARTBEAT_SECONDS)

    await environment.run(work)
    assert beats == [(), ()]


async def test_tells_what_is_being_said(environment: ActivityEnvironment, beats: list[tuple[Any, ...]]) -> None:
    async def speak() -> None:
        async with heartbeats() as heart:
            heart.speak(3, 2)
            heart.add("thinking", "hm")
            heart.add("text", "Hel")
            heart.add("text", "lo")
            await asyncio.sleep(0.05)

    await environment.run(speak)
    assert beats[-1] == (StreamedText(iteration=3, attempt=2, text="Hello", thinking="hm"),)


async def test_what_is_said_is_bounded_and_has_no_holes(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    async def speak() -> None:
        async with heartbeats() as heart:
            heart.speak(1, 1)
            for piece in ("a" * 1000, "b" * MAX_SAID_CHARS, "c"):
                heart.add("text", piece)
            await asyncio.sleep(0.05)

    await environment.run(speak)
    assert beats[-1] == (StreamedText(iteration=1, attempt=1, text="a" * 1000),)


async def test_tells_what_a_tool_says(environment: ActivityEnvironment, beats: list[tuple[Any, ...]]) -> None:
    async def work() -> None:
        async with heartbeats() as heart:
            await asyncio.sleep(0.01)
            heart.tell("half done", 0.5)
            await asyncio.sleep(0.15)

    await environment.run(work)
    assert beats == [("half done", 0.5)]


async def test_what_is_told_first_from_another_context_is_told_and_beats_go_on(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    async def work() -> None:
        async with heartbeats() as heart:
            contextvars.Context().run(heart.tell, "begun")
            await asyncio.sleep(1.5 * HEARTBEAT_SECONDS)

    await environment.run(work)
    assert beats == [("begun",), ("begun",)]


async def test_a_heartbeat_that_fails_ends_the_attempt(
    environment: ActivityEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*details: Any) -> None:
        raise ConnectionError("no way out")

    environment.on_heartbeat = refuse

    async def work() -> None:
        async with heartbeats() as heart:
            heart.tell("begun")
            await asyncio.sleep(60)

    with pytest.raises(ApplicationError, match="no way out") as failed:
        await asyncio.wait_for(environment.run(work), 10)
    assert (failed.value.type, failed.value.non_retryable) == (HEART_FAILED, False)
    assert "A heartbeat failed, which ends the attempt" in caplog.text


async def test_news_at_the_very_end_do_not_keep_it_alive(environment: ActivityEnvironment) -> None:
    async def speak() -> None:
        for _ in range(50):
            async with heartbeats() as heart:
                await asyncio.sleep(0)
                heart.tell("last word")

    await asyncio.wait_for(environment.run(speak), 5)


@pytest.mark.parametrize("run_is_over", [True, False])
async def test_a_cancellation_is_an_end_of_its_own_when_the_run_is_over(run_is_over: bool) -> None:
    environment = ActivityEnvironment()
    started = asyncio.Event()

    async def work() -> None:
        async with heartbeats():
            started.set()
            await asyncio.sleep(10)

    running = asyncio.create_task(environment.run(work))
    await started.wait()
    environment.cancel(ActivityCancellationDetails(not_found=run_is_over, cancel_requested=not run_is_over))
    with pytest.raises(ApplicationError if run_is_over else asyncio.CancelledError):
        await running
    assert not activity.in_activity()
