"""`perdure worker --metrics-address`."""

from __future__ import annotations

import signal
import socket
import urllib.request

import pytest

from ..support.command_line import Cli


async def test_a_worker_serves_metrics(cli: Cli) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    worker = await cli.start("worker", "--metrics-address", port, "--task-queue", f"metrics-{port}")
    await worker.says("Worker on")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert "temporal_request_total{" in answer.read().decode()
    assert (await worker.finish(signal.SIGTERM)).code == 0


@pytest.mark.trial  # the error itself has a test in tests/worker
async def test_a_port_that_is_taken_ends_the_command(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finished = await cli("worker", "--metrics-address", f"localhost:{taken.getsockname()[1]}")
    assert (finished.code, "Address already in use" in finished.stderr) == (1, True)
