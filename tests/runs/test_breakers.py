"""While a provider or a tool server refuses the calls of all runs, they wait together in their
worker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import count

import pytest
from fastapi import FastAPI, Response

from perdure.breakers import REFUSALS
from perdure.client import RunHandle
from perdure.protocol.outcome import HeldUp
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.openapi_service import served
from ..support.stage import Stage
from ..support.waiting import wait_for

RUNS = 6


async def test_runs_wait_together_until_the_provider_answers(
    stage: Stage, scripted: Callable[[Script], ScriptedModel]
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


async def test_calls_of_a_tool_server_that_refuses_all_wait_for_it(
    stage: Stage, scripted: Callable[[Script], ScriptedModel], caplog: pytest.LogCaptureFixture
) -> None:
    asked, app = list[int](), FastAPI()

    @app.get("/find", operation_id="find")
    def find(response: Response) -> str:
        asked.append(1)
        response.status_code = 503 if len(asked) <= REFUSALS else 200
        return "found"

    model = scripted([asks("find"), says("done")])
    with served(app) as url:
        agent = scripted_agent(
            model, [{"name": "things", "kind": "openapi", "specification": f"{url}/openapi.json"}]
        )
        async with stage.worker():
            refused = [await stage.start(agent) for _ in range(REFUSALS)]
            assert ["503" in text for text in await _tool_texts(refused)] == [True] * REFUSALS
            waiting = [await stage.start(agent) for _ in range(RUNS)]
            assert ["found" in text for text in await _tool_texts(waiting)] == [True] * RUNS
    assert len(asked) == REFUSALS + RUNS, "nobody asked it while it refused but one"
    log = [record.getMessage() for record in caplog.records if record.name == "perdure.breakers"]
    assert len(log) == 2
    assert all(url.removeprefix("http://") in line for line in log)


async def _tool_texts(runs: list[RunHandle]) -> list[str]:
    results = await asyncio.gather(*(run.result() for run in runs))
    return [
        message.text for result in results for message in result.messages if message.role == "tool"
    ]
