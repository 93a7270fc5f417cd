"""Processes of `perdure …` and workers that a test starts: forked from one that has imported
everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .worker_process import WorkerJob

if TYPE_CHECKING:
    from .forker import Task

ROOT = Path(__file__).parents[2]
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "HOME")
"""What a process reads of its environment before any of perdure's code runs."""


class Pipe(NamedTuple):
    """What a process writes."""

    reader: asyncio.StreamReader
    transport: asyncio.BaseTransport

    @classmethod
    async def reading(cls, descriptor: int) -> Pipe:
        reader = asyncio.StreamReader()
        file = open(descriptor, "rb", 0)  # noqa: SIM115
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        return cls(reader, transport)


class ForkedProcess:
    """As much of an `asyncio.subprocess.Process` as tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def returncode(self) -> int | None:
        """As `Process` has it: negative for a signal."""
        return self.ended.result() if self.ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(
            ProcessLookupError
        ):  # it has ended, and the forker is about to tell
            if not self.ended.done():
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> float:
        """SIGKILL; the moment it was sent."""
        self.send_signal(signal.SIGKILL)
        return time.monotonic()


class ForkedCommand(ForkedProcess):
    """One that runs a command, what it reads, and what it writes."""

    def __init__(
        self, pid: int, stdin: asyncio.WriteTransport | None, out: Pipe, err: Pipe
    ) -> None:
        super().__init__(pid)
        self.stdin, self.stdout, self.stderr = stdin, out.reader, err.reader
        self._pipes = (out, err)

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        if self.stdin:
            self.stdin.write(input or b"")
            self.stdin.close()
        stdout, stderr, _ = await asyncio.gather(
            self.stdout.read(), self.stderr.read(), self.wait()
        )
        return stdout, stderr

    async def close(self) -> None:
        """End it, whoever still has its output."""
        self.kill()
        await self.wait()
        for pipe in self._pipes:
            pipe.transport.close()
        if self.stdin:
            self.stdin.close()


P = TypeVar("P", bound=ForkedProcess)


class Forker:
    """The process that forks commands and workers; all of them end with it."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._requests: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._started: asyncio.Queue[int] = asyncio.Queue()
        self._running: dict[int, ForkedProcess] = {}
        self._ends: dict[int, int] = {}
        self._hearing: asyncio.Task[None] | None = None

    def can(self, environment: Mapping[str, str]) -> bool:
        """Whether a forked process would be like one of its own."""
        names = {name for name in {*environment, *self._environment} if name.startswith(_AT_START)}
        return all(environment.get(name) == self._environment.get(name) for name in names)

    async def command(
        self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], stdin: int
    ) -> ForkedCommand:
        """A process of `perdure ARGUMENTS`; `stdin` is `DEVNULL` or `PIPE` of
        `asyncio.subprocess`.
        """
        (reading, writing), (reading_errors, writing_errors) = os.pipe(), os.pipe()
        out, err = await Pipe.reading(reading), await Pipe.reading(reading_errors)
        typing: asyncio.WriteTransport | None = None
        if stdin == asyncio.subprocess.PIPE:
            read, typed = os.pipe()
            loop = asyncio.get_running_loop()
            typing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, open(typed, "wb", 0))  # noqa: SIM115
        else:
            read = os.open(os.devnull, os.O_RDONLY)
        task: Task = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": environment,
        }
        return await self._fork(
            task, (read, writing, writing_errors), lambda pid: ForkedCommand(pid, typing, out, err)
        )

    async def command_on_terminal(
        self,
        arguments: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        *,
        stdout: int,
        terminal: int,
    ) -> ForkedProcess:
        """A process of `perdure ARGUMENTS` in a session of its own, whose terminal is its stdin and
        stderr.

        Both descriptors are closed here.
        """
        task: Task = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": environment,
        }
        return await self._fork(
            {**task, "takes_terminal": True}, (terminal, stdout, os.dup(terminal)), ForkedProcess
        )

    async def worker(self, job: WorkerJob) -> ForkedProcess:
        """A worker process; what it writes is in `workers.log` in the folder of its job."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(Path(job.folder, "workers.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        task: Task = {
            "worker": job.model_dump_json(),
            "folder": str(ROOT),
            "environment": dict(os.environ),
        }
        return await self._fork(task, (nothing, log, os.dup(log)), ForkedProcess)

    async def process(self, task: Task, descriptors: tuple[int, int, int]) -> ForkedProcess:
        """A process with these stdin, stdout and stderr, which are closed here."""
        return await self._fork(task, descriptors, ForkedProcess)

    async def close(self) -> None:
        if self._requests is None:
            return
        assert self._process
        assert self._hearing
        self._requests.close()
        await self._process.wait()
        await self._hearing

    async def _open(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.forker"),
                stdin=theirs,
                stdout=asyncio.subprocess.PIPE,
                cwd=ROOT,
            )
        self._hearing = asyncio.create_task(self._hear(self._process.stdout))

    async def _fork(
        self, task: Task, descriptors: tuple[int, int, int], made: Callable[[int], P]
    ) -> P:
        """`descriptors` are stdin, stdout and stderr of the process; they are closed here.

        Who is cancelled meanwhile leaves no answer behind, which the next one would take for that
        to its own request.
        """
        answer = asyncio.ensure_future(self._answer(task, descriptors, made))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            (await answer).kill()
            raise

    async def _answer(
        self, task: Task, descriptors: tuple[int, int, int], made: Callable[[int], P]
    ) -> P:
        async with self._starting:
            if self._requests is None:
                await self._open()
            self._ask(task, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            pid = await self._started.get()
            process = made(pid)
            self._running[pid] = process
        if (code := self._ends.pop(pid, None)) is not None:
            self._end(pid, code)
        return process

    def _ask(self, task: Task, descriptors: tuple[int, int, int]) -> None:
        assert self._requests
        content = json.dumps(task).encode()
        socket.send_fds(self._requests, [f"{len(content):8}".encode()], descriptors)
        self._requests.sendall(content)

    async def _hear(self, told: asyncio.StreamReader | None) -> None:
        assert told
        async for line in told:
            what, *numbers = line.decode().split()
            if what == "started":
                self._started.put_nowait(int(numbers[0]))
            else:
                self._end(*map(int, numbers))

    def _end(self, pid: int, code: int) -> None:
        if (process := self._running.pop(pid, None)) is None:
            self._ends[pid] = code  # It was shorter than the way here.
        else:
            process.ended.set_result(code)


forker = Forker()
"""Of this test process; `tests/conftest.py` closes it."""
