"""Runs as programs written for Octopus read them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perdure.errors import RunError
from perdure.interop.octopus import OctopusEvent, agent_response, octopus_events, sse_frame
from perdure.interop.settings import OctopusSettings
from perdure.json_types import JsonObject
from perdure.prompty.check.check import check
from perdure.prompty.load import load
from perdure.settings.agent_file import options_for
from perdure.settings.values import Settings
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.documents import manual
from ..support.gates import Gate
from ..support.stage import Stage

FIELDS: dict[str, list[str]] = {
    "turn_start": ["turn_id", "agent_id"],
    "tool_call": ["tool_name", "tool_call_id"],
    "tool_result": ["tool_call_id", "elapsed_ms"],
    "token": ["text"],
    "turn_end": ["turn_id", "total_tokens", "elapsed_ms"],
}


async def test_the_events_of_a_turn(stage: Stage, scripted: Scripted) -> None:
    answer = "You have 15 annual leave days remaining, Ünal. " * 12
    model = scripted(
        [asks(call("get_leave_balance", "tc-xyz789"), text="Let me see."), says(answer)]
    )
    agent = scripted_agent(
        model, ["get_leave_balance"], name="hr-assistant", metadata={"octopus": {}}
    )
    async with stage.worker({"get_leave_balance": lambda text="": "15"}):
        run = await stage.start(agent, stream=True)
        events = [event async for event in octopus_events(run)]
        result = await run.result()
    assert all(list(event.data) == FIELDS[event.event] for event in events)
    names = [event.event for event in events]
    assert [name for name in names if name != "token"] == [
        "turn_start",
        "tool_call",
        "tool_result",
        "turn_end",
    ]
    assert names.index("token") > names.index("tool_result")
    assert "".join(event.data["text"] for event in events if event.event == "token") == answer
    by_name: JsonObject = {event.event: event.data for event in events}
    assert by_name["turn_start"] == {"turn_id": run.id, "agent_id": "hr-assistant"}
    assert by_name["tool_call"] == {"tool_name": "get_leave_balance", "tool_call_id": "tc-xyz789"}
    assert by_name["tool_result"]["tool_call_id"] == "tc-xyz789"
    assert by_name["turn_end"]["turn_id"] == run.id
    assert by_name["turn_end"]["total_tokens"] == result.usage.total_tokens > 0
    assert all(isinstance(by_name[name]["elapsed_ms"], int) for name in ("tool_result", "turn_end"))
    assert agent_response(result) == (answer, False)
    assert [event async for event in octopus_events(run)][0] == events[0], (
        "the events of a closed run, too"
    )


async def test_a_turn_that_is_terminated_ends_too(stage: Stage, scripted: Scripted) -> None:
    gate = Gate()
    agent = scripted_agent(scripted([asks(call("gate", "a"))]), ["gate"])
    async with stage.worker({"gate": gate}):
        run = await stage.start(agent)
        events = octopus_events(run)
        seen = [await anext(events), await anext(events)]
        await gate.reached.wait()
        await stage.client.get_workflow_handle(run.id).terminate()
        seen.append(await anext(events))
        with pytest.raises(RunError):
            await anext(events)
        gate.open.set()
    assert [each.event for each in seen] == ["turn_start", "tool_call", "turn_end"]


def test_a_frame_is_an_event_and_its_data_on_one_line() -> None:
    frame = sse_frame(OctopusEvent("token", {"text": 'ein "ü"\n'}))
    first, second, *rest = frame.split("\n")
    assert (first, rest) == ("event: token", ["", ""])
    assert json.loads(second.removeprefix("data: ")) == {"text": 'ein "ü"\n'}


def test_the_file_of_the_page(tmp_path: Path) -> None:
    page = manual("guides/octopus.md")
    (tmp_path / "hr.prompty").write_text(re.findall(r"```yaml\n(---\n.*?)```", page, re.S)[0])
    assert [
        problem for problem in check(tmp_path / "hr.prompty") if problem.severity == "error"
    ] == []
    options = options_for(load(tmp_path / "hr.prompty", defer_environment=True))
    assert (options.max_iterations, options.tool_timeout, options.context_budget) == (
        8,
        20.0,
        600_000,
    )
    for setting in OctopusSettings().readers(Settings()):
        assert f"| `{setting}` |" in page
