"""200 runs whose workers are killed at random moments: what must not happen twice does not."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.testing import ScriptedModel

from ..support.effects_once import Crowd, check, conversation, ledger, results
from ..support.workers import Nursery

RUNS, AT_ONCE = 200, 25


@pytest.mark.timeout(900)
async def test_200_runs(client: Client, nursery: Nursery, tmp_path: Path) -> None:
    crowd = Crowd(
        client, nursery, tmp_path, client.service_client.config.target_host, f"once-{uuid.uuid4()}"
    )
    ids = [f"{crowd.queue}-{number}" for number in range(RUNS)]
    with ExitStack() as models, ledger() as kept:
        async with crowd.killing(3, (0.5, 2.0)) as kills:
            for first in range(0, RUNS, AT_ONCE):
                batch = ids[first : first + AT_ONCE]
                scripts = [models.enter_context(ScriptedModel(conversation(id))) for id in batch]
                runs = [
                    await crowd.start(model, kept, id)
                    for model, id in zip(scripts, batch, strict=True)
                ]
                for ended in await asyncio.gather(*(run.result() for run in runs)):
                    assert ended.output == "All done."
                    assert results(ended.messages) == 16
                models.close()
        check(crowd, kept, ids)
        print(
            f"{RUNS} runs, {len(kills)} workers killed, {sum(kept.added.values())} entries, none "
            "twice"
        )
        assert len(kills) > 20
