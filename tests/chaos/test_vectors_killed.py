"""Every upstream vector, with its worker killed after each completed activity: the same outcome,
nothing twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from ..support.agents import WIRES
from ..support.run_vectors import VectorCase, check, load_run_vectors
from ..support.vector_kills import KilledVector, vector_killed
from ..support.workers import Nursery

AT_ONCE = 6
RESUME_SECONDS = 10.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("wire", WIRES)
async def test_every_vector(client: Client, nursery: Nursery, tmp_path: Path, wire: str) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def play(case: VectorCase) -> KilledVector:
        async with turns:
            return await vector_killed(client, nursery, tmp_path, case, wire)

    cases = load_run_vectors()
    for case, killed in zip(cases, await asyncio.gather(*map(play, cases)), strict=True):
        check(case, killed.outcome, compact_arguments=wire == "anthropic")
        assert set(killed.answered.values()) <= {1}, case.name
        assert set(killed.ended.values()) <= {1}, case.name
        assert max(killed.resumed_after, default=0.0) < RESUME_SECONDS, case.name
