"""Short commands, and clients as a page shows them, skip the shutdown of the interpreter, which may
crash.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.errors import ExecuteError
from perdure.testing import ScriptedReply, says

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from .house import ROOT

AT_ONCE = 4
COMMAND = (
    "run",
    "ages.prompty",
    "--tools",
    "tools.py",
    "--scripted",
    "tools.py:script",
    "-i",
    "person=Ann",
    "-q",
)


async def test_so_many_runs_end_with_0(cli: Cli) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def run() -> tuple[int, str]:
        async with gate:
            finished = await (await cli.start(*COMMAND)).finish()
            return finished.code, finished.stdout

    assert await asyncio.gather(*(run() for _ in range(8))) == [(0, "Ann is 30.\n")] * 8


SHOWN = re.search(
    r"```python\n(# answer_of\.py.*?)```",
    (ROOT / "docs/operations/operating.md").read_text(),
    re.DOTALL,
)


async def test_the_client_that_the_page_shows_ends_with_its_own_code(
    client: Client,
    address: str,
    task_queue: str,
    scripted: Scripted,
    tmp_path: Path,
) -> None:
    assert SHOWN
    (tmp_path / "answer_of.py").write_text(SHOWN[1])
    stage = Stage(client, task_queue)
    async with stage.worker():
        done = await stage.start(scripted_agent(scripted([says("42")])))
        failed = await stage.start(scripted_agent(scripted([ScriptedReply(status=400)])))
        await done.result()
        with pytest.raises(ExecuteError):
            await failed.result()
    gate = asyncio.Semaphore(AT_ONCE)

    async def end_of(run: str) -> tuple[int | None, bytes]:
        async with gate:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "answer_of.py", run),
                stdout=asyncio.subprocess.PIPE,
                cwd=tmp_path,
                env={**os.environ, "TEMPORAL_ADDRESS": address, "PYTHONPATH": str(ROOT)},
            )
            stdout, _ = await asyncio.wait_for(process.communicate(), 120)
            return process.returncode, stdout

    ends = await asyncio.gather(*(end_of(run.id) for run in [done, failed]))
    assert ends == [(0, b"42\n"), (1, b"")]
