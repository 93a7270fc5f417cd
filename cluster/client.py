"""Commands to a cluster that is up: for tests, for programs that make faults, for people."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import database, dynamic
from .authority import Authority
from .home import CONTROL, HERE, HOME, LOGS, ROOT, STATE, ClusterError, build, user_of_postgresql
from .profiles import profile
from .roles import BALANCER, BALANCER_CONTROL, BUCKET, STORE


def up(profile_name: str) -> dict[str, Any]:
    """Start a cluster, or find the one of this profile; its state. Raises `ClusterError`."""
    chosen = profile(profile_name)
    if is_up():
        if (found := state())["profile"] == profile_name:
            return found
        raise ClusterError(
            f"a cluster of the profile {found['profile']!r} is up: end it by "
            "`python -m cluster down`"
        )
    build()
    database.make()
    dynamic.write(for_tests=not chosen.whole)
    LOGS.mkdir(parents=True, exist_ok=True)
    STATE.unlink(missing_ok=True)
    with (LOGS / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cluster", "supervise", profile_name],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while not STATE.exists():
        if process.poll() is not None:
            text = (LOGS / "supervisor.log").read_text()[-2000:]
            raise ClusterError(f"the cluster did not come up:\n{text}")
        time.sleep(0.1)
    return state()


def down() -> None:
    """End the cluster, if one is up, and return when nothing of it is left."""
    if not is_up():
        return
    supervisor = ask(do="status") and state().get("supervisor")
    ask(do="down")
    while supervisor and Path(f"/proc/{supervisor}").exists() and CONTROL.exists():
        time.sleep(0.1)


def reset() -> dict[str, Any]:
    """Empty databases, then the same cluster again. Raises `ClusterError`."""
    name = state()["profile"] if is_up() else "plain"
    down()
    process = subprocess.Popen(
        database.server_command(),
        user=user_of_postgresql(),
        group=user_of_postgresql(),
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not database.answers():
            time.sleep(0.1)
        database.empty()
    finally:
        process.send_signal(2)
        process.wait()
    return up(name)


def is_up() -> bool:
    return CONTROL.exists() and STATE.exists()


def state() -> dict[str, Any]:
    """The profile, the supervisor's process, and how many seconds the start took."""
    if not STATE.exists():
        raise ClusterError("no cluster is up: start one by `python -m cluster up`")
    read: dict[str, Any] = json.loads(STATE.read_text())
    return read


def ask(**command: Any) -> dict[str, Any]:
    """Let the supervisor do something. Raises `ClusterError`."""
    answer: dict[str, Any] = json.loads(_said(CONTROL, json.dumps(command)))
    if error := answer.get("error"):
        raise ClusterError(error)
    return answer


def network(command: str) -> str:
    """Let the balancer do something: pass, delay MS, hang, refuse, drop, count."""
    answer = _said(BALANCER_CONTROL, command)
    if answer.startswith("error"):
        raise ClusterError(answer)
    return answer


def _said(path: Path, line: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise ClusterError(f"nothing listens at {path}: is the cluster up?") from error
        connection.sendall(line.encode() + b"\n")
        with connection.makefile() as file:
            return file.readline().strip()


def environment(profile_name: str, token: str = "write") -> dict[str, str]:
    """What a client of the cluster has in its environment."""
    chosen = profile(profile_name)
    given = {"TEMPORAL_ADDRESS": BALANCER, "TEMPORAL_NAMESPACE": "default"}
    given |= {"AWS_ENDPOINT_URL": f"http://{STORE}", "AWS_REGION": "eu-central-1"}
    given |= {"AWS_ACCESS_KEY_ID": "cluster", "AWS_SECRET_ACCESS_KEY": "cluster"}
    given["CLUSTER_STORAGE"] = f"s3://{BUCKET}"
    if chosen.tls:
        given |= Authority().client_environment()
    if chosen.jwt:
        given["TEMPORAL_API_KEY"] = Authority().token(token)
    return given


def test(arguments: list[str]) -> int:
    """Play these tests, or those of `tests.txt`, on the cluster; pytest's exit code."""
    given = environment(state()["profile"])
    # Commands that tests start with an embedded server must not see the cluster's address.
    given["PERDURE_TESTS_SERVER"] = given.pop("TEMPORAL_ADDRESS")
    chosen = arguments or (HERE / "tests.txt").read_text().split()
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "300", *chosen]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **given}).returncode


def report() -> dict[str, Any]:
    """What there is, for a report: processes, memory, the size of the databases."""
    processes = ask(do="status")
    for each in processes.values():
        each["mebibytes"] = _resident(each["pid"])
    return {**state(), "home": str(HOME), "processes": processes, "databases": database.size()}


def _resident(pid: int | None) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
