"""Who blocks an event loop is named, and nobody else is."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from perdure.tools.threads import LoopThread
from perdure.tools.user_loop import end_on

BLOCKED = 1.7
"""Seconds: for longer than any loop may be silent."""
HARDLY = 0.4
"""Of a processor: who gets less is not blamed for long, since the machine is busy with something
else."""


async def sleeps() -> None:
    time.sleep(BLOCKED)


async def computes() -> None:
    until = time.thread_time() + BLOCKED
    while time.thread_time() < until:
        sum(range(1000))


async def imports() -> None:
    importlib.import_module("slow_to_import")


async def sleeps_in_no_code_of_its_own() -> None:
    asyncio.get_running_loop().call_soon(time.sleep, BLOCKED)
    await asyncio.sleep(BLOCKED)


async def is_one_of_many() -> None:
    """No task takes long; all of them together do."""

    async def short() -> None:
        time.sleep(0.02)

    await asyncio.gather(*(short() for _ in range(int(BLOCKED / 0.02))))


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (sleeps, True),
        (computes, True),
        (imports, False),
        (sleeps_in_no_code_of_its_own, False),
        (is_one_of_many, False),
    ],
)
async def test_what_blocks_a_loop(
    work: Callable[[], Awaitable[None]],
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "slow_to_import.py").write_text(f"import time\ntime.sleep({BLOCKED})\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("slow_to_import", None)
    caplog.set_level(logging.WARNING, logger="perdure")
    thread = LoopThread("watched", "the watched loop")
    begun, cpu_before = time.monotonic(), time.process_time()
    try:
        await end_on(thread.loop, work, "the work")
    finally:
        await thread.close()
    hardly_ran = (time.process_time() - cpu_before) / (time.monotonic() - begun) < HARDLY
    said = [
        record.getMessage()
        for record in caplog.records
        if "has not answered" in record.getMessage()
    ]
    assert len(said) == named or (work is computes and hardly_ran and not said), said
    assert all(
        f"the work blocks it at {__file__}" in text and f" in {work.__name__}: " in text
        for text in said
    )
