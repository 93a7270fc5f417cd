"""Keeps `perdure worker` and `perdure serve` running in processes of their own, and restarts them
when files change.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .console import say
from .given import option_name
from .problems import USAGE

_WATCHED_SUFFIXES = (".py", ".prompty", ".json", ".yaml", ".yml")
KILL_AFTER_SECONDS = 35.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a process that has died starts again: doubled each time, until one has lived for
the longest."""


def as_words(values: Mapping[str, Any]) -> list[str]:
    """Return the values as options of a command, by the names of their parameters."""
    words = []
    for name, value in values.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is not None and each is not False:
                words += [option_name(name)] if each is True else [option_name(name), str(each)]
    return words


async def supervise(
    commands: Sequence[Sequence[str]],
    folders: Sequence[Path],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Keep the processes of these commands running until cancelled; new ones start when they die
    and after a change.
    """
    from watchfiles import awatch

    processes = [CommandProcess(command, environment or {}) for command in commands]
    names = " and ".join(each.name for each in processes)
    try:
        await asyncio.gather(*(each.start() for each in processes))
        async for changes in awatch(*folders, step=100, debounce=400):
            changed = sorted(
                {Path(path).name for _, path in changes if path.endswith(_WATCHED_SUFFIXES)}
            )
            if changed:
                say(f"{', '.join(changed)} changed: restarting the {names}", "faint")
                await asyncio.gather(*(each.restart() for each in processes))
    finally:
        await asyncio.gather(*(each.end() for each in processes))


_NAMES = {"worker": "worker", "serve": "gateway"}


class CommandProcess:
    """`perdure worker` or `perdure serve` in a process of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = _NAMES[arguments[0]]
        self._arguments = arguments
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def restart(self) -> None:
        """End the process, and start it again."""
        await self.end()
        await self.start()

    async def start(self) -> None:
        """Start the process, and again whenever it dies, until `end`."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep())

    async def _spawn(self) -> None:
        """Start the process, in a session of its own: Ctrl-C reaches this process only, which then
        ends that one.

        When this process is killed, the pipe to the other one's stdin closes, and it ends too.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "perdure.cli", *self._arguments, "--ends-with-stdin"),
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )

    async def end(self) -> None:
        """End the process: SIGTERM, then SIGKILL. Does nothing when it has ended by itself, or has
        not begun.
        """
        if self._process is None:
            return
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), KILL_AFTER_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _keep(self) -> None:
        """Start the process again when it has died; return when it can't work before a file
        changes.
        """
        assert self._process is not None
        pause, now = FIRST_PAUSE, asyncio.get_running_loop().time
        while True:
            started = now()
            code = await self._process.wait()
            if code == USAGE:
                say(
                    f"The {self.name} ended (exit code {code}). It starts again when a watched "
                    "file changes.",
                    "bad",
                )
                return
            pause = FIRST_PAUSE if now() - started > LONGEST_PAUSE else pause
            why = (
                f"was killed by {signal.Signals(-code).name}"
                if code < 0
                else f"ended with exit code {code}"
            )
            say(f"The {self.name} {why}. It starts again in {pause:g} s.", "bad")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            await self._spawn()
