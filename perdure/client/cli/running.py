"""Brings a command's coroutine to its end: signals, log output, and the exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

import typer

from .problems import DONE, INTERRUPTED


def execute(command: Coroutine[Any, Any, int | None]) -> None:
    """Run the coroutine and end the command with the exit code that it returns; None is 0.

    SIGTERM ends it as Ctrl-C does: it is cancelled, cleans up, and the exit code is 130.
    """
    logging.basicConfig(format="perdure: %(levelname)s %(name)s: %(message)s", level=logging.ERROR)
    try:
        code = asyncio.run(_ending_on_sigterm(command))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)


async def _ending_on_sigterm(command: Coroutine[Any, Any, int | None]) -> int:
    task = asyncio.current_task()
    assert task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await command or DONE
