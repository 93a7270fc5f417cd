"""A command that gets SIGTERM ends, whatever it waits for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

STUCK = """
import asyncio, sys, threading
from click.exceptions import Exit
from perdure.cli.command import execute

async def {kind}():
    print("begun", flush=True)
    try:
        await asyncio.to_thread(threading.Event().wait) if "{kind}" == "thread" else await asyncio.Event().wait()
    finally:
        if "{kind}" == "cleaning":
            await asyncio.Event().wait()

try:
    execute({kind}(), leave_after=0.5)
except Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize(("kind", "code"), [("plain", 130), ("cleaning", 1), ("thread", 1)])
def test_a_command_ends_after_sigterm_whatever_it_waits_for(kind: str, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK.format(kind=kind)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == code, told
    assert ("some work did not end within 0.5 s of SIGTERM" in told) == (code == 1), told
