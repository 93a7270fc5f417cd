"""The process between perdure and an embedded server: it ends the server when the last user has gone.

Every user holds a shared lock on `users.lock`, which the kernel releases when the user ends, whatever ends it. The
guard waits for the exclusive lock, so it needs neither heartbeats nor goodbyes. The server process holds
`server.lock`: it runs if and only if that file is locked. This file is run as a script and needs the standard library
only: `python guard.py FOLDER STATE COMMAND…`, where STATE is the content of `server.json`, without the pid.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 5.0
"""How long a server has after SIGTERM to close its database; then it gets SIGKILL."""


def main(folder: Path, state: dict[str, str], command: list[str]) -> None:
    """Take `server.lock` and leave a process behind that runs the server until it ends or nobody uses it."""
    lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.fork() == 0:
        _guard(folder, state, _start_server(folder, command, lock))


def _start_server(folder: Path, command: list[str], lock: int) -> subprocess.Popen[bytes]:
    """Start the server with the lock's descriptor: from here on the lock is held exactly as long as the server runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, pass_fds=[lock]
        )
    os.close(lock)
    return server


def _guard(folder: Path, state: dict[str, str], server: subprocess.Popen[bytes]) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        server.terminate()

    signal.signal(signal.SIGTERM, end)
    state_file = folder / "server.json"
    state_file.write_text(json.dumps({**state, "pid": server.pid}))
    threading.Thread(target=_end_when_unused, args=(folder, server), daemon=True).start()
    server.wait()
    state_file.unlink(missing_ok=True)


def _end_when_unused(folder: Path, server: subprocess.Popen[bytes]) -> None:
    users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(users, fcntl.LOCK_EX)
    server.terminate()
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
