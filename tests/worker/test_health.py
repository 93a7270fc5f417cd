"""`/health/live` and `/health/ready` of a worker."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from perdure.errors import ConfigurationError
from perdure.worker import create_worker
from perdure.worker.health import require_tasks, serving_health, why_no_tasks, why_unwell

from ..support.dev_server import SHORT_CONNECTIONS, DevServer, free_port, server_in_memory
from ..support.refusing_server import refusing_server
from ..support.waiting import wait_for


async def asked(port: int, path: str) -> tuple[int, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


async def is_away(port: int) -> bool:
    code, told = await asked(port, "/health/ready")
    return (code, told["why"]) == (503, "the Temporal server does not answer")


async def test_a_worker_is_ready_while_it_works_and_its_server_answers(tmp_path: Path) -> None:
    port = free_port()
    async with DevServer(tmp_path / "db") as server:
        worker = create_worker(server.client, task_queue="q")
        async with serving_health(f"localhost:{port}", worker) as working, worker:
            assert await asked(port, "/health/live") == (200, {"status": "ok", "why": ""})
            assert (await asked(port, "/health/ready"))[0] == 503
            with working:
                assert (await asked(port, "/health/ready"))[0] == 200
                assert (await asked(port, "/metrics"))[0] == 404
                server.freeze()
                await wait_for(lambda: is_away(port))
                assert (await asked(port, "/health/live"))[0] == 200
                server.thaw()
            assert (await asked(port, "/health/ready"))[1]["why"] == "the worker starts or ends"
        with pytest.raises(OSError, match="onnect"):
            await asked(port, "/health/live")


async def test_a_server_that_closes_old_connections_is_well() -> None:
    async with server_in_memory(*SHORT_CONNECTIONS) as server:
        end = time.monotonic() + 6

        async def ask() -> set[str]:
            said = set()
            while time.monotonic() < end:
                said.add(await why_unwell(server.client.service_client))
            return said

        assert set().union(*await asyncio.gather(*(ask() for _ in range(10)))) == {""}


async def test_a_port_that_is_taken_is_an_error(client: Client) -> None:
    taken = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
    async with taken:
        with pytest.raises(ConfigurationError, match="no health can be served"):
            async with serving_health(address, create_worker(client, task_queue="q")):
                pass


async def test_a_worker_that_may_not_poll_does_not_begin(client: Client, task_queue: str) -> None:
    """The SDK would ask for a minute, and seem to work."""
    assert await why_no_tasks(client, task_queue) == ""
    async with refusing_server() as address:
        refused = await Client.connect(address)
        with pytest.raises(
            ConfigurationError,
            match=r"refuses this worker's polls \(Request unauthorized\.\): a worker",
        ):
            await require_tasks(refused, task_queue)
