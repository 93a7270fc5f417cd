"""`perdure check`: which open runs could not go on with other tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from perdure.client import RunHandle
from perdure.testing import ScriptedModel, asks, call
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
PAY = {"name": "pay", "kind": "function", "perdure": {"approval": "always"}}
NEW = """
from perdure import tool
@tool
def pay(cents: int) -> str:
    "Pays."
    return "paid"
@tool
def look(text: str = "") -> str:
    "Looks."
    return "seen"
"""


def pay(euros: float) -> str:
    return "paid"


def look(text: str = "") -> str:
    return "seen"


async def waits(run: RunHandle) -> bool:
    return bool((await run.status()).pending_approvals)


async def test_runs_that_would_break_are_named(
    stage: Stage, scripted: Scripted, cli: Cli, address: str, tmp_path: Path
) -> None:
    model = scripted([asks(call("pay", euros=1.0))] * 2)
    async with stage.worker({"pay": pay, "look": look, "find": look}):
        one = await stage.start(scripted_agent(model, [PAY, "look"]), id="pays")
        two = await stage.start(scripted_agent(model, [PAY, "find"]), id="finds")
        for run in (one, two):
            await wait_for(partial(waits, run))
        (tmp_path / "new.py").write_text(NEW)
        where = ("--address", address, "check", "--json", "--task-queue", stage.task_queue, "--tools")
        told = await cli(*where, str(tmp_path / "new.py"))
        assert told.code == 1
        answer = json.loads(told.stdout)
        broken = [(each["run"], each["why"], each["tool"]) for each in answer["breaks"]]
        assert answer["openRuns"] == 2
        assert sorted(broken) == [
            ("finds", "missing", "find"),
            ("finds", "signature", "pay"),
            ("pays", "signature", "pay"),
        ]
        for run in (one, two):
            await run.cancel()
