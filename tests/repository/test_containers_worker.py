"""The worker of the compose file is told where to store and whom to ask, and says whether it is well."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from ..support.command_line import Cli
from ..support.waiting import wait_for

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
WORKER: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]["worker"]
FILE = "/tmp/perdure-worker"


def test_the_worker_gets_storage_and_provider_variables() -> None:
    passed = WORKER["environment"]
    for name in ("PERDURE_STORAGE", "OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        assert name in passed
        assert passed[name] is None, "an empty value would count as set"


async def test_the_health_check_tells_a_worker_that_hangs(cli: Cli, tmp_path: Path, task_queue: str) -> None:
    file = tmp_path / "worker"
    [kind, check] = WORKER["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    assert FILE in WORKER["command"]
    check = check.replace("$$", "$").replace(FILE, str(file))

    def is_healthy() -> bool:
        return subprocess.run(["sh", "-c", check], capture_output=True, check=False).returncode == 0

    assert not is_healthy(), "before the start"
    worker = await cli.start("worker", "--task-queue", task_queue, "--health-file", str(file))
    await worker.says("Worker on")
    assert is_healthy()
    worker.process.send_signal(signal.SIGSTOP)
    long_ago = time.time() - 61
    os.utime(file, (long_ago, long_ago))
    assert not is_healthy(), "the worker hangs"
    worker.process.send_signal(signal.SIGCONT)

    async def healthy() -> bool:
        return is_healthy()

    await wait_for(healthy)
    assert (await worker.finish(signal.SIGTERM)).code == 0
    assert not is_healthy(), "after the end"
