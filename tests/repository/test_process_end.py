"""Short commands end well every time: they skip the interpreter's own shutdown, which may crash."""

from __future__ import annotations

import asyncio

import pytest

from ..support.command_line import Cli

AT_ONCE = 4
COMMAND = ("run", "ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script", "-i", "person=Ann", "-q")


@pytest.mark.parametrize(("times", "anew"), [(8, False), pytest.param(40, True, marks=pytest.mark.trial)])
async def test_so_many_runs_end_with_0(cli: Cli, times: int, anew: bool) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def run() -> tuple[int, str]:
        async with gate:
            finished = await (await cli.start(*COMMAND, anew=anew)).finish()
            return finished.code, finished.stdout

    assert await asyncio.gather(*(run() for _ in range(times))) == [(0, "Ann is 30.\n")] * times
