"""Runs an MCP server as a process, and exchanges messages with it over its standard input and output, a line each.

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
"""Between two looks whether the process is still there."""
ENDING_SECONDS = 1.5
"""How long a server may take to end when its input ends, and again when it is told to terminate."""
_log = get_logger("perdure.tools.mcp")

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class ProgramFiles:
    """The files that a server's command line names, as they are when this is made: nothing for a server at a URL."""

    def __init__(self, server: Server) -> None:
        words = [shutil.which(server.command) or server.command, *server.args] if server.command else []
        paths = (os.path.join(server.cwd or "", word) for word in words)
        self._stamps = {path: stamp for path in paths if (stamp := _stamp(path))}

    @property
    def have_changed(self) -> bool:
        """Return whether one of them is another by now; one that is gone may be on its way."""
        return any(_stamp(path) not in (None, stamp) for path, stamp in self._stamps.items())


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return what tells the file's content from another; None where there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


class ServerProcess:
    """One process of a server. `on_end` is called as soon as it sends no more messages."""

    def __init__(self, server: Server, title: str, on_end: Callable[[], None]) -> None:
        self._server = server
        self._on_end = on_end
        self.is_over = False
        """Whether it sends no more messages."""
        self._why = ""
        self._is_heard = True
        self._said = ProcessWords(f"MCP server {title!r}", _log)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def report(self) -> str:
        """Return how it ended, and what it wrote last besides messages, on one line; "" for nothing.

        Such as `its process ended with exit code 1; it wrote: no such folder`.
        """
        words = self._said.last_words
        return "; ".join(filter(None, [self.end, words and f"it wrote: {words}"]))

    @property
    def end(self) -> str:
        """Return how it ended, such as `its process ended with exit code 1`; "" for nothing that is known."""
        if self._why or self._process is None or self._process.returncode is None:
            return self._why
        code = self._process.returncode
        return f"its process was killed by signal {-code}" if code < 0 else f"its process ended with exit code {code}"

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Start the process, for as long as the block runs. Raises OSError or ValueError when it can't be started."""
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
            # It goes on to its end even if this task is cancelled: the process must not outlive the worker.
            ending = asyncio.create_task(_end(process))
            with anyio.CancelScope(shield=True):
                await asyncio.shield(ending)
                # Only who reads its output to the end closes it: what a chatty one has written may still be there.
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
        # Until it has said everything, it may not notice that it is to end.
        while await process.stdout.read(65536):
            await asyncio.sleep(0)

    async def _watch(self, process: asyncio.subprocess.Process, to_session: Incoming) -> None:
        """Note the end of a process that has failed also where another one, which it has started, holds its output.

        One that ends in order may have left its work to that other one.
        """
        while process.returncode is None:  # Its `wait` waits for the other one, too.
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LOOK_SECONDS)  # For its last words.
        if process.returncode and not self.is_over:
            _signal_all(process, signal.SIGKILL)
            self._note_end(to_session)

    def _note_end(self, to_session: Incoming) -> None:
        self.is_over = True
        self._on_end()
        # What waits for answers hears of the end by this.
        to_session.close()

    async def _receive(self, line: bytes, to_session: Incoming) -> None:
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._said.note(line, is_output=True)
            await asyncio.sleep(0)  # Others have their turn while there is always a next line.
            return
        await to_session.send(SessionMessage(message))

    async def _write(
        self, process: asyncio.subprocess.Process, from_session: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        with suppress(anyio.ClosedResourceError, ConnectionError):
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Bring what the server says on stderr into the log."""
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
    """End the process and all that it has started: by the end of its input, else by force."""
    assert process.stdin is not None
    process.stdin.close()
    for force in (None, signal.SIGTERM, signal.SIGKILL):
        if force is not None:
            _signal_all(process, force)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await process.wait()
                break
    _signal_all(process, signal.SIGKILL)  # What it has left behind.


def _signal_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to the process and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
