"""While a provider refuses the calls of all runs, they wait together in their worker."""

from __future__ import annotations

import asyncio
import threading
from itertools import count

from perdure.client import RunHandle
from perdure.protocol.outcome import HeldUp
from perdure.testing import ScriptedReply, ScriptedRequest, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

RUNS = 6


async def test_runs_wait_together_until_the_provider_answers(
    stage: Stage, scripted: Scripted
) -> None:
    asked, all_have_asked, is_seen = count(1), threading.Barrier(RUNS), threading.Event()

    def provider(request: ScriptedRequest) -> ScriptedReply:
        """Refuses the first call of each run, and answers no other before somebody has seen that
        runs wait.
        """
        if next(asked) <= RUNS:
            all_have_asked.wait(60)
            return ScriptedReply(status=503)
        is_seen.wait(60)
        return says("done")

    model = scripted(provider)
    async with stage.worker():
        runs = [await stage.start(scripted_agent(model), max_llm_retries=3) for _ in range(RUNS)]

        async def held_up() -> list[HeldUp]:
            return [
                told
                for run in runs
                if (told := (await run.status()).held_up) and "calls wait" in told.why
            ]

        assert (await wait_for(held_up))[0].kind in ("overloaded", "server")
        is_seen.set()
        assert {result.output for result in await asyncio.gather(*map(_result, runs))} == {"done"}
    assert len(model.requests) == 2 * RUNS


async def _result(run: RunHandle) -> object:
    return await run.result()
