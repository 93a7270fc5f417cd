"""A terminal to look at: commands in the panes of a tmux server of the test's own."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .commands import ForkedProcess, forker
from .needs import program

SECONDS = 60
_HOLDER = """
import fcntl, select, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
open(sys.argv[1], "x").close()
until_closed = select.poll()
until_closed.register(0, 0)
until_closed.poll()
"""
"""What tmux starts in a pane: it gives up the terminal, makes the file, and ends when the terminal
is closed."""

_CONFIGURATION = (
    "set -s exit-empty off\nset -g remain-on-exit on\nset -g status off\nset -g history-limit "
    "5000\n"
)


class Pane:
    """One command on its own screen."""

    def __init__(self, tmux: Tmux, id: str, process: ForkedProcess | None = None) -> None:
        self._tmux = tmux
        self._id = id
        self._process = process

    @property
    def text(self) -> str:
        """All that is on the screen, and above it; lines that the terminal has broken are whole."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self._id)

    def type(self, line: str) -> None:
        """Type the line, and Enter."""
        self._tmux("send-keys", "-t", self._id, "-l", line)
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press a key, by tmux's name for it."""
        self._tmux("send-keys", "-t", self._id, key)

    def kill(self) -> None:
        """Close the terminal; what runs in it is hung up."""
        self._tmux("kill-pane", "-t", self._id)

    async def shows(self, pattern: str, *, times: int = 1) -> None:
        """Wait until so many places on the screen match."""
        await self._until(
            lambda: len(re.findall(pattern, self.text)) >= times, f"{pattern!r}, {times} times"
        )

    async def ends(self) -> None:
        """Wait until the command has ended, if it is one of perdure's."""
        assert self._process is not None
        await self._until(
            lambda: self._process is not None and self._process.returncode is not None,
            "the command's end",
        )

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not is_so():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            code = self._process and self._process.returncode
            raise AssertionError(f"expected {what}, saw ({code}): {self.text}") from None


class Tmux:
    """A tmux server; calling it runs one of tmux's commands, and gives what that prints."""

    def __init__(self, program: Path, folder: Path, environment: Mapping[str, str]) -> None:
        (folder / "tmux.conf").write_text(_CONFIGURATION)
        self._folder = folder
        self._command = [
            str(program),
            "-u",
            "-S",
            str(folder / "socket"),
            "-f",
            str(folder / "tmux.conf"),
        ]
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout

    async def perdure(self, *arguments: str, folder: Path, columns: int) -> Pane:
        """A command of perdure's in a pane of its own, so many columns wide."""
        size = ("-x", str(columns), "-y", "30")
        is_free = self._folder / uuid.uuid4().hex
        holder = (sys.executable, "-I", "-S", "-c", _HOLDER, str(is_free))
        id, path = self(
            "new-session", "-d", "-P", "-F", "#{pane_id} #{pane_tty}", *size, *holder
        ).split()
        async with asyncio.timeout(SECONDS):
            while not is_free.exists():
                await asyncio.sleep(0.01)
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        process = await forker.command_on_terminal(
            arguments,
            folder,
            {**self._environment, "TERM": "screen"},
            stdout=os.dup(terminal),
            terminal=terminal,
        )
        return Pane(self, id, process)


@contextmanager
def tmux_server(environment: Mapping[str, str]) -> Iterator[Tmux]:
    """A server with a socket of its own; whatever runs in it ends with the block."""
    found = program("tmux", package="tmux")
    folder = Path(tempfile.mkdtemp(prefix="perdure-"))  # a socket's path must be short
    tmux = Tmux(found, folder, environment)
    try:
        yield tmux
    finally:
        subprocess.run([*tmux._command, "kill-server"], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)
