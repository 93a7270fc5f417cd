"""Every block of the manual that is not marked otherwise is executed, page by page."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.client.pauses import pauses_in_force, release_runs
from perdure.tools import clear_tools

from ..support.agents import Scripted
from . import manual_guides, manual_operations
from .manual import PAGES, blocks, own_test
from .reader import Reader, environment

READS = {**manual_guides.READS, **manual_operations.READS}
TOOLS = """from perdure import tool


@tool
def look_up(order: str) -> str:
    \"\"\"Look an order up by its number.\"\"\"
    return "a kettle"
"""


@pytest.fixture
async def reader(
    request: pytest.FixtureRequest,
    client: Client,
    address: str,
    scripted: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Reader]:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    modules = {*sys.modules}
    opened = Reader(request.param, folder, client)
    opened.model = scripted(lambda request: opened.reply(request))
    opened.instead["localhost:7233"] = address
    opened.set_variable = monkeypatch.setenv
    opened.save_agent("agent")
    for name in ("tools", "my_tools"):
        opened.save(f"{name}.py", TOOLS)
    variables = environment(tmp_path / "home", address, opened.model)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    await opened.open(variables)
    yield opened
    await opened.close()
    clear_tools()
    for name in {*sys.modules} - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    monkeypatch.delenv("PERDURE_ENCRYPTION_KEY", raising=False)
    await release_runs(client, [each.id for each in await pauses_in_force(client)])
    async for left in client.list_workflows("ExecutionStatus='Running' AND TaskQueue='perdure'"):
        await client.get_workflow_handle(left.id).terminate()


SLOW = ("deletion",)
"""Pages that wait for the server for many seconds."""
READ = [
    page
    for page in PAGES
    if own_test(page) is None and any(each.treatment == "executed" for each in blocks(page))
]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.trial] * (page.stem in SLOW))
        for page in READ
    ],
    indirect=True,
)
async def test_each_block_is_executed(reader: Reader, request: pytest.FixtureRequest) -> None:
    if read := READS.get(reader.page.stem):
        await read(reader)
    await reader.rest()
