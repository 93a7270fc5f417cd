"""A run that is held at a limit, as the command line shows it, and how it is let go on."""

from __future__ import annotations

import json
import uuid

from ..support.command_line import Cli


async def test_a_held_run_is_shown_and_let_go_on(cli: Cli) -> None:
    run_id = f"pay-{uuid.uuid4()}"
    held = ("--on-failure", "hold", "--max-iterations", "1")
    run = await cli.start(
        "run",
        "pay.prompty",
        "--tools",
        "paying.py",
        "--scripted",
        "paying.py:script",
        "--id",
        run_id,
        *held,
    )
    await run.says("waits for approval")
    assert (await cli("go-on", run_id)).stderr.startswith(f"perdure: run {run_id} is not held")
    assert (await cli("approve", run_id)).code == 0
    await run.says("held (budget): Agent loop exceeded 1 iterations")
    assert f"perdure go-on {run_id}" in await run.says("continue it from another terminal")
    status = (await cli("status", run_id)).stdout
    assert status.startswith("held, iteration 2")
    assert "held (budget) since" in status
    shown = (await cli("show", run_id)).stdout
    assert shown.startswith(status.partition("\n")[0])
    assert f"continue it: perdure go-on {run_id} --max-iterations …\n" in shown
    assert f"perdure go-on {run_id}" in status
    [row] = json.loads(
        (
            await cli("ls", "--status", "held", "--where", f"WorkflowId = '{run_id}'", "--json")
        ).stdout
    )
    assert (row["id"], row["held"], row["waiting"]) == (run_id, True, False)
    waiting = await cli.start("result", run_id)
    await waiting.says("is held (budget): Agent loop exceeded 1 iterations")
    refused = await cli("go-on", run_id)
    assert (refused.code, f"Type: perdure go-on {run_id} --max-iterations" in refused.stderr) == (
        1,
        True,
    )
    let = await cli("go-on", run_id, "--max-iterations", "3", "--json")
    assert json.loads(let.stdout)["runs"] == [run_id]
    assert (await waiting.finish()).stdout == "paid 7\n"
    finished = await run.finish()
    assert (finished.code, finished.stdout) == (0, "paid 7\n")


async def test_go_on_lists_released_pauses_and_those_still_in_force(cli: Cli) -> None:
    name = f"paused-{uuid.uuid4()}"
    assert (await cli("pause", "--agent", name, "--reason", "sends wrong mails")).code == 0
    mistyped = await cli("go-on", "--agent", f"{name}x")
    assert mistyped.code == 0
    assert "No such runs" in mistyped.stderr
    assert "Still in force: " in mistyped.stderr
    released = await cli("go-on", "--agent", name)
    assert f"Pause ended: agent '{name}' paused by" in released.stderr
    assert "Still in force" not in released.stderr
