"""`perdure worker`, `server` and `dev`: how they start, reload and end."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.activities.pollers import somebody_polls
from perdure.cli.supervise import CommandProcess, supervise
from perdure.cli.table import DEFAULT_QUEUE

from ..support.command_line import AGENT, Cli
from ..support.waiting import wait_for

PERSON = ("--input", "person=Ann")


def kill_child(pid: int, argument: str) -> None:
    """Kill the child of a process that has this argument."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if argument in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(int(child), signal.SIGKILL)


async def test_a_worker_does_the_work(cli: Cli) -> None:
    queue = f"queue-{uuid.uuid4()}"
    worker = await cli.start("worker", "--tools", "tools.py", "--task-queue", queue)
    assert "tools: look_up_age" in await worker.says("Worker on the server")
    started = await cli(
        "run", "ages.prompty", *PERSON, "--detach", "--task-queue", queue, "--on-failure", "fail"
    )
    finished = await cli("result", started.stdout.strip())
    assert "No API key for 'openai'" in finished.stderr, (
        "the worker took it up, and has no model to call"
    )
    assert (await worker.finish(signal.SIGTERM)).code == 0


async def test_a_worker_starts_no_command_of_a_strangers_file_and_perdure_run_does(
    cli: Cli, embedded: Cli, tmp_path: Path
) -> None:
    proof, file, queue = tmp_path / "proof", tmp_path / "a.prompty", f"queue-{uuid.uuid4()}"
    tool = f"{{name: t, kind: mcp, options: {{command: sh, args: [-c, 'touch {proof}']}}}}"
    file.write_text(f"---\nname: a\nmodel: gpt-x\ntools: [{tool}]\n---\nuser:\nHello\n")
    worker = await cli.start("worker", "--task-queue", queue, "--allow-commands", "npx,uvx")
    refused = await cli("run", str(file), "--task-queue", queue)
    assert "tools[0].options.command: this worker starts no command 'sh'\n" in refused.stderr
    assert "\nperdure worker --allow-commands npx,uvx,sh\n" in refused.stderr
    assert not proof.exists()
    assert (await worker.finish(signal.SIGTERM)).code == 0
    warned = (await cli("validate", str(file))).stderr
    assert (
        "a.prompty:4: warning: tools[0].options.command: `perdure run` and `dev` allow this; a "
        "worker starts" in warned
    )
    assert "this worker" not in warned
    assert "\nperdure worker --allow-commands sh\n" in warned
    finished = await embedded("run", str(file), "--missing-tool-grace", "0")
    assert finished.code == 1
    assert proof.exists(), "it is the user's own file"


async def test_ctrl_c_ends_a_worker(cli: Cli) -> None:
    worker = await cli.start("worker", "--task-queue", f"queue-{uuid.uuid4()}")
    await worker.says("Worker on")
    assert (await worker.finish(signal.SIGINT)).code == 130


async def test_server_prints_where_it_is(embedded: Cli) -> None:
    server = await embedded.start("server")
    line = await server.says("Temporal server: 127.0.0.1:")
    assert "TEMPORAL_ADDRESS=127.0.0.1:" in line
    assert "http://127.0.0.1:" in await server.says("Temporal UI:")
    assert (await server.finish(signal.SIGTERM)).code == 0


async def test_dev_serves_runs_of_other_terminals(embedded: Cli) -> None:
    dev = await embedded.start(
        "dev", "--tools", "tools.py", "--serve", "ages.prompty", "--serve-port", "0"
    )
    address = (
        (await dev.says("Temporal server: 127.0.0.1:")).partition("Temporal server: ")[2].split()[0]
    )
    await dev.says("tools: look_up_age")
    if not any("Gateway: " in line for line in dev.lines):  # Both start at the same time.
        await dev.says("Gateway: http://127.0.0.1:")
    connected = await Client.connect(address)
    await wait_for(lambda: somebody_polls(connected, DEFAULT_QUEUE))
    finished = await embedded("run", "ages.prompty", *PERSON, "--id", "elsewhere")
    assert "workers elsewhere" in finished.stderr
    assert "No API key for 'openai'" in finished.stderr
    assert (await dev.finish(signal.SIGTERM)).code == 0


@pytest.fixture
def says(capfd: pytest.CaptureFixture[str]) -> Callable[[str], Awaitable[object]]:
    """Waits until this process, or one that it has started, has said a text."""
    said: list[str] = []

    async def is_said(text: str) -> bool:
        said.append(capfd.readouterr().err)
        return text in "".join(said)

    return lambda text: wait_for(partial(is_said, text))


async def test_a_reloading_worker_survives_a_broken_file_and_being_killed(
    cli: Cli, tmp_path: Path, says: Callable[[str], Awaitable[object]]
) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text((AGENT / "tools.py").read_text())
    command = ["worker", "--tools", str(tools), "--task-queue", f"queue-{uuid.uuid4()}"]
    work = asyncio.create_task(supervise([command], [tmp_path], cli.environment))
    await says("tools: look_up_age")
    tools.write_text("this is not Python")
    await says("The worker ended (exit code 2). It starts again when a watched file changes.")
    tools.write_text("from perdure.tools import tool\n\n@tool\ndef another(): ...\n")
    await says("tools: another")
    kill_child(os.getpid(), str(tools))
    await says("The worker was killed by SIGKILL. It starts again in 1 s.")
    work.cancel()
    await asyncio.wait([work])


async def test_a_process_that_dies_again_and_again_starts_after_growing_pauses(
    says: Callable[[str], Awaitable[object]],
) -> None:
    process = CommandProcess(["worker", "--help"], {})
    await process.start()
    try:
        for pause in (1, 2):
            await says(f"The worker ended with exit code 0. It starts again in {pause} s.")
    finally:
        await process.end()
