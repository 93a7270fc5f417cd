"""`@tool(isolated=True)`: functions in processes of their own, whose end is that of one call."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.messages import ToolResult
from perdure.tools import clear_tools
from perdure.tools.context import ToolContext
from perdure.tools.dispatch import ToolBox
from perdure.tools.handlers import load_tools

from ..support.isolated_functions import Database, behave, query, tell
from ..support.mcp_stage import is_alive
from ..support.waiting import wait_for, wait_until

AGENT = Agent.model_validate(
    {"tools": [{"name": name} for name in ("behave", "tell", "query", "shout")]}
)


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()


async def run(
    name: str, context: ToolContext | None = None, timeout: float = 30, **arguments: Any
) -> ToolResult:
    box = ToolBox([behave, tell, query], resources={Database: Database}, registered=False)
    return await box.execute(AGENT, name, arguments, {}, context, timeout=timeout)


async def test_it_runs_in_a_process_of_its_own() -> None:
    result = await run("behave", how="well")
    assert result.status == "success"
    assert result.text.startswith("well in ")
    assert result.text != f"well in {os.getpid()}"


@pytest.mark.parametrize(
    ("how", "kind", "text", "unknown"),
    [
        (
            "exit",
            "process_died",
            "its process ended with exit code 3 before the function did",
            True,
        ),
        (
            "segfault",
            "process_died",
            "its process was killed by SIGSEGV before the function did (its output is",
            True,
        ),
        ("raise", "KeyError", "KeyError: 'nokey'", False),
        ("unknown", "OutcomeUnknown", "OutcomeUnknown: no answer", True),
        ("leave", "SystemExit", "SystemExit: gone", False),
    ],
)
async def test_whatever_ends_it_is_a_failed_call(
    how: str, kind: str, text: str, unknown: bool
) -> None:
    result = await run("behave", how=how)
    assert (result.status, result.error_kind, result.outcome_unknown) == ("error", kind, unknown)
    assert result.text.startswith(f"Error: Tool 'behave' failed: {text}")


async def test_its_result_is_bounded_and_its_arguments_are_checked() -> None:
    large, wrong = await asyncio.gather(
        run("behave", how="large"), run("behave", how="well", place=["a"])
    )
    assert 900_000 < len(large.text) < 1_100_000
    assert wrong.error_kind == "invalid_arguments"


async def test_the_end_of_the_process_is_noticed_whatever_it_leaves_behind(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    before = len(os.listdir("/proc/self/fd"))
    try:
        result = await run("behave", how="fork", place=str(place))
    finally:
        os.kill(int(place.read_text()), signal.SIGKILL)
    assert result.error_kind == "process_died"
    assert "its process ended with exit code 3 before the function did" in result.text
    await wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def begun(place: Path) -> list[int]:
    """The processes of a call that has begun."""
    return [int(each) for each in place.read_text().split()] if place.exists() else []


async def test_a_call_that_is_cancelled_ends_the_process_and_what_it_has_started(
    tmp_path: Path,
) -> None:
    place = tmp_path / "pids"
    running = asyncio.create_task(run("behave", how="hang", place=str(place)))
    pids = await wait_for(lambda: begun(place))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(pids) == 3
    await wait_until(lambda: not any(map(is_alive, pids)))


async def test_the_end_of_the_worker_ends_the_process_and_what_it_has_started(
    tmp_path: Path,
) -> None:
    place = tmp_path / "pids"
    call = f"run('behave', how='hang', place={str(place)!r})"
    code = f"import asyncio; from tests.tools.test_isolated import run; asyncio.run({call})"
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    pids = await wait_for(lambda: begun(place))
    worker.kill()
    await worker.wait()
    try:
        assert len(pids) == 3
        await wait_until(lambda: not any(map(is_alive, pids)))
    finally:
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


async def test_a_tool_of_a_file_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "loud_words.py").write_text("WORD = 'hey'\n")
    source = "from loud_words import WORD\nfrom perdure import tool\n\n\n"
    source += "@tool(isolated=True)\ndef shout() -> str:\n    return WORD\n"
    (tmp_path / "loud.py").write_text(source)
    box = ToolBox(load_tools(str(tmp_path / "loud.py")), registered=False)
    assert (await box.execute(AGENT, "shout", {}, {}, timeout=30)).text == "hey"


async def test_what_only_the_worker_has_is_refused() -> None:
    result = await run("query")
    assert (
        "an isolated tool has no resources of its worker: open database (Database) in the function"
        in result.text
    )


def test_what_no_process_can_find_or_call_is_refused() -> None:
    async def slow() -> None: ...

    own = type(is_alive)(is_alive.__code__, {"__name__": "__main__"}, "own")
    for function in (slow, test_it_runs_in_a_process_of_its_own, own):
        with pytest.raises(ConfigurationError, match="expected a plain function, not an async one"):
            tool(isolated=True)(function)
    with pytest.raises(ConfigurationError, match="is local and isolated"):
        tool(isolated=True, local=True)(is_alive)
