"""An exported run is a fixture of tests: its model's replies, and the results of its tools."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import load
from perdure.client import start_run
from perdure.errors import ConfigurationError, ExecuteError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import Diverged, RecordedRun, asks, call, read_recording, says
from perdure.testing.server import with_script
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.prompted import two_phases, without_tools
from ..support.stage import Stage
from .test_in_process_documented import AGENT, RECORDED, TOOLS


async def exported(run: Any, file: Path) -> Path:
    lines = [json.dumps(line) async for line in run.export()]
    file.write_text("\n".join(lines))
    return file


def results(messages: list[Message]) -> list[str]:
    return tool_texts(messages)


@tool(needs_approval=True)
def pay(text: str = "") -> str:
    return f"paid {text}"


@pytest.fixture
async def beside_an_export(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Path]:
    """A folder with an agent, its tools and an export of a run, which is the current one."""
    (tmp_path / "weather.prompty").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    model = scripted([asks("weather", city="Paris"), says("Sunny")])
    agent = with_script(load(tmp_path / "weather.prompty", defer_environment=True), model)
    async with stage.worker({"weather": lambda city: "sunny in Paris"}):
        run = await start_run(stage.client, agent, {}, task_queue=stage.task_queue)
        await run.result()
    await exported(run, tmp_path / "bug-17.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("tools", None)


async def test_on_the_page(beside_an_export: Path) -> None:
    """The tests of docs/guides/testing-agents.md, as they stand there."""
    assert len(RECORDED) == 2
    for block in RECORDED:
        names: JsonObject = {}
        exec(compile(block, str(beside_an_export / "test_page.py"), "exec"), names)
        [test] = [value for name, value in names.items() if name.startswith("test_")]
        test(inspect.unwrap(names["run"])())


async def test_a_run_with_everything(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    """Approvals and failures are in the record; what is given is executed, and nothing else."""
    executed: list[str] = []

    def note(text: str = "") -> str:
        executed.append(text)
        return f"noted {text}"

    model = scripted(
        [
            asks(call("note", "a", text="x"), call("pay", "b", text="y")),
            asks("note", "c", text="z"),
            says("done"),
        ]
    )
    async with stage.worker([note, pay]):
        run = await stage.start(scripted_agent(model, ["note", "pay"]))
        async for event in run.stream():
            if event.type == "permission_requested":
                await run.approve("b", arguments={"text": "less"})
        result = await run.result()
        file = await exported(run, tmp_path / "run.jsonl")
        played = RecordedRun(read_recording(file))
        assert [each.id for each in played.calls] == ["a", "b", "c"]
        assert played.output == "done"
        assert len(executed) == 2

        again = played()
        assert (again.output, again.usage) == (result.output, result.usage)
        assert results(again.messages) == results(result.messages)
        assert len(executed) == 2

        real = played(tools=[note, pay])
        assert results(real.messages) == results(result.messages)
        assert len(executed) == 4

        def change(name: str, arguments: JsonObject) -> GuardrailResult:
            return GuardrailResult(allowed=arguments != {"text": "z"}, reason="no z")

        guarded = played(guardrails=Guardrails(tool=change))
        assert results(guarded.messages)[-1] == "Tool denied by guardrail: no z"


async def test_what_the_record_does_not_have(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted([asks("note", text="x"), says("done")])
    async with stage.worker({"note": str}):
        run = await stage.start(scripted_agent(model, [{"name": "note", "kind": "function"}]))
        await run.steer("hurry")
        await run.result()
    file = await exported(run, tmp_path / "run.jsonl")
    played = RecordedRun(read_recording(file))
    recording = played.recording
    recording.calls.clear()
    with pytest.raises(Diverged, match="asks for note"):
        played()
    recording.replies.clear()
    with pytest.raises(ExecuteError, match="the script has 0 replies"):
        played(options={"max_llm_retries": 1})
    whole = file.read_text()
    for text, why in (
        ("{}", "is not an export"),
        ("", "no line"),
        ("[" * 100_000, "is not an export"),
        (
            whole + json.dumps({"kind": "end", "run": run.id, "status": "done", "result": 1}),
            "is not an export",
        ),
        (whole[: whole.rindex("\n", 0, -1)], "is cut off"),
        ('{"kind": "export", "version": 2}', "of version 2"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=why):
            read_recording(file)
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_recording(tmp_path / "none.jsonl")


async def test_a_run_whose_provider_refused_tools_is_played_again(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    replies = [
        '{"tool": "look", "arguments": {"text": "a"}}',
        '{"tool": "look", "arguments": {"te',
        "{}",
    ]
    model = scripted(without_tools(two_phases(*replies)))
    async with stage.worker({"look": lambda text="": f"saw {text}"}):
        run = await stage.start(scripted_agent(model, ["look"]), tool_protocol="auto")
        reference = await run.result()
    file = await exported(run, tmp_path / "run.jsonl")
    played = await asyncio.to_thread(RecordedRun(read_recording(file)))
    assert played.output == reference.output == "Done"
    assert results(played.messages) == results(reference.messages)
    assert len(results(played.messages)) == 2
