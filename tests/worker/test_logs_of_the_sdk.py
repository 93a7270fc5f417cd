"""What Temporal's SDK logs of attempts that fail is a line where perdure has words for it."""

from __future__ import annotations

import logging

import pytest

from perdure.errors import RunError
from perdure.testing import ScriptedReply, asks, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


def with_traceback(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info or record.exc_text]


async def test_a_refused_model_call(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with stage.worker([]):
        run = await stage.start(scripted_agent(scripted([ScriptedReply(status=401)])))
        with pytest.raises(RunError):
            await run.result()
    assert with_traceback(caplog) == []
    [line] = [record for record in caplog.records if record.name == "temporalio.activity"]
    assert line.getMessage().startswith(f"Run {run.id}: perdure.call_model failed (attempt 1): ")


async def test_a_tool_is_traced_when_it_is_not_executed_again(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> str:
        raise ConnectionError("nobody there")

    caplog.set_level(logging.INFO)
    declared = {
        "name": "work",
        "kind": "function",
        "parameters": [],
        "perdure": {"retries": 2, "idempotent": True},
    }
    async with stage.worker({"work": work}):
        run = await stage.start(scripted_agent(scripted([asks("work"), says("done")]), [declared]))
        await run.result()
    said = [record for record in caplog.records if record.name == "perdure.tools"]
    assert [record.levelname for record in said] == ["WARNING", "WARNING", "ERROR"]
    assert [bool(record.exc_text) for record in said] == [False, False, True]
    assert [record.getMessage().endswith("it is executed again") for record in said] == [
        True,
        True,
        False,
    ]
