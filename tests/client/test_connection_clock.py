"""The server's time, which this machine's clock does not change."""

from __future__ import annotations

import time

import pytest
from temporalio.client import Client

from perdure.activities.pollers import somebody_polls
from perdure.client.connection import server_time


@pytest.mark.parametrize("hours", [0, -7, 7])
async def test_a_clock_that_is_off_tells_the_server_s_time(client: Client, hours: int) -> None:
    before = time.time()
    told = await server_time(client, clock=lambda: time.time() + hours * 3600)
    assert before - 1 <= told <= time.time() + 1


async def test_a_worker_is_seen_by_the_time_that_is_given(client: Client) -> None:
    now = await server_time(client)
    polled = [await somebody_polls(client, "perdure-clock", now=at) for at in (now, now + 7 * 3600)]
    assert polled == [True, False]
