"""Runs a worker as a process of its own, and restarts it when files change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .console import say

_WATCHED_SUFFIXES = (".py", ".prompty", ".json", ".yaml", ".yml")
_KILL_AFTER_SECONDS = 35.0


def named_code(
    tools: Iterable[str] | None,
    guardrails: Iterable[str] | None,
    compactors: Iterable[str] | None,
    credentials: str | None,
) -> dict[str, Iterable[str]]:
    """What the options of a command name of the user's code, by option."""
    named = {"--tools": tools, "--guardrails": guardrails, "--compactor": compactors}
    return {
        **{option: sources or () for option, sources in named.items()},
        "--credentials": filter(None, [credentials]),
    }


def worker_arguments(
    code: Mapping[str, Iterable[str]],
    task_queue: str,
    prompt_root: Path | None,
    grace: float,
    rates: Iterable[str] | None = None,
    *,
    metrics: str | None = None,
    mock: bool = False,
) -> list[str]:
    """The arguments of the `perdure worker` to supervise."""
    given = {**code, "--rate": rates or ()}
    named = [word for option, specs in given.items() for spec in specs for word in (option, spec)]
    root = ["--prompt-root", str(prompt_root)] if prompt_root else []
    measured = ["--metrics-address", metrics] if metrics else []
    mocked = ["--mock"] if mock else []
    return ["worker", *named, "--task-queue", task_queue, "--grace", str(grace), *root, *measured, *mocked]


async def supervise(
    arguments: Sequence[str], folders: Sequence[Path], environment: Mapping[str, str] | None = None
) -> None:
    """Keep a worker process running until cancelled; after a change it ends gracefully, then a new one starts."""
    from watchfiles import awatch

    worker = WorkerProcess(arguments, environment or {})
    await worker.start()
    try:
        async for changes in awatch(*folders, step=100, debounce=400):
            changed = sorted({Path(path).name for _, path in changes if path.endswith(_WATCHED_SUFFIXES)})
            if changed:
                say(f"{', '.join(changed)} changed: restarting the worker", "faint")
                await worker.end()
                await worker.start()
    finally:
        await worker.end()


class WorkerProcess:
    """A `perdure worker` in a process of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = environment

    async def start(self) -> None:
        """Start the process, in a session of its own: Ctrl-C reaches this process only, which then ends the worker.

        When this process is killed, the pipe to the worker's stdin closes, and the worker ends too.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "perdure.cli", *self._arguments, "--ends-with-stdin"),
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )
        self._mention = asyncio.create_task(self._mention_end())

    async def end(self) -> None:
        """End the process: SIGTERM, then SIGKILL. Does nothing when it has ended by itself."""
        self._mention.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _KILL_AFTER_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _mention_end(self) -> None:
        code = await self._process.wait()
        say(f"The worker ended (exit code {code}). It starts again when a watched file changes.", "bad")
