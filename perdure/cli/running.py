"""Runs a command's coroutine: signals, log output and the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import typer

from .logs import configure
from .problems import DONE, INTERRUPTED


def execute(command: Coroutine[Any, Any, int | None], *, is_service: bool = False, metrics: str | None = None) -> None:
    """Run the coroutine and end the command with the exit code that it returns; None is 0.

    SIGTERM ends it as Ctrl-C does: it is cancelled, cleans up, and the exit code is 130. A service has no other
    end, so after SIGTERM its exit code is 0. Raises `typer.Exit` with any other code than 0.

    `metrics` is the `HOST:PORT` where this process serves metrics, for Prometheus. Raises `ConfigurationError` when
    that is not possible.

    A service logs for its operator, begun and ended runs included; other commands tell their user themselves what they
    do, and log errors.
    """
    try:
        configure("info" if is_service else "error", metrics=metrics)
        code = asyncio.run(_until_sigterm(command, DONE if is_service else INTERRUPTED))
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        command.close()
    if code:
        raise typer.Exit(code)


async def _until_sigterm(command: Coroutine[Any, Any, int | None], code_on_sigterm: int) -> int:
    task = asyncio.ensure_future(command)
    terminated = asyncio.Event()

    def terminate() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task or DONE
    except asyncio.CancelledError:
        if not terminated.is_set():
            raise
        return code_on_sigterm
