"""Heartbeats: only when they are needed, with what is said where somebody reads it, and no
cancellation is lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.heartbeat import HEART_FAILED, MAX_SAID_CHARS, Readers, heartbeats
from perdure.client.reading.watch import poll_as_reader
from perdure.protocol.activities import StreamedText


@pytest.fixture
def beats() -> list[tuple[Any, ...]]:
    return []


TIMEOUT = 1.0
RUN = "test"
"""The workflow's id in the SDK's environment for tests."""


@pytest.fixture
def environment(client: Client, beats: list[tuple[Any, ...]]) -> ActivityEnvironment:
    environment = ActivityEnvironment(client=client)
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=TIMEOUT))
    environment.on_heartbeat = lambda *details: beats.append(details)
    return environment


@pytest.fixture
def readers() -> Readers:
    """Somebody reads the run."""
    readers = Readers()
    readers.note(RUN)
    return readers


async def test_what_is_done_at_once_never_beats(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    async def work() -> None:
        async with heartbeats():
            await asyncio.sleep(0.05)

    await environment.run(work)
    assert beats == []


async def test_beats_before_its_time_out_is_over(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    async def work() -> None:
        async with heartbeats():
            await asyncio.sleep(0.3 * TIMEOUT)
            assert beats == []
            await asyncio.sleep(0.95 * TIMEOUT)

    await environment.run(work)
    assert beats == [(), ()]


async def test_pauses_for_readers_that_are_longer_than_the_time_out_delay_no_beat(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]], readers: Readers
) -> None:
    async def speak() -> None:
        async with heartbeats(readers=readers) as heart:
            heart.stream_seconds = 60.0
            heart.speak(1, 1)
            heart.add("text", "Hel")
            await asyncio.sleep(0.95 * TIMEOUT)

    await environment.run(speak)
    assert len(beats) == 2


async def test_what_was_taken_up_late_beats_the_sooner(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    async def work() -> None:
        async with heartbeats():
            await asyncio.sleep(0.3 * TIMEOUT)

    late = timedelta(seconds=0.6 * TIMEOUT)
    environment.info = replace(environment.info, started_time=datetime.now(UTC) - late)
    await environment.run(work)
    assert beats == [()]


async def test_tells_readers_what_is_being_said(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]], readers: Readers
) -> None:
    async def speak() -> None:
        async with heartbeats(readers=readers) as heart:
            heart.speak(3, 2)
            heart.add("thinking", "hm")
            heart.add("text", "Hel")
            heart.add("text", "lo")
            await asyncio.sleep(0.05)

    await environment.run(speak)
    assert beats[-1] == (StreamedText(iteration=3, attempt=2, text="Hello", thinking="hm"),)


async def test_what_nobody_reads_is_not_told_until_a_reader_comes(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    readers = Readers()

    async def speak() -> None:
        async with heartbeats(readers=readers) as heart:
            heart.speak(1, 1)
            heart.add("text", "Hel")
            heart.add("text", "lo")
            await asyncio.sleep(0.05)
            assert beats == []
            readers.note("another run")
            readers.note(RUN)
            await asyncio.sleep(0.05)

    await environment.run(speak)
    assert beats == [(StreamedText(iteration=1, attempt=1, text="Hello"),)]


async def test_a_worker_finds_those_who_poll_the_queue_for_readers(
    client: Client, environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    queue = f"test-{uuid.uuid4()}"
    environment.info = replace(
        environment.info, task_queue=queue, heartbeat_timeout=timedelta(seconds=60)
    )

    async def speak() -> None:
        async with heartbeats() as heart:
            heart.speak(1, 1)
            heart.add("text", "Hello")
            reading = asyncio.create_task(poll_as_reader(client, queue, RUN))
            async with asyncio.timeout(5):
                while not beats:
                    await asyncio.sleep(0.05)
            reading.cancel()

    await environment.run(speak)
    assert beats == [(StreamedText(iteration=1, attempt=1, text="Hello"),)]


async def test_what_is_said_is_bounded_and_has_no_holes(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]], readers: Readers
) -> None:
    async def speak() -> None:
        async with heartbeats(readers=readers) as heart:
            heart.speak(1, 1)
            for piece in ("a" * 1000, "b" * MAX_SAID_CHARS, "c"):
                heart.add("text", piece)
            await asyncio.sleep(0.05)

    await environment.run(speak)
    assert beats[-1] == (StreamedText(iteration=1, attempt=1, text="a" * 1000),)


async def test_keeps_what_a_tool_says_at_once_and_then_after_longer_pauses(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]]
) -> None:
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=60))

    async def work() -> None:
        async with heartbeats() as heart:
            heart.stream_seconds = 0.02
            for number in range(50):
                heart.keep(number)
                await asyncio.sleep(0.01)

    await environment.run(work)
    assert beats[0] == (0,)
    assert 2 < len(beats) < 8


async def test_what_is_told_first_from_another_context_is_told_and_beats_go_on(
    environment: ActivityEnvironment, beats: list[tuple[Any, ...]], readers: Readers
) -> None:
    async def work() -> None:
        async with heartbeats(readers=readers) as heart:
            contextvars.Context().run(heart.tell, "begun")
            await asyncio.sleep(0.75 * TIMEOUT)

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
            heart.keep("begun")
            await asyncio.sleep(60)

    with pytest.raises(ApplicationError, match="no way out") as failed:
        await asyncio.wait_for(environment.run(work), 10)
    assert (failed.value.type, failed.value.non_retryable) == (HEART_FAILED, False)
    assert "A heartbeat failed, which ends the attempt" in caplog.text


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
    environment.cancel(
        ActivityCancellationDetails(not_found=run_is_over, cancel_requested=not run_is_over)
    )
    with pytest.raises(ApplicationError if run_is_over else asyncio.CancelledError):
        await running
    assert not activity.in_activity()
