"""Keeps the processes of a cluster alive, unless one is held down, and does as its socket says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import database
from .home import CONTROL, DATA, LOGS, STATE, ClusterError, user_of_postgresql
from .profiles import profile
from .readiness import prepare_namespaces, until_healthy
from .roles import STORE, Member, balancer, members

RESTART_SECONDS = 0.5
"""After the end of a process until it starts again, as a container would."""


@dataclass
class Keeper:
    """One process, started again and again."""

    member: Member
    process: asyncio.subprocess.Process | None = None
    is_held: bool = False
    """Not started again."""
    starts: list[float] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self.is_held = False
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while not self.is_held:
            with self.member.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *self.member.command,
                    env=self.member.environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    user=self.member.user,
                    group=self.member.user,
                    cwd="/",
                )
                self.starts.append(time.time())
                code = await self.process.wait()
                log.write(f"-- ended with {code} at {time.time():.3f}\n".encode())
            await asyncio.sleep(RESTART_SECONDS)

    @property
    def pid(self) -> int | None:
        running = self.process and self.process.returncode is None
        return self.process.pid if self.process and running else None

    def send(self, number: signal.Signals) -> None:
        """To the process, and where it is to stop or go on, to its children: PostgreSQL has
        one for each connection.
        """
        if self.pid is None:
            return
        whole = number in (signal.SIGSTOP, signal.SIGCONT)
        for pid in [self.pid, *(children(self.pid) if whole else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def end(self) -> None:
        self.is_held = True
        self.send(signal.SIGCONT)
        # PostgreSQL's fast shutdown; Temporal's roles leave their ring by SIGTERM.
        self.send(signal.SIGINT if self.member.name == "postgresql" else signal.SIGTERM)
        if self.task:
            done, _ = await asyncio.wait({self.task}, timeout=15)
            if not done:
                self.send(signal.SIGKILL)
                await self.task


def children(pid: int) -> list[int]:
    """The processes that this one has started and that are there."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(each.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(each.parent.name))
    return found


class Supervisor:
    """All processes of one cluster."""

    def __init__(self, profile_name: str) -> None:
        self._profile_name, self._profile = profile_name, profile(profile_name)
        self._done = asyncio.Event()
        self.keepers: dict[str, Keeper] = {}

    async def run(self) -> None:
        """Start the cluster, serve its socket, and end it. Raises `ClusterError` if it does not
        come up.
        """
        LOGS.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._done.set)
        CONTROL.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, CONTROL)
        try:
            await self._up()
            await self._done.wait()
        finally:
            server.close()
            STATE.unlink(missing_ok=True)
            await self._down()
            CONTROL.unlink(missing_ok=True)

    async def _up(self) -> None:
        began = time.monotonic()
        user = user_of_postgresql()
        environment = {"PATH": os.environ["PATH"], "HOME": str(DATA)}
        self._keep(Member("postgresql", tuple(database.server_command()), environment, user=user))
        await _until(database.answers, 60, "PostgreSQL does not answer")
        await asyncio.to_thread(database.fill)
        all_of_them = members(self._profile)
        if not database.was_served():
            # Of two first servers, one ends: both write the cluster's only row.
            self._keep(all_of_them[0])
            await _until(database.was_served, 60, "the first process writes nothing")
        for member in all_of_them:
            self._keep(member)
        self._keep(balancer(all_of_them))
        self._keep(_store())
        await until_healthy(self._profile, all_of_them, 120)
        await prepare_namespaces(self._profile, all_of_them)
        STATE.write_text(
            json.dumps(
                {
                    "profile": self._profile_name,
                    "supervisor": os.getpid(),
                    "seconds": round(time.monotonic() - began, 1),
                }
            )
        )

    def _keep(self, member: Member) -> None:
        self.keepers.setdefault(member.name, Keeper(member)).begin()

    async def _down(self) -> None:
        rest = dict(self.keepers)
        stored = rest.pop("postgresql", None)
        await asyncio.gather(*(keeper.end() for keeper in rest.values()))
        if stored:
            await stored.end()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                answer = await self._obey(json.loads(line))
            except (ClusterError, KeyError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "status":
                return {name: _status(keeper) for name, keeper in self.keepers.items()}
            case "down":
                self._done.set()
                return {}
            case "signal":
                keeper = self._keeper(command["name"])
                keeper.is_held = command.get("hold", False)
                keeper.send(signal.Signals[f"SIG{command['signal']}"])
                return _status(keeper)
            case "start":
                keeper = self._keeper(command["name"])
                keeper.send(signal.SIGCONT)
                keeper.begin()
                return _status(keeper)
            case other:
                raise ClusterError(f"{other!r} is not a command of the supervisor")

    def _keeper(self, name: str) -> Keeper:
        if name not in self.keepers:
            raise ClusterError(
                f"{name!r} is not a process of this cluster: expected one of "
                f"{', '.join(self.keepers)}"
            )
        return self.keepers[name]


def _status(keeper: Keeper) -> dict[str, Any]:
    return {"pid": keeper.pid, "starts": len(keeper.starts), "held": keeper.is_held}


def _store() -> Member:
    """An S3-compatible store, in memory, for the values that are too large for a history."""
    host, _, port = STORE.partition(":")
    command = (sys.executable, "-m", "moto.server", "-H", host, "-p", port)
    return Member("store-1", command, {"PATH": os.environ["PATH"]})


async def _until(holds: Callable[[], bool], seconds: float, complaint: str) -> None:
    end = time.monotonic() + seconds
    while True:
        if await asyncio.to_thread(holds):
            return
        if time.monotonic() > end:
            raise ClusterError(f"{complaint} for {seconds:g} s: the logs are in {LOGS}")
        await asyncio.sleep(0.1)


def main(profile_name: str) -> None:
    """The process of the supervisor."""
    asyncio.run(Supervisor(profile_name).run())
