"""A hundred workers are killed in the middle of responses that the provider makes in the
background.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import Client

from ..support.background_kills import play
from ..support.workers import Nursery

KILLS = 100
AT_ONCE = 8
SECONDS = 30.0


@pytest.mark.timeout(1800)
async def test_100_kills(client: Client, nursery: Nursery, tmp_path: Path) -> None:
    kills = responses = lost = runs = paid = 0
    while kills < KILLS:
        batch = await play(
            *(client, nursery, tmp_path),
            runs=AT_ONCE,
            kills=KILLS - kills,
            workers=3,
            pauses=(1.0, 3.0),
            seconds=SECONDS,
        )
        runs, kills, responses = runs + AT_ONCE, kills + batch.kills, responses + batch.responses
        lost, paid = lost + batch.lost_attempts, paid + batch.paid
        assert not any(each.resets for each in batch.heard)
    print(
        f"{runs} runs, {kills} workers killed, {responses} responses, {paid} tokens paid, {lost} "
        "attempts lost"
    )
    assert (responses, lost, paid) == (runs, 0, runs * SECONDS / 0.1)
