"""Short commands end well every time: they skip the interpreter's own shutdown, which may crash."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[1] / "cli" / "agent"
AT_ONCE = 4
COMMAND = ("run", "ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script", "-i", "person=Ann", "-q")


@pytest.mark.parametrize("times", [8, pytest.param(40, marks=pytest.mark.trial)])
async def test_so_many_runs_end_with_0(address: str, times: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def run() -> tuple[int | None, str]:
        async with gate:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "perdure.cli", "--address", address, *COMMAND),
                stdout=asyncio.subprocess.PIPE,
                cwd=AGENT,
            )
            stdout, _ = await process.communicate()
            return process.returncode, stdout.decode()

    assert await asyncio.gather(*(run() for _ in range(times))) == [(0, "Ann is 30.\n")] * times
