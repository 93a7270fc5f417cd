"""The process between perdure and an embedded server: it ends the server when the last user has gone.

Every user holds a shared lock on `users.lock`, which the kernel releases when the user ends, whatever ends it. The
guard waits for the exclusive lock, so it needs neither heartbeats nor goodbyes. The server process holds
`server.lock`: it runs if and only if that file is locked. The guard holds `guard.lock`; where that is free and a server
runs, its guard was killed, and the next user starts another one, which adopts the server. This file is run as a script
and needs the standard library only: `python guard.py FOLDER STATE COMMAND…`, where STATE is the content of
`server.json`, without the pid unless there is a server to adopt.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0
"""How long a server has after SIGTERM to close its database; then it gets SIGKILL."""


EXIT_FILE = "server.exit"
"""Has the exit code with which the last server ended; negative for a signal."""

OLD_LOGS = 3
"""So many logs of earlier servers are kept, as far as they have written any."""

ADOPTION_SECONDS = 2.0
"""For so long another guard may hold `guard.lock` before it counts as alive."""


class Adopted:
    """A server that is no child of this process: it runs for as long as `server.lock` is held."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.pid = pid
        self._lock = folder / "server.lock"

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has ended. Raises `TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.runs():
            if deadline and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.05)

    def runs(self) -> bool:
        """Return whether it does."""
        lock = os.open(self._lock, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def terminate(self) -> None:
        """End it."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.runs():
            os.kill(self.pid, number)


Server = subprocess.Popen[bytes] | Adopted


def main(folder: Path, state: dict[str, Any], command: list[str]) -> None:
    """Leave a process behind that runs the server, or adopts it, until it ends or nobody uses it."""
    os.umask(0o077)  # Conversations are in the database, and may be in the log.
    if "pid" in state:
        guard = _try_lock(folder / "guard.lock", ADOPTION_SECONDS)
        if guard is not None and os.fork() == 0:
            _guard(folder, state, Adopted(folder, state["pid"]))
        return
    lock = _lock(folder / "server.lock")
    _lock(folder / "guard.lock")
    if os.fork() == 0:
        _guard(folder, state, _start_server(folder, command, lock))


def _lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _try_lock(path: Path, seconds: float) -> int | None:
    """Return the lock, or None when another process holds it all the while."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)


def _start_server(folder: Path, command: list[str], lock: int) -> subprocess.Popen[bytes]:
    """Start the server with the lock's descriptor: from here on the lock is held exactly as long as the server runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    (folder / EXIT_FILE).unlink(missing_ok=True)
    _keep_logs(folder / "server.log")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, pass_fds=[lock]
        )
    os.close(lock)
    return server


def _keep_logs(log: Path) -> None:
    """Rename the log of the last server to `….1`, and so on; most servers write nothing, and leave nothing to keep."""
    if not log.exists() or not log.stat().st_size:
        return
    kept = [log, *(log.with_name(f"{log.name}.{number}") for number in range(1, OLD_LOGS + 1))]
    for older, newer in zip(reversed(kept[1:]), reversed(kept[:-1]), strict=True):
        if newer.exists():
            newer.replace(older)


def _guard(folder: Path, state: dict[str, Any], server: Server) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        server.terminate()

    signal.signal(signal.SIGTERM, end)
    _write_state(folder, {**state, "pid": server.pid})
    threading.Thread(target=_end_when_unused, args=(folder, server), daemon=True).start()
    code = server.wait()
    if code is not None:
        (folder / EXIT_FILE).write_text(str(code))
    _forget_state(folder, server.pid)


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    """Write `server.json` in one step: a reader sees all of it or nothing."""
    written = folder / f"server.json.{os.getpid()}"
    written.write_text(json.dumps(state))
    written.replace(folder / "server.json")


def _forget_state(folder: Path, pid: int) -> None:
    """Remove `server.json`, unless it is about another server already."""
    state_file = folder / "server.json"
    try:
        current = json.loads(state_file.read_text()).get("pid")
    except (OSError, ValueError, AttributeError):
        current = pid
    if current == pid:
        state_file.unlink(missing_ok=True)


def _end_when_unused(folder: Path, server: Server) -> None:
    _lock(folder / "users.lock")
    server.terminate()
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
