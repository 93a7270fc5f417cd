"""What a run costs on Temporal Cloud, by the server's own count of Actions
(`benchmarks/bench_actions.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from benchmarks.bench_actions import Server, Way, agent_run, metered_server

ROUNDS, SCALE = 2, 0.12
FLOOR = 1 + ROUNDS + (ROUNDS + 1)
"""The start and one activity for each call."""
OVERHEAD = 2
"""For all of a run: what its first worker finds out, and its end."""


@pytest.fixture(scope="module")
async def counting() -> AsyncIterator[Server]:
    """A server that counts, and suggests continue-as-new after five iterations or so."""
    async with metered_server("limit.historyCount.suggestContinueAsNew=50") as server:
        yield server


async def test_a_run_costs_hardly_more_than_its_calls_and_text_only_while_somebody_reads_it(
    counting: Server,
) -> None:
    ways = [
        Way("plain"),
        Way("streamed", stream=True),
        Way("one", stream=True, watchers=1),
        Way("five", stream=True, watchers=5),
    ]
    runs = [agent_run(counting, way, ROUNDS, SCALE) for way in ways]
    several_links = agent_run(counting, Way("one", stream=True, watchers=1), 6 * ROUNDS, SCALE / 6)
    plain, streamed, one, five, long = await asyncio.gather(*runs, several_links)
    assert plain.total <= streamed.total <= FLOOR + OVERHEAD, (plain, streamed)
    assert long.actions["command_ContinueAsNewWorkflowExecution"] >= 1, long
    for readers, watched in ((1, one), (5, five), (1, long)):
        assert watched.actions["grpc_QueryWorkflow"] <= readers, watched
    for watched in (one, five):
        assert (
            watched.actions["grpc_RecordActivityTaskHeartbeat"] <= ROUNDS + 1 + watched.seconds
        ), watched
