"""`perdure doctor` on workers: frozen ones, changed functions, missing keys, connections that are
held back.
"""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path

import pytest

from perdure.breakers import FIRST_SECONDS, REFUSALS, ServerRefusal, breakers
from perdure.cli.doctor.doctor import examined
from perdure.cli.doctor.findings import Finding
from perdure.cli.doctor.workers import ANSWER_SECONDS
from perdure.cli.server_connection import ServerConnection
from perdure.client import RunHandle
from perdure.testing import asks, call

from ...support.agents import Scripted, scripted_agent
from ...support.command_line import Cli
from ...support.stage import Stage
from ...support.waiting import asked, wait_for

PAY = {"name": "pay", "kind": "function", "perdure": {"approval": "always"}}
NEW = """
from perdure import tool
@tool(idempotent=False)
def pay(cents: int) -> str:
    "Pays."
    return "paid"
"""
KEY = "A_KEY_OF_NOBODY"


def pay(euros: float) -> str:
    return "paid"


async def is_held(run: RunHandle) -> bool:
    return (await run.status()).status == "held"


async def found_in(stage: Stage) -> dict[str, Finding]:
    """Findings about the stage's queue and runs, by id."""
    server, own = (
        ServerConnection(stage.client, None),
        {stage.task_queue, *(run.id for run in stage.runs)},
    )
    _, findings = await examined(server, [stage.task_queue], probe=False)
    concerned = [
        each for each in findings if own & {each.about.get("queue"), *each.about.get("runs", [])}
    ]
    return {finding.id: finding for finding in concerned}


async def test_workers_that_have_changed_lack_a_key_or_freeze(
    stage: Stage,
    scripted: Scripted,
    cli: Cli,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, "sk-there")
    agent = scripted_agent(
        scripted([asks(call("pay", euros=1.0))] * 2), [PAY], api_key=f"${{env:{KEY}}}"
    )
    async with stage.worker({"pay": pay}):
        run = await stage.start(agent)
        await asked(run)
        assert not await found_in(stage)
    (tmp_path / "new.py").write_text(NEW)
    where = ("--address", address, "worker", "--task-queue", stage.task_queue, "--allow-env", "*")
    worker = await cli.start(*where, "--tools", str(tmp_path / "new.py"))
    await worker.says("Worker on")
    findings = await wait_for(partial(found_in, stage), every=0.5)
    assert {"changed-signature", "no-provider-key"} == set(findings)
    assert (
        "has the tool 'pay' as it was, which 1 open run may call"
        in findings["changed-signature"].text
    )
    assert (
        "Then it was pay(euros: float), here it is pay(cents: integer)"
        in findings["changed-signature"].text
    )
    assert findings["no-provider-key"].level == "error"
    assert (
        f"has {KEY}, the key of the model scripted, for 1 open run: {run.id}"
        in findings["no-provider-key"].text
    )
    worker.process.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    frozen = await found_in(stage)
    assert time.monotonic() - begun < ANSWER_SECONDS + 4
    assert list(frozen) == ["silent-workers"]
    assert frozen["silent-workers"].level == "error"
    assert frozen["silent-workers"].about["runs"] == [run.id]
    await worker.finish(signal.SIGKILL)
    await run.cancel()


async def test_status_of_a_held_run_names_the_key_that_no_worker_has(
    stage: Stage, scripted: Scripted, cli: Cli, address: str
) -> None:
    agent = scripted_agent(scripted([]), api_key=f"${{env:{KEY}}}")
    async with stage.worker():
        run = await stage.start(agent, on_failure="hold")
        await wait_for(partial(is_held, run))
        told = await cli("--address", address, "status", run.id)
        await run.cancel()
    assert f"no worker of the run has {KEY}: set it where the workers are started" in told.stdout


async def test_a_connection_that_refuses_calls(stage: Stage) -> None:
    async with stage.worker():
        breaker = breakers.of(("of", stage.task_queue), stage.task_queue)
        refused = ServerRefusal("rate_limit", "too many")
        for number in range(REFUSALS):
            with pytest.raises(OSError, match="no"):
                async with breaker.call(f"run-{number}", 0.0, lambda error: refused):
                    raise OSError("no")
        try:
            finding = (await found_in(stage))["open-breaker"]
        finally:
            async with breaker.call("probe", 2 * FIRST_SECONDS, lambda error: None):
                pass
    assert (finding.level, finding.about["connection"]) == ("warning", stage.task_queue)
    assert f"holds calls of {stage.task_queue} back: they were refused (rate_limit)" in finding.text
