"""The process between perdure and an embedded server: it ends the server when the last user has
gone.

Every user holds a shared lock on `users.lock`, which the kernel releases when the user ends,
whatever ends it. The guard waits for the exclusive lock, so it needs neither heartbeats nor
goodbyes. The server process holds `server.lock`: it runs if and only if that file is locked. On
Linux, the server ends with a guard that is killed. This file runs as a script and needs the
standard library only: `python guard.py FOLDER STATE COMMAND…`, where STATE is the content of
`server.json`, without the pid. That file stays; it counts while the server runs.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0
"""How long a server has after SIGTERM to close its database; then it gets SIGKILL."""


_PR_SET_PDEATHSIG = 1


def main(folder: Path, state: dict[str, Any], command: list[str]) -> None:
    """Leave a process behind that runs the server until it ends or nobody uses it."""
    os.umask(0o077)  # Conversations are in the database, and may be in the log.
    lock = _lock(folder / "server.lock")
    if os.fork() == 0:
        _guard(folder, state, _start_server(folder, command, lock))


def _lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _start_server(folder: Path, command: list[str], lock: int) -> subprocess.Popen[bytes]:
    """Start the server with the lock's descriptor: from here on the lock is held exactly as long as
    the server runs.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")
    }
    (folder / "server.json").unlink(missing_ok=True)
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=[lock],
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    os.close(lock)
    return server


def _end_with_parent() -> None:
    """Have Linux send SIGTERM to this process when the one that has started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _guard(folder: Path, state: dict[str, Any], server: subprocess.Popen[bytes]) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        server.terminate()

    signal.signal(signal.SIGTERM, end)
    _write_state(folder, {**state, "pid": server.pid})
    threading.Thread(target=_end_when_unused, args=(folder, server), daemon=True).start()
    server.wait()


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    """Write `server.json` in one step: a reader sees all of it or nothing."""
    written = folder / f"server.json.{os.getpid()}"
    written.write_text(json.dumps(state))
    written.replace(folder / "server.json")


def _end_when_unused(folder: Path, server: subprocess.Popen[bytes]) -> None:
    _lock(folder / "users.lock")
    server.terminate()
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
