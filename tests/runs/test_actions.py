"""What a run costs on Temporal Cloud, by the server's own count of Actions (`benchmarks/bench_actions.py`)."""

from __future__ import annotations

import asyncio

from benchmarks.bench_actions import CLOUD, Way, agent_run, metered_server

ROUNDS, SCALE = 2, 0.12
FLOOR = 1 + ROUNDS + (ROUNDS + 1)
"""The start and one activity for each call."""
OVERHEAD = 2
"""For all of a run: what its first worker finds out, and its end."""
SETTINGS = tuple(CLOUD.items())


async def test_a_run_costs_hardly_more_than_its_calls_and_text_only_while_somebody_reads_it() -> None:
    ways = [
        Way("plain", settings=()),
        Way("streamed", stream=True, settings=()),
        Way("one", stream=True, watchers=1, settings=SETTINGS),
        Way("five", stream=True, watchers=5, settings=SETTINGS),
    ]
    async with metered_server() as server:
        bills = await asyncio.gather(*(agent_run(server, way, ROUNDS, SCALE) for way in ways))
    plain, streamed, one, five = bills
    assert plain.total <= streamed.total <= FLOOR + OVERHEAD, (plain, streamed)
    assert one.actions["grpc_QueryWorkflow"] <= 1 + 1, one
    assert five.actions["grpc_QueryWorkflow"] <= 5 + 2, five
    for watched in (one, five):
        assert watched.actions["grpc_RecordActivityTaskHeartbeat"] <= ROUNDS + 1, watched
