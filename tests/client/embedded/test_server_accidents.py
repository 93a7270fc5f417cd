"""The embedded server after accidents: what was lost is found again, and nothing runs for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure.client.embedded.server import LocalServer
from perdure.client.embedded.state import FileLock, is_locked
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


async def kill_guard(server: LocalServer) -> None:
    os.kill(guard_of(server), signal.SIGKILL)

    async def is_dead() -> bool:
        return not is_locked(server.folder / "guard.lock")

    await wait_for(is_dead)


async def gone(folder: Path) -> bool:
    return not is_locked(folder / "server.lock")


async def test_a_garbled_state_is_found_out_anew(server: LocalServer, tmp_path: Path) -> None:
    state = tmp_path / "server.json"
    for content in ("", '{"address": "127.0.', "[]", '{"pid": 1}', None):
        state.unlink() if content is None else state.write_text(content)
        async with LocalServer(tmp_path) as other:
            assert other.state == server.state


async def test_another_servers_guard_does_not_remove_the_state(server: LocalServer, tmp_path: Path) -> None:
    os.kill(server.state.pid, signal.SIGKILL)
    await wait_for(lambda: gone(tmp_path))
    async with LocalServer(tmp_path) as second:
        assert second.state.pid != server.state.pid
        assert (tmp_path / "server.json").exists()
        await second.connect()


async def test_a_server_whose_guard_was_killed_ends_with_its_last_user(tmp_path: Path) -> None:
    async with LocalServer(tmp_path) as server:
        await kill_guard(server)
    await wait_for(lambda: gone(tmp_path))


async def test_a_server_that_lost_guard_and_users_is_adopted(tmp_path: Path) -> None:
    server = LocalServer(tmp_path)
    await server.start()
    first = server.state
    await kill_guard(server)
    assert server._use
    server._use.release()  # as the kernel does when a user is killed
    assert not await gone(tmp_path), "nobody is there to end it"
    async with LocalServer(tmp_path) as next_user:
        assert next_user.state == first

    async def is_forgotten() -> bool:
        return await gone(tmp_path) and not (tmp_path / "server.json").exists()

    await wait_for(is_forgotten)


async def test_no_stranger_is_killed(server: LocalServer, tmp_path: Path) -> None:
    """The state names the process of somebody else, as after a reboot."""
    stranger = await asyncio.create_subprocess_exec("sleep", "600")
    state = server.state
    await kill_guard(server)
    (tmp_path / "server.json").write_text(state.model_copy(update={"pid": stranger.pid}).model_dump_json())
    await server.stop()
    await wait_for(lambda: gone(tmp_path))
    assert stranger.returncode is None
    stranger.kill()
    await stranger.wait()


async def test_a_blocked_start_lock_is_in_nobodys_way_while_a_server_runs(
    server: LocalServer, tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    async with LocalServer(tmp_path, patience=0) as other:
        assert other.address == server.address


async def test_a_blocked_start_lock_is_explained(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(ConfigurationError, match=rf"Another process \({holder.pid}\) has held '.*start.lock'"):
        await LocalServer(tmp_path, patience=0.1).start()
    assert FileLock(tmp_path / "users.lock").try_acquire("exclusive"), "left behind"


@pytest.mark.trial
async def test_a_server_that_hangs_is_named(server: LocalServer, tmp_path: Path) -> None:
    os.kill(server.state.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ConfigurationError, match=rf"\(process {server.state.pid}\) does not answer at"):
            await LocalServer(tmp_path).start()
    finally:
        os.kill(server.state.pid, signal.SIGCONT)
