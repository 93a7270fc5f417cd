"""The embedded server after accidents: it is started anew, and nothing runs for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure.client.embedded.server import LocalServer
from perdure.client.embedded.state import is_locked
from perdure.errors import ConfigurationError
from tests.support.waiting import wait_for

HOLDER = """
import sys, time
from pathlib import Path
from perdure.client.embedded.state import FileLock
FileLock(Path(sys.argv[1])).try_acquire("exclusive")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with LocalServer(tmp_path) as server:
        yield server


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the start lock and does nothing."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "start.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def guard_of(server: LocalServer) -> int:
    """The guard's process: the parent of the server's."""
    status = Path(f"/proc/{server.state.pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


async def gone(folder: Path) -> bool:
    return not is_locked(folder / "server.lock")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a process with its parent")
async def test_a_server_ends_with_its_guard_and_the_next_user_starts_another(
    tmp_path: Path,
) -> None:
    async with LocalServer(tmp_path) as server:
        os.kill(guard_of(server), signal.SIGKILL)
        await wait_for(lambda: gone(tmp_path))
        async with LocalServer(tmp_path) as second:
            assert second.state.pid != server.state.pid


async def test_a_blocked_start_lock_is_in_nobodys_way_while_a_server_runs(
    server: LocalServer, tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    async with LocalServer(tmp_path, patience=0) as other:
        assert other.address == server.address


async def test_a_blocked_start_lock_is_named_where_no_server_runs(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(ConfigurationError, match="start.lock"):
        async with LocalServer(tmp_path, patience=0.2):
            raise AssertionError("it did not wait for its turn")
