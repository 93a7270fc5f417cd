"""Runs that nobody waits for, and runs that others have called, are held: what commands say, and
how they go on.
"""

from __future__ import annotations

import json
from pathlib import Path

from perdure.client import get_run
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, ScriptedRequest, asks, says

from ..support.agents import Scripted
from ..support.command_line import Cli
from ..support.families import calls, write_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


class Provider:
    """A model whose key is refused until it is renewed."""

    def __init__(self) -> None:
        self.is_renewed = False

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        if request.body["model"] == "chief":
            return asks("clerk") if request.step == 0 else says("all done")
        return says("done") if self.is_renewed else ScriptedReply(status=401)


async def listed(cli: Cli, run_id: str) -> list[JsonObject]:
    shown = await cli("ls", "--status", "held", "--where", f"WorkflowId = '{run_id}'", "--json")
    return json.loads(shown.stdout or "[]")


async def test_detached_scheduled_and_called_runs_go_on_by_one_command_each(
    cli: Cli, stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    provider, queue = Provider(), ("--task-queue", stage.task_queue)
    model = scripted(provider)
    clerk = write_agent(tmp_path, "clerk.prompty", model)
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    detached, caller, name = (
        f"{word}-{stage.task_queue}" for word in ("detached", "caller", "weekly")
    )
    for run_id, file in ((detached, clerk), (caller, chief)):
        started = await cli("run", str(file), "--detach", "--id", run_id, *queue)
        assert started.code == 0, started.stderr
    made = await cli(
        "schedule", "create", name, str(clerk), "--cron", "0 7 * * 1", "--paused", *queue
    )
    assert made.code == 0, made.stderr
    assert (await cli("schedule", "run", name)).code == 0
    async with stage.worker():

        async def scheduled_run() -> str | None:
            async for found in stage.client.list_workflows(f"WorkflowId STARTS_WITH '{name}-'"):
                return found.id
            return None

        scheduled = await wait_for(scheduled_run)
        held = {detached: detached, caller: f"{caller}/1-0", scheduled: scheduled}
        for run_id, place in held.items():
            assert (await wait_for(lambda place=place: listed(cli, place)))[0]["held"] is True
            status = (await cli("status", run_id)).stdout
            whose = "" if place == run_id else f"run {place} is "
            assert f"{whose}held (credentials) since" in status
            assert f"continue it: perdure go-on {run_id}" in status
        provider.is_renewed = True
        for run_id in held:
            assert (await cli("go-on", run_id)).code == 0
            result = await get_run(stage.client, run_id).result()
            assert result.output == ("all done" if run_id == caller else "done")
    assert (await cli("schedule", "delete", name)).code == 0
    assert [request.step for request in model.requests if request.body["model"] == "chief"] == [
        0,
        1,
    ]
