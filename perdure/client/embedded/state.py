"""The state of a running embedded server, and the locks between the processes that share it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from ...errors import ConfigurationError
from ...private_files import data_folder

Mode = Literal["shared", "exclusive"]


class FileLock:
    """A lock on a file, either shared by several holders or exclusive to one.

    It is held from `acquire` to `release`, or until the process ends, even by SIGKILL.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self, mode: Mode) -> bool:
        """Take the lock if it is free for the mode; return whether it is held now.

        Raises `ConfigurationError` on Windows, which has no such locks.
        """
        if self._descriptor is not None:
            return True
        if sys.platform == "win32":
            raise ConfigurationError(
                "The embedded Temporal server needs Linux or macOS. On Windows start one with "
                "`temporal server start-dev` and set TEMPORAL_ADDRESS=localhost:7233."
            )
        import fcntl

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(
                descriptor, (fcntl.LOCK_SH if mode == "shared" else fcntl.LOCK_EX) | fcntl.LOCK_NB
            )
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    async def acquire(self, mode: Mode, *, timeout: float) -> None:
        """Wait for the lock. Raises `ConfigurationError` after `timeout` seconds, and on
        Windows.
        """
        deadline = time.monotonic() + timeout
        while not self.try_acquire(mode):
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"Another process has held {str(self.path)!r} for {timeout:g} s, expected it "
                    "to be free: end the perdure process that hangs (`fuser` lists the processes "
                    "with the file), or use another data folder (--data-dir, PERDURE_HOME)."
                )
            await asyncio.sleep(0.02)

    def release(self) -> None:
        """Release the lock; does nothing when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock, shared or exclusive."""
    probe = FileLock(path)
    if not probe.try_acquire("exclusive"):
        return True
    probe.release()
    return False


_used: dict[Path, FileLock] = {}
"""The servers that `use_running` has found: this process is a user of them until it ends."""


class ServerState(BaseModel):
    """The addresses of a running embedded server: `server.json` in its data folder."""

    address: str
    """`host:port` of the frontend."""
    ui_url: str
    pid: int
    codec_endpoint: str = ""
    """The address of the UI's codec server; "" without one."""


def database_of(folder: Path) -> Path:
    """Return the server's database."""
    return folder / "temporal.db"


def read_state(folder: Path) -> ServerState | None:
    """Return the state in `server.json`; None if it can't be read. The file outlives its server."""
    try:
        return ServerState.model_validate_json((folder / "server.json").read_bytes())
    except (OSError, ValidationError):
        return None


def use_running() -> str | None:
    """Return the address of the data folder's running server; None without one.

    From then on this process is one of the server's users until it ends.
    """
    folder = data_folder()
    if not is_running(folder):
        return None
    lock = _used.setdefault(folder, FileLock(folder / "users.lock"))
    state = read_state(folder) if lock.try_acquire("shared") else None
    return state.address if state else None


def has_users(folder: Path) -> bool:
    """Return whether the server has users; its guard, which holds the exclusive lock while it ends
    the server, does not count.
    """
    probe = FileLock(folder / "users.lock")
    is_shared = probe.try_acquire("shared")
    probe.release()
    return is_shared and is_locked(folder / "users.lock")


def is_running(folder: Path) -> bool:
    """Return whether the folder's server runs."""
    return (folder / "server.lock").exists() and is_locked(folder / "server.lock")


def forget_deleted(folder: Path) -> None:
    """Have SQLite write the journal of the folder's database anew: deleted texts are in it. The
    server may run. Does nothing in a folder without a database.
    """
    import sqlite3

    if database_of(folder).exists():
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(database_of(folder), timeout=1.0)) as opened,
        ):
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
