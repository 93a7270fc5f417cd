"""The worker of the compose file is told where to store and whom to ask, and says whether it is
well.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import yaml

from perdure.json_types import JsonObject

from ..support.command_line import Cli
from ..support.dev_server import free_port
from ..support.waiting import wait_for

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
WORKER: JsonObject = yaml.safe_load(COMPOSE.read_text())["services"]["worker"]


def test_the_worker_gets_storage_and_provider_variables() -> None:
    passed = WORKER["environment"]
    for name in (
        "PERDURE_STORAGE",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "AZURE_OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
    ):
        assert name in passed
        assert passed[name] is None, "an empty value would count as set"


async def test_the_health_check_tells_a_worker_that_hangs(cli: Cli, task_queue: str) -> None:
    [kind, _, *arguments] = WORKER["healthcheck"]["test"]
    assert kind == "CMD"
    assert WORKER["command"][WORKER["command"].index("--health-address") + 1] == "8080"
    address = f"127.0.0.1:{free_port()}"
    check = [sys.executable, *(each.replace("127.0.0.1:8080", address) for each in arguments)]

    async def is_healthy() -> bool:
        process = await asyncio.create_subprocess_exec(*check, stderr=asyncio.subprocess.DEVNULL)
        return await process.wait() == 0

    assert not await is_healthy(), "before the start"
    worker = await cli.start("worker", "--task-queue", task_queue, "--health-address", address)
    await worker.says("Worker on")
    assert await is_healthy()
    worker.process.send_signal(signal.SIGSTOP)
    assert not await is_healthy(), "the worker hangs"
    worker.process.send_signal(signal.SIGCONT)
    await wait_for(is_healthy)
    assert (await worker.finish(signal.SIGTERM)).code == 0
    assert not await is_healthy(), "after the end"
