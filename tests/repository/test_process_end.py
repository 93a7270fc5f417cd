"""Short commands end well every time: they skip the interpreter's own shutdown, which may crash."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

AGENT = Path(__file__).parents[1] / "cli" / "agent"
TIMES, AT_ONCE = 20, 4
COMMAND = ("run", "ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script", "-i", "person=Ann", "-q")


async def test_twenty_runs_end_with_0(address: str) -> None:
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

    assert await asyncio.gather(*(run() for _ in range(TIMES))) == [(0, "Ann is 30.\n")] * TIMES
