"""A Python program finds the embedded server that runs, as the command line does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure.client.embedded.server import LocalServer
from perdure.client.embedded.state import is_locked
from tests.support.command_line import Cli
from tests.support.waiting import wait_for

CONNECTING = """
import asyncio, os, sys
from perdure.client import connect

async def main():
    client = await connect()
    print(client.service_client.config.target_host, flush=True)
    if not sys.stdin.readline():
        return
    await client.start_workflow("anything", id="mine", task_queue="nobody-polls")
    print("started", flush=True)

asyncio.run(main())
os._exit(0)  # the interpreter's own shutdown may crash in the Temporal SDK
"""


def connecting(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CONNECTING]
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_the_server_of_the_data_folder_is_found_and_used(
    embedded: Cli, tmp_path: Path
) -> None:
    server = LocalServer(tmp_path)
    await server.start()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", CONNECTING]
    process = subprocess.Popen(command, env=embedded.environment, **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline().strip() == server.address
    server.leave()
    assert process.communicate("go on\n")[0] == "started\n", (
        "the server ended though a program used it"
    )

    async def gone() -> bool:
        return not is_locked(tmp_path / "server.lock")

    await wait_for(gone)


async def test_without_one_it_is_the_usual_address(embedded: Cli) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CONNECTING],
        env=embedded.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "localhost:7233" in process.stderr + process.stdout


async def test_a_named_server_comes_first(embedded: Cli, tmp_path: Path) -> None:
    async with LocalServer(tmp_path):
        named = {**embedded.environment, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
        process = connecting(named)
    assert "No Temporal server reachable at '127.0.0.1:1'" in process.stderr
