"""MCP servers that have started other processes: those neither keep a call waiting nor outlive the
connection.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.mcp_stage import Tools, is_alive
from tests.support.waiting import wait_for

from .test_stdio import old

HOLDS = (
    "import subprocess; other = subprocess.Popen(['sleep', '600']{}); open({!r}, "
    "'w').write(str(other.pid)); {}"
)


def helper(tmp_path: Path, redirected: str, then: str) -> tuple[str, Path]:
    note = tmp_path / "helper"
    return HOLDS.format(redirected, str(note), then), note


async def gone(note: Path) -> None:
    async def is_gone() -> bool:
        return not is_alive(int(note.read_text()))

    await wait_for(is_gone)


async def test_a_server_that_dies_while_another_process_holds_its_output(tmp_path: Path) -> None:
    """The output never ends, and the server answers no more: each call would wait until its time is
    over.
    """
    code, note = helper(tmp_path, "", "os._exit(3)")
    tools = await Tools(old(tmp_path, code)).ask()
    for _ in range(2):
        result = await asyncio.wait_for(tools.call("hello"), 25)
        assert result.error_kind == "mcp_connection_lost"
        assert "its process ended with exit code 3" in result.text
        await gone(note)
    await tools.kind.close()


@pytest.mark.parametrize("redirected", ["", ", stdin=-3, stdout=-3, stderr=-3"])
async def test_what_a_server_leaves_behind_ends_with_the_connection(
    tmp_path: Path, redirected: str
) -> None:
    code, note = helper(tmp_path, redirected, "pass")
    tools = await Tools(old(tmp_path, code)).ask()
    assert (await tools.call("hello")).status == "success"
    assert is_alive(int(note.read_text()))
    await tools.kind.close()
    await gone(note)
