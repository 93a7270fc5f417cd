"""While a provider refuses the calls of all runs, they wait together in their worker, and none of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, repeat

from perdure.client import RunHandle
from perdure.protocol.outcome import HeldUp
from perdure.testing import ScriptedModel, ScriptedReply, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

RUNS, REFUSED = 6, 6
DOWN = ScriptedReply(status=503)


async def test_runs_wait_together_until_the_provider_answers(
    stage: Stage, scripted: Callable[[Script], ScriptedModel]
) -> None:
    answers = chain([DOWN] * REFUSED, repeat(says("done")))
    model = scripted(lambda request: next(answers))
    async with stage.worker():
        runs = [await stage.start(scripted_agent(model), max_llm_retries=3) for _ in range(RUNS)]

        async def held_up() -> list[HeldUp]:
            return [told for run in runs if (told := (await run.status()).held_up) and "calls wait" in told.why]

        assert (await wait_for(held_up))[0].kind in ("overloaded", "server")
        assert {result.output for result in await asyncio.gather(*map(_result, runs))} == {"done"}
    assert len(model.requests) == REFUSED + RUNS


async def _result(run: RunHandle) -> object:
    return await run.result()
