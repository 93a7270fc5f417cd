"""Runs that call others: exported with them, played again without them, and forked like any
other.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.worker import Worker

from perdure.client import get_run
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.prompty.load import load
from perdure.testing import RecordedRun, asks, call, says
from perdure.testing.recording import recording_of

from ..support import foreign_tools
from ..support.agents import Scripted
from ..support.comparison import portable
from ..support.families import calls, family_script, takes, write_agent
from ..support.stage import Stage
from .test_export import conversation, lines_of


@activity.defn(name="weigh")
async def weigh(arguments: JsonObject) -> JsonObject:
    return {"kilos": len(arguments["name"])}


async def test_exported_played_and_forked(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    queue = f"{stage.task_queue}-others"
    first = asks(call("clerk", topic="ships"), call("weigh", name="ship"))
    script: JsonObject = {
        "chief": [first, says("Ships float.")],
        "clerk": [asks(call("reader", page=3)), says("They float.")],
        "reader": [says("Wood floats.")],
        "another": lambda _: says("Wood."),
    }
    model = scripted(family_script(script))
    tools = [calls("clerk.prompty"), foreign_tools.activity("weigh", queue, "name:string!")]
    chief = write_agent(tmp_path, "chief.prompty", model, tools=tools)
    reads = {**calls("reader.prompty"), "mode": "single"}
    write_agent(
        tmp_path,
        "clerk.prompty",
        model,
        tools=[reads],
        inputs=takes("topic"),
        prompt="user:\n{{topic}}.",
    )
    inputs = [{"name": "page", "kind": "integer", "required": True}]
    write_agent(
        tmp_path, "reader.prompty", model, inputs=inputs, prompt="user:\nRead page {{page}}."
    )
    async with stage.worker(), Worker(stage.client, task_queue=queue, activities=[weigh]):
        run = await stage.start(load(chief))
        result = await run.result()
        lines = await lines_of(run)

        clerk, reader = f"{run.id}/1-0", f"{run.id}/1-0/1-0"
        runs = [line["run"] for line in lines if line["kind"] in ("run", "end")]
        assert runs == [run.id, clerk, reader, reader, clerk, run.id]
        own = [line for line in lines if line["run"] == run.id]
        assert conversation(own) == result.messages
        called = {line["name"]: line for line in lines if line["kind"] == "tool_call"}
        assert [
            (called[name]["by"], called[name]["status"]) for name in ("clerk", "weigh", "reader")
        ] == [
            ("agent", "success"),
            ("other", "success"),
            ("agent", "success"),
        ]
        assert called["clerk"]["childRun"]["id"] == clerk
        assert called["clerk"]["arguments"] == {"topic": "ships"}
        assert called["weigh"]["result"]["parts"][0]["value"] == '{"kilos":4}'
        [parent] = [
            line["parent"] for line in lines if line["kind"] == "run" and line["run"] == clerk
        ]
        assert parent["parent"] == run.id
        assert [line for line in await lines_of(run, children=False) if line["run"] != run.id] == []

        requests = len(model.requests)
        played = RecordedRun(recording_of(lines, "lines"))
        again = await asyncio.to_thread(played)
        assert portable(again.messages) == portable(result.messages)
        assert len(model.requests) == requests

        fork = await get_run(stage.client, clerk).fork(2, steer="Short.", model="another")
        stage.runs.append(fork)
        assert (await fork.result()).output == "Wood."
        assert [line["parent"] for line in await lines_of(fork) if line["kind"] == "run"] == [None]


NO_EXPORTS: list[list[Any]] = [
    [],
    [{}],
    [1],
    [{"kind": "run"}],
    [{"kind": "run", "run": "a", "agent": {"model": 3}}],
]


@pytest.mark.parametrize("lines", NO_EXPORTS)
def test_only_exports_are_read(lines: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match="'lines' is not an export of a run"):
        recording_of(lines, "lines")
