"""Starts the embedded server's processes and waits until the server answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError
from ...payloads.encryption import is_configured
from ...payloads.encryption.problems import FILE_VARIABLE, VARIABLE
from . import guard as server_guard
from .binary import obtain_binary
from .file_lock import FileLock, is_locked
from .guard import EXIT_FILE, GRACE_SECONDS
from .identity import serves
from .log import end_of_log, log_of
from .settings import dev_server_arguments
from .state import ServerState, database_of, find_process, is_running, read_state

_ATTEMPTS = 3


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
                return _state_of(folder)
        if is_running(folder) or "address already in use" not in end_of_log(folder):
            break
    raise ConfigurationError(await _why_not(folder, timeout))


async def _why_not(folder: Path, timeout: float) -> str:
    """What to say of a server that does not answer."""
    if is_running(folder):
        what = f"does not answer within {timeout:g} s of its start"
    else:
        what = f"ended while it started, with {await _exit(folder)}"
    log, end = str(log_of(folder)), end_of_log(folder)
    said = f"The end of its log, {log!r}:\n{end}" if end else f"Its log, {log!r}, is empty."
    return (
        f"The embedded Temporal server of {str(folder)!r} {what}. Expected it to serve the database "
        f"{str(database_of(folder))!r}: mend what the log names, or use another --data-dir. {said}"
    )


async def _exit(folder: Path) -> str:
    """How the server's process has ended, in words; the guard writes it down before it ends itself."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            while is_locked(folder / "guard.lock"):
                await asyncio.sleep(0.02)
    code = int((folder / EXIT_FILE).read_text()) if (folder / EXIT_FILE).exists() else None
    if code is None:
        return "an exit code that is not known"
    return f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"


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


def _state_of(folder: Path) -> ServerState:
    if state := read_state(folder):
        return state
    raise ConfigurationError(
        f"The embedded Temporal server of {str(folder)!r} runs, but neither 'server.json' there nor its process says "
        "where. Expected either: end the process that holds 'server.lock', or use another --data-dir."
    )


async def running_server(folder: Path) -> ServerState | None:
    """The server that runs for the folder, under guard; None when there is none.

    Raises `ConfigurationError` when it can't be found, or does not answer.
    """
    if not is_running(folder):
        return None
    state = _state_of(folder)
    if not await serves(folder, state.address):
        raise ConfigurationError(
            f"The embedded Temporal server of {str(folder)!r} (process {state.pid}) does not answer at "
            f"{state.address}. Expected an answer: end that process, then try again; its runs are kept."
        )
    ensure_guard(folder)
    return state


def ensure_guard(folder: Path) -> None:
    """Give a server whose guard was killed another one: without it the server would run for ever."""
    if is_locked(folder / "guard.lock") or not is_running(folder):
        return
    if state := find_process(folder):
        _run_guard(folder, state.model_dump())


def _start_guard(folder: Path, binary: Path, port: int, ui_port: int) -> None:
    codec = f"http://127.0.0.1:{_choose(None, 8234, take_any=False)}" if is_configured() else ""
    state = {"address": f"127.0.0.1:{port}", "ui_url": f"http://127.0.0.1:{ui_port}", "codec_endpoint": codec}
    arguments = dev_server_arguments(database_of(folder), port=port, ui_port=ui_port, codec_endpoint=codec)
    _run_guard(folder, state, str(binary), *arguments)


def _run_guard(folder: Path, state: dict[str, Any], *command: str) -> None:
    """Start guard and server in a session of their own, so that Ctrl-C in our terminal does not reach them.

    Without the keys that the server must not see.
    """
    subprocess.run(
        [sys.executable, "-I", server_guard.__file__, str(folder), json.dumps(state), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name not in (VARIABLE, FILE_VARIABLE)},
        start_new_session=True,
        check=True,
    )


async def _answers(folder: Path, address: str, timeout: float) -> bool:
    """Whether the server answers within `timeout` seconds, and before it ends.

    Another server that answers there does not count: it has the port, and the folder's one is about to end.
    """
    deadline = time.monotonic() + timeout
    while is_running(folder) and time.monotonic() < deadline:
        if await serves(folder, address):
            return True
        await asyncio.sleep(0.02)
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
