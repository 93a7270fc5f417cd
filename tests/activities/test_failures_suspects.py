"""Calls that were lost with a worker: one at a time in each worker, and waiting does not count."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from perdure.activities.failures import PoisonCalls, Starts, known_starts, last_heartbeat
from perdure.protocol.activities import Offer


def environment(attempt: int = 3, *details: Any) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=attempt, heartbeat_details=list(details))
    return environment


async def test_only_one_suspect_is_executed_and_others_beside_it(client: Client) -> None:
    suspect = Starts(1, lost=1, since=time.time())

    async def work() -> None:
        suspects = PoisonCalls()
        late = replace(suspect, since=1.0)
        async with (
            suspects.alone(Starts()),
            suspects.alone(Starts(3)),
            suspects.alone(suspect),
            suspects.alone(late),
        ):
            # That it was lost is recorded before it waits; no server knows this activity.
            with pytest.raises(RPCError):
                async with suspects.alone(suspect):
                    raise AssertionError("two at once")
        with suppress(KeyError):
            async with suspects.alone(suspect):
                raise KeyError
        async with suspects.alone(suspect):
            pass

    known = ActivityEnvironment(client=client)
    known.info = environment().info
    await known.run(work)


@pytest.mark.parametrize(
    ("details", "offer", "starts", "told"),
    [
        # Of nine attempts, one has started it: the others have waited.
        ((), None, Starts(1, attempt=1), ()),
        (({"row": 7},), None, Starts(1, attempt=1), ({"row": 7},)),
        ((Starts(4, 1, 9.0).detail, {"row": 7}), None, Starts(4, 1, 9.0), ({"row": 7},)),
        ((Starts(3).detail, {"row": 7}), Offer(seconds=1, starts=5), Starts(3), ({"row": 7},)),
        ((), Offer(seconds=1, starts=5), Starts(0), ()),
    ],
)
def test_starts_are_counted_apart_from_attempts(
    details: tuple[Any, ...], offer: Offer | None, starts: Starts, told: tuple[Any, ...]
) -> None:
    def work() -> None:
        assert known_starts(offer) == starts
        assert last_heartbeat() == told

    environment(9, *details).run(work)


@pytest.mark.parametrize(
    ("starts", "most", "are_used_up"),
    [
        (Starts(1), 1, True),
        (Starts(0), 1, False),
        (Starts(9, 1), 2, False),
        (Starts(2, 2), 2, True),
    ],
)
def test_a_call_that_two_workers_were_lost_with_is_not_started_again(
    starts: Starts, most: int, are_used_up: bool
) -> None:
    """Workers that were stopped do not count, unless it may be started only once."""
    assert starts.are_used_up(most) == are_used_up


def test_a_worker_is_lost_with_the_calls_that_it_had_started() -> None:
    known = Starts(2, 1, since=1.0, attempt=4)
    assert known.with_loss(5) == known, "attempt 5 only waited, or was refused"
    lost = known.with_loss(4)
    assert (lost.starts, lost.lost, lost.attempt) == (2, 2, 4)
    assert time.time() - lost.since < 60
