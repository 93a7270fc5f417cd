"""Starts the embedded server's processes and waits until the server answers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from pydantic import BaseModel

from ...errors import ConfigurationError
from ..connection import connect_locally
from . import guard as server_guard
from .binary import obtain_binary
from .file_lock import FileLock, is_locked
from .settings import dev_server_arguments

_ATTEMPTS = 3
_LOG_TAIL_LINES = 15


class ServerState(BaseModel):
    """Where a running embedded server is: the content of `server.json` in its data folder."""

    address: str
    """`host:port` of the frontend."""
    ui_url: str
    pid: int

    @property
    def port(self) -> int:
        """The port of the frontend."""
        return int(self.address.rpartition(":")[2])

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state of the server that runs in `folder`. Raises `OSError` when there is none."""
        return cls.model_validate_json((folder / "server.json").read_bytes())


async def launch(folder: Path, *, port: int | None, ui_port: int | None, timeout: float) -> ServerState:
    """Start a server on the database in `folder`, and return when it answers.

    The caller holds `users.lock`, otherwise the server ends at once. When another process takes a port that was
    free a moment ago, and the caller did not ask for it, the start is tried again with other ports. Raises
    `ConfigurationError` when the server ends or does not answer within `timeout` seconds, or a port that the caller
    asked for is taken.
    """
    binary = await obtain_binary(folder / "bin")
    for attempt in range(_ATTEMPTS):
        async with _turn(timeout):
            ports = _choose(port, 7233, take_any=attempt > 0), _choose(ui_port, 8233, take_any=attempt > 0)
            _start_guard(folder, binary, *ports)
            if await _answers(folder, f"127.0.0.1:{ports[0]}", timeout):
                return ServerState.read(folder)
        if "address already in use" not in _log_tail(folder):
            break
    raise ConfigurationError(
        f"The embedded Temporal server did not start within {timeout:g} s. "
        f"The end of its log, {str(folder / 'server.log')!r}:\n{_log_tail(folder)}"
    )


@asynccontextmanager
async def _turn(timeout: float) -> AsyncIterator[None]:
    """Let servers start one at a time, even in different folders.

    Two servers that both found a port free would both try it, and the one that does not get it would seem to answer
    there until it ends. A server that has waited for `timeout` seconds starts all the same.
    """
    lock = FileLock(Path(tempfile.gettempdir()) / f"perdure-{os.getuid()}-start.lock")
    with suppress(ConfigurationError):
        await lock.acquire("exclusive", timeout=timeout)
    try:
        yield
    finally:
        lock.release()


def _start_guard(folder: Path, binary: Path, port: int, ui_port: int) -> None:
    """Start the guard and the server in a session of their own, so that Ctrl-C in our terminal does not reach them."""
    state = {"address": f"127.0.0.1:{port}", "ui_url": f"http://127.0.0.1:{ui_port}"}
    arguments = dev_server_arguments(folder / "temporal.db", port=port, ui_port=ui_port)
    subprocess.run(
        [sys.executable, "-I", server_guard.__file__, str(folder), json.dumps(state), str(binary), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


async def _answers(folder: Path, address: str, timeout: float) -> bool:
    """Whether the server accepts connections within `timeout` seconds, and before it ends."""
    deadline = time.monotonic() + timeout
    while is_locked(folder / "server.lock") and time.monotonic() < deadline:
        try:
            await connect_locally(address)
        except ConfigurationError:
            await asyncio.sleep(0.02)
        else:
            return True
    return False


def _choose(wanted: int | None, preferred: int, *, take_any: bool) -> int:
    """The wanted port, which must be free; without one, the preferred port if it is free; else any free one."""
    if wanted is not None:
        if not _is_free(wanted):
            raise ConfigurationError(
                f"Port {wanted} is taken by another process, expected a free one: give another number, or omit it."
            )
        return wanted
    return preferred if _is_free(preferred) and not take_any else _any_free_port()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _any_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _log_tail(folder: Path) -> str:
    log = folder / "server.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])
