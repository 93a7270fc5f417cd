"""`perdure worker --metrics-port`."""

from __future__ import annotations

import signal
import socket
import urllib.request

from .conftest import Cli


async def test_a_worker_serves_metrics_and_names_a_port_that_is_taken(cli: Cli) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    worker = await cli.start("worker", "--metrics-port", port, "--task-queue", f"metrics-{port}")
    await worker.says("Worker on")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert "temporal_request_total{" in answer.read().decode()
    second = await cli("worker", "--metrics-address", f"localhost:{port}")
    assert (second.code, "Address already in use" in second.stderr) == (1, True)
    assert (await worker.finish(signal.SIGTERM)).code == 0
