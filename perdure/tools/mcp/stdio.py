"""Runs an MCP server as a process, and exchanges messages over its standard input and output, one
per line.

The SDK's own transport reads lines of any length, and gives a server this process's stderr.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from ...redaction import get_logger
from ..process_words import ProcessWords
from .declaration import MAX_MESSAGE_BYTES, Server

LOOK_SECONDS = 0.25
"""Seconds between two checks that the process still exists."""
ENDING_SECONDS = 1.5
"""Seconds that a server has to end after the end of its input, and again after SIGTERM."""
_log = get_logger("perdure.tools.mcp")

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class ProgramFiles:
    """The files in a server's command line, in their state at creation; none for a server at a
    URL.
    """

    def __init__(self, server: Server) -> None:
        words = (
            [shutil.which(server.command) or server.command, *server.args] if server.command else []
        )
        paths = (os.path.join(server.cwd or "", word) for word in words)
        self._stamps = {path: stamp for path in paths if (stamp := _stamp(path))}

    @property
    def have_changed(self) -> bool:
        """Return whether one of them has been replaced since; a missing one may be about to
        appear.
        """
        return any(_stamp(path) not in (None, stamp) for path, stamp in self._stamps.items())


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return a stamp that identifies the file's content; None for a missing file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


class ServerProcess:
    """One process of a server. Calls `on_end` as soon as it stops sending messages."""

    def __init__(self, server: Server, title: str, on_end: Callable[[], None]) -> None:
        self._server = server
        self._on_end = on_end
        self.is_over = False
        """Whether it has stopped sending messages."""
        self._why = ""
        self._is_heard = True
        self._said = ProcessWords(f"MCP server {title!r}", _log)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def report(self) -> str:
        """Return how it ended, and its last output other than messages, on one line; else "".

        Such as `its process ended with exit code 1; it wrote: no such folder`.
        """
        words = self._said.last_words
        return "; ".join(filter(None, [self.end, words and f"it wrote: {words}"]))

    @property
    def end(self) -> str:
        """Return how it ended, such as `its process ended with exit code 1`; "" if unknown."""
        if self._why or self._process is None or self._process.returncode is None:
            return self._why
        code = self._process.returncode
        return (
            f"its process was killed by signal {-code}"
            if code < 0
            else f"its process ended with exit code {code}"
        )

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Start the process, and end it after the block. Raises OSError or ValueError if it can't
        be started.
        """
        server = self._server
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_MESSAGE_BYTES,
            env={**get_default_environment(), **dict(server.env)},
            cwd=server.cwd,
            start_new_session=True,
        )
        self._process = process
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, to_session)),
            asyncio.create_task(self._write(process, from_session)),
            asyncio.create_task(self._listen(process)),
            asyncio.create_task(self._watch(process, to_session)),
        ]
        try:
            yield incoming, outgoing
        finally:
            for stream in (incoming, outgoing, to_session, from_session):
                stream.close()
            self._is_heard = False
            # This continues even if the current task is cancelled: the process must not outlive the
            # worker.
            ending = asyncio.create_task(_end(process))
            with anyio.CancelScope(shield=True):
                await asyncio.shield(ending)
                # Only reading the output to its end closes it: a busy server may have left more.
                await asyncio.wait([tasks[0], tasks[2]], timeout=LOOK_SECONDS)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _read(self, process: asyncio.subprocess.Process, to_session: Incoming) -> None:
        assert process.stdout is not None
        try:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while self._is_heard and (line := await process.stdout.readline()):
                    await self._receive(line, to_session)
        except ValueError:
            self._why = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
        self._note_end(to_session)
        # A process with unread output may not notice the end of its input.
        while await process.stdout.read(65536):
            await asyncio.sleep(0)

    async def _watch(self, process: asyncio.subprocess.Process, to_session: Incoming) -> None:
        """Note the end of a failed process even if its child process holds its output open.

        A process that ended normally may have left its work to the child.
        """
        while process.returncode is None:  # Its `wait` waits for the child, too.
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LOOK_SECONDS)  # For its last output.
        if process.returncode and not self.is_over:
            _signal_all(process, signal.SIGKILL)
            self._note_end(to_session)

    def _note_end(self, to_session: Incoming) -> None:
        self.is_over = True
        self._on_end()
        # Signals the end to tasks that wait for answers.
        to_session.close()

    async def _receive(self, line: bytes, to_session: Incoming) -> None:
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._said.note(line, is_output=True)
            await asyncio.sleep(0)  # Yield to other tasks during endless input.
            return
        await to_session.send(SessionMessage(message))

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        from_session: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdin is not None
        with suppress(anyio.ClosedResourceError, ConnectionError):
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Log the server's stderr."""
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:
                line = b"[a line that is too long to be read]"
            if not line:
                return
            self._said.note(line)
            await asyncio.sleep(0)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and its descendants: by the end of its input, else by force."""
    assert process.stdin is not None
    process.stdin.close()
    for force in (None, signal.SIGTERM, signal.SIGKILL):
        if force is not None:
            _signal_all(process, force)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await process.wait()
                break
    _signal_all(process, signal.SIGKILL)  # Remaining descendants.


def _signal_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to the process and its descendants."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
