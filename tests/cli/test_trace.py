"""`perdure trace`: all the forms of one run's trace, and what must not be in any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.otlp_receiver import receive
from ..support.stage import Stage

KEY, PASSWORD = "sk-test1234567890abcdef", "hunter2 hunter2"
LOGIN = {
    "name": "login",
    "kind": "function",
    "parameters": [{"name": "password", "kind": "string"}],
}


def login(password: str) -> str:
    return f"logged in, with the key {KEY}"


@pytest.fixture
async def run_id(stage: Stage, scripted: Scripted) -> str:
    """A run that has ended, in whose content there are secrets."""
    model = scripted([asks(call("login", password=PASSWORD)), says(f"I have {KEY}")])
    async with stage.worker([login]):
        run = await stage.start(scripted_agent(model, [LOGIN]))
        await run.result()
    return run.id


async def test_every_form_of_one_trace(cli: Cli, run_id: str, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    outputs = ("--json", "--html", str(page), "--tracy", f"{tmp_path}/frames/", "--content")
    finished = await cli("trace", run_id, *outputs)
    assert finished.code == 0, finished.stderr
    names = ["invoke_agent tested", "chat scripted", "execute_tool login", "chat scripted"]
    assert [span.name for span in receive(finished.stdout)] == names
    [tracy] = (tmp_path / "frames").glob("invoke_agent_tested.*.tracy")
    assert len(json.loads(tracy.read_text())["trace"]["__frames"]) == 3
    assert f"The page: {page}" in finished.stderr
    for form in (finished.stdout, page.read_text(), tracy.read_text()):
        assert "logged in" in form
        assert KEY not in form
        assert PASSWORD not in form
