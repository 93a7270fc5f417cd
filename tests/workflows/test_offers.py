"""What a worker lacks for a run is in its log at once, with advice that fits."""

from __future__ import annotations

import logging

import pytest

from perdure.errors import RunCancelled
from perdure.json_types import JsonObject
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

OPTION = "perdure worker --tools MODULE:NAME"


@pytest.mark.parametrize(
    ("tool", "lacks", "advises"),
    [
        (
            {"name": "gaze_at", "kind": "function", "parameters": []},
            "tool gaze_at (kind: function)",
            OPTION,
        ),
        (
            {"name": "gaze_at", "kind": "crystal"},
            "tool gaze_at (kind: crystal)",
            "create_worker(tool_kinds={'crystal': …})",
        ),
        (
            {
                "name": "d",
                "kind": "mcp",
                "serverName": "d",
                "connection": {"endpoint": "http://127.0.0.1:9/mcp"},
            },
            "tool 'd' (kind: mcp)",
            "",
        ),
    ],
)
async def test_what_is_lacking_is_logged_at_once(
    stage: Stage,
    scripted: Scripted,
    tool: JsonObject,
    lacks: str,
    advises: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "perdure")
    async with stage.worker([]):
        run = await stage.start(scripted_agent(scripted([says("never")]), [tool]))

        async def said() -> list[str]:
            return [
                text
                for each in caplog.records
                if "is offered to other" in (text := each.getMessage())
            ]

        [line] = await wait_for(said)
        assert (await run.status()).status == "running"
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert line.startswith(
        f"Run {run.id} is offered to other workers of the task queue {stage.task_queue!r} for 60 "
        "s: "
    )
    assert f"this one lacks {lacks}" in line
    assert advises in line
    assert (OPTION in line) == (advises == OPTION)
