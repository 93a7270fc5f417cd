"""Where a cluster keeps its files, and the program that its processes are made of."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
HOME = Path(os.environ.get("CLUSTER_HOME", ROOT / ".cluster")).resolve()
NODE = HOME / "node"
LOGS, STATE, CONTROL = HOME / "logs", HOME / "state.json", HOME / "control"
DATA = HOME / "postgresql"
SOURCES = HERE / "server"


class ClusterError(Exception):
    """The cluster can't do what was asked; the text says why and what to do."""


def build() -> None:
    """Compile the program of the processes if its sources have changed. Raises `ClusterError`.

    The first time takes about nine minutes of CPU and 2 GB of Go's build cache.
    """
    stamp, known = HOME / "node.sources", _digest()
    if NODE.exists() and stamp.exists() and stamp.read_text() == known:
        return
    if not (go := shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")):
        raise ClusterError(
            "the cluster is a Go program, and `go` is not in the PATH: install Go 1.26 or newer"
        )
    HOME.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(NODE), "."]
    if subprocess.run(["nice", "-n", "15", *command], cwd=SOURCES).returncode:
        raise ClusterError(f"{SOURCES} does not compile: the output above has the reason")
    stamp.write_text(known)


def _digest() -> str:
    files = sorted(each for each in SOURCES.iterdir() if each.suffix in (".go", ".mod", ".sum"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def programs_of_postgresql() -> Path:
    """The folder with `initdb` and `postgres`. Raises `ClusterError`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts)
    if found:
        return found[-1].parent
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    raise ClusterError("the cluster needs PostgreSQL 12 or newer: install its server")


def user_of_postgresql() -> str | None:
    """The user whom PostgreSQL runs as: it refuses to be root. None for the own one."""
    if os.geteuid():
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise ClusterError(
            "PostgreSQL refuses to run as root, and there is no user `postgres`: make one"
        ) from None
