"""The embedded server: shared by its users, gone with the last of them, its database kept."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import WorkflowExecutionStatus

from perdure.client.embedded.server import LocalServer
from perdure.client.embedded.state import is_locked
from perdure.errors import ConfigurationError
from tests.support.dev_server import free_port
from tests.support.waiting import wait_for

USER = """
import asyncio, sys
from perdure.client.embedded.server import LocalServer

async def use():
    async with LocalServer(sys.argv[1]) as server:
        print(server.address, flush=True)
        await asyncio.sleep(60)

asyncio.run(use())
"""


@pytest.fixture
async def other_user(tmp_path: Path) -> AsyncIterator[subprocess.Popen[str]]:
    """Another process that uses the embedded server of the test's folder; it prints the address."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


async def test_runs_survive_the_server(tmp_path: Path) -> None:
    async with LocalServer(tmp_path) as server:
        client = await server.connect()
        await client.start_workflow("anything", id="kept", task_queue="nobody-polls")
    assert not is_locked(tmp_path / "server.lock")
    async with LocalServer(tmp_path) as server:
        description = await (await server.connect()).get_workflow_handle("kept").describe()
    assert description.status is WorkflowExecutionStatus.RUNNING


async def test_the_search_attribute_is_registered(tmp_path: Path) -> None:
    async with LocalServer(tmp_path) as server:
        operator = (await server.connect()).operator_service
        known = await operator.list_search_attributes(
            ListSearchAttributesRequest(namespace="default")
        )
    assert "PerdureAgent" in known.custom_attributes


async def test_processes_share_one_server(
    tmp_path: Path, other_user: subprocess.Popen[str]
) -> None:
    assert other_user.stdout
    theirs = (await asyncio.to_thread(other_user.stdout.readline)).strip()
    async with LocalServer(tmp_path) as server:
        assert server.address == theirs
    assert is_locked(tmp_path / "server.lock"), "ended although the other process uses it"


async def test_the_server_ends_when_its_last_user_is_killed(
    tmp_path: Path, other_user: subprocess.Popen[str]
) -> None:
    assert other_user.stdout
    await asyncio.to_thread(other_user.stdout.readline)
    other_user.send_signal(signal.SIGKILL)
    await wait_for(lambda: _gone(tmp_path))


async def test_servers_that_start_at_the_same_time_get_ports_of_their_own(tmp_path: Path) -> None:
    servers = [LocalServer(tmp_path / name) for name in "abc"]
    try:
        await asyncio.gather(*[server.start() for server in servers])
        assert (
            len({server.address for server in servers})
            == len({server.ui_url for server in servers})
            == 3
        )
        assert all(is_locked(server.folder / "server.lock") for server in servers)
    finally:
        await asyncio.gather(*[server.stop() for server in servers])


async def test_a_server_that_was_killed_is_started_anew(tmp_path: Path) -> None:
    port = free_port()
    async with LocalServer(tmp_path, port=port) as first:
        os.kill(first.state.pid, signal.SIGKILL)
        await wait_for(lambda: _gone(tmp_path))
        async with LocalServer(tmp_path, port=port) as second:
            assert second.state.pid != first.state.pid
            assert second.address == first.address


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"Port {port} is taken"):
            await LocalServer(tmp_path, port=port).start()
    assert not is_locked(tmp_path / "users.lock")


async def test_what_keeps_a_command_from_a_running_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalServer(tmp_path) as server:
        with pytest.raises(ConfigurationError, match=f"runs at {server.address}, expected port 1:"):
            await LocalServer(tmp_path, port=1).start()
        with pytest.raises(ConfigurationError, match=f"at {server.ui_url}, expected port 1:"):
            await LocalServer(tmp_path, ui_port=1).start()
        monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", "no key")
        with pytest.raises(ConfigurationError, match="ENCRYPTION_KEY"):
            await LocalServer(tmp_path).start()


async def test_a_server_that_dies_says_why_at_once(tmp_path: Path) -> None:
    (tmp_path / "temporal.db").write_text("this is not a database")
    with pytest.raises(ConfigurationError) as caught:
        await LocalServer(tmp_path).start()
    text = str(caught.value)
    assert "ended while it started." in text
    assert "within" not in text
    assert "file is not a database" in text
    assert str(tmp_path / "server.log") in text


async def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="--data-dir or PERDURE_HOME"):
        await LocalServer(tmp_path / "file" / "below").start()


async def _gone(folder: Path) -> bool:
    return not is_locked(folder / "server.lock")
