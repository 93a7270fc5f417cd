"""What goes wrong in a tool, and what becomes of a run, is logged; what a tool prints is not in the
answer.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from perdure import tool
from perdure.cli.command import configure
from perdure.cli.problems import UsageProblem
from perdure.client import RunHandle
from perdure.errors import RunError
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from ..support.waiting import asked

SECRET = "canary-5f0c9d27-of-a-tool"

AGENT = """\
---
name: noisy
model: {id: any, provider: openai}
tools:
  - {name: look, kind: function, parameters: []}
---
user:
Look.
"""
TOOLS = """\
import os
import subprocess
import sys

print("printed while the module is imported")


def look() -> str:
    print("printed by the tool")
    subprocess.run([sys.executable, "-c", "print('printed by a child process')"], check=True)
    return {}["nokey " + os.environ["LOOK_API_KEY"]]
"""
SCRIPT = [{"tool_calls": [{"id": "call_1", "name": "look", "arguments": {}}]}, {"text": "seen"}]


@pytest.fixture
def noisy(tmp_path: Path) -> list[str]:
    """`perdure run` with a tool that prints, and then raises."""
    (tmp_path / "noisy.prompty").write_text(AGENT)
    (tmp_path / "noisy.py").write_text(TOOLS)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    paths = [str(tmp_path / name) for name in ("noisy.prompty", "noisy.py", "script.json")]
    return ["run", paths[0], "--tools", f"{paths[1]}:look", "--scripted", paths[2]]


async def test_a_tool_that_prints_and_raises(cli: Cli, noisy: list[str]) -> None:
    finished = await Cli({**cli.environment, "LOOK_API_KEY": SECRET})(
        *noisy, "--id", "noisy-1", "--json"
    )
    assert finished.code == 0, finished.stderr
    answer = json.loads(finished.stdout)
    assert answer["output"] == "seen"
    for place in ("while the module is imported", "by the tool", "by a child process"):
        assert f"printed {place}" in finished.stderr
    (result,) = [message for message in answer["messages"] if message["role"] == "tool"]
    assert (
        result["parts"][0]["value"]
        == "Error: Tool 'look' failed: KeyError: 'nokey ${env:LOOK_API_KEY}'"
    )
    assert re.search(
        r"ERROR perdure.tools: Tool 'look' raised KeyError: .* at .*noisy\.py:11 \(run noisy-1,",
        finished.stderr,
    )
    assert "attempt 1)\nTraceback (most recent call last):" in finished.stderr
    assert 'return {}["nokey "' in finished.stderr
    assert SECRET not in finished.stdout + finished.stderr
    assert "\x1b" not in finished.stderr


async def test_a_log_of_json_objects(cli: Cli, noisy: list[str]) -> None:
    options = ("--log-format", "json", "--log-level", "debug", "--id", "noisy-2")
    finished = await Cli({**cli.environment, "LOOK_API_KEY": SECRET})(*noisy, *options)
    assert (finished.code, finished.stdout) == (0, "seen\n"), finished.stderr
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("printed ")]
    records = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in records)
    (raised,) = [record for record in records if record["logger"] == "perdure.tools"]
    assert {key: raised[key] for key in ("level", "run", "tool", "call", "attempt")} == {
        "level": "error",
        "run": "noisy-2",
        "tool": "look",
        "call": "call_1",
        "attempt": 1,
    }
    assert "Traceback" in raised["exception"]
    assert any(record["message"].startswith("Run noisy-2 is done") for record in records)
    assert SECRET not in finished.stderr


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_LOG_LEVEL", "loud")
    with pytest.raises(
        UsageProblem,
        match="PERDURE_LOG_LEVEL is 'loud', expected one of: debug, info, warning, error",
    ):
        configure("error")


@tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


async def test_each_run_has_its_lines_once(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a cache, each workflow task replays the run: no line comes twice all the same."""
    caplog.set_level(logging.INFO, "perdure")
    model = scripted([asks(call("pay", amount=5)), [ScriptedReply(status=503), says("Paid.")]])
    broken = scripted([ScriptedReply(status=401)])
    declared = {
        "name": "pay",
        "kind": "function",
        "parameters": [{"name": "amount", "kind": "integer"}],
    }
    async with stage.worker([pay], max_cached_workflows=0):
        run = await stage.start(scripted_agent(model, [declared]))
        await asked(run)
        await run.approve("call_pay", by="ann")
        await run.result()
        failing = await stage.start(scripted_agent(broken))
        with pytest.raises(RunError):
            await failing.result()
        ended = await stage.start(scripted_agent(model, [declared]))
        await asked(ended)
        await ended.cancel()
        with pytest.raises(RunError):
            await ended.result()
    said = [
        record.getMessage()
        for record in caplog.records
        if record.name in ("perdure.runs", "perdure.worker")
    ]
    tried_again = sum([await _tasks_tried_again(each) for each in (run, failing, ended)])
    for expected in (
        f"Run {run.id} begins, on the task queue {stage.task_queue!r}",
        f"Run {run.id} waits for an approval of the call call_pay of tool 'pay'",
        f"Run {run.id} goes on: the call call_pay was approved by ann (claimed)",
        f"Run {run.id} tries a model call again",
        f"Run {run.id} is done: 2 iterations",
        f"Run {failing.id} begins",
        f"Run {failing.id} failed (execute): LLM call failed",
        f"Run {ended.id} is cancelled",
        f"The worker on the task queue {stage.task_queue!r} begins",
        f"The worker on the task queue {stage.task_queue!r} takes no new tasks",
        f"The worker on the task queue {stage.task_queue!r} is done",
    ):
        times = len([text for text in said if text.startswith(expected)])
        assert 1 <= times <= 1 + tried_again, (expected, said)
    assert {
        getattr(record, "run", None) for record in caplog.records if record.name == "perdure.runs"
    } == {
        run.id,
        failing.id,
        ended.id,
    }


async def _tasks_tried_again(run: RunHandle) -> int:
    """Workflow tasks that the server gave to the worker once more, since it was too busy to answer
    in time.
    """
    history = await run._client.get_workflow_handle(run.id).fetch_history()
    again = (
        EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    )
    return len([event for event in history.events if event.event_type in again])
