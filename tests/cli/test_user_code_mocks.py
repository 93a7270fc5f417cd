"""`--mock`: answers in the environment stand for the model's, where a worker is started so."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from perdure.cli.given import Given
from perdure.cli.problems import UsageProblem
from perdure.cli.user_code import require_mocks, say_mocks

from ..support.command_line import Cli

KAOS = """---
name: mocked
model: {id: any, connection: {kind: key, apiKey: "${env:KEY_OF_NO_MODEL}"}}
metadata: {perdure: {toolProtocol: json}}
tools:
  - {name: echo, kind: function, parameters: [{name: text, kind: string}]}
---
system:
You are a helpful agent

user:
Say hello
"""
TOOLS = """def echo(text: str) -> str:
    return text
"""
ANSWERS = (
    r'["{\"tool\": \"echo\", \"arguments\": {\"text\": \"hello\"}}", "{}", "The echo returned: '
    r'hello"]'
)


async def test_run_takes_them_with_a_worker_of_its_own(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mocked.prompty").write_text(KAOS)
    (tmp_path / "tools.py").write_text(TOOLS)
    commands = Cli({**cli.environment, "DEBUG_MOCK_RESPONSES": ANSWERS}, tmp_path)
    run_id = f"mocked-{uuid.uuid4()}"
    finished = await commands(
        "run", "mocked.prompty", "--mock", "--tools", "tools.py:echo", "--id", run_id
    )
    assert finished.stdout == "The echo returned: hello\n", finished.stderr
    assert "KEY_OF_NO_MODEL" not in finished.stderr, "no model is asked"
    assert f"Run {run_id}: mock answers (DEBUG_MOCK_RESPONSES), " in finished.stderr
    assert [line for line in finished.stderr.splitlines() if line.startswith("    ")] == [
        "    step 1 of 5",
        "    → hello",
    ]


async def test_a_conversation_goes_on_with_them(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mocked.prompty").write_text(KAOS)
    (tmp_path / "tools.py").write_text(TOOLS)
    id = f"mocked-{uuid.uuid4().hex[:8]}"
    commands = Cli({**cli.environment, "DEBUG_MOCK_RESPONSES": ANSWERS}, tmp_path)
    begun = await commands(
        "chat", "mocked.prompty", "--mock", "--tools", "tools.py:echo", "--session", id, "-m", "Hi"
    )
    assert begun.stdout == "The echo returned: hello\n", begun.stderr
    commands = Cli({**cli.environment, "DEBUG_MOCK_RESPONSES": '["{}", "Again"]'}, tmp_path)
    more = await commands("chat", "--session", id, "-m", "Hi", "--yes")
    assert (more.stdout, "has no effect" in more.stderr) == ("Again\n", False), more.stderr


def test_without_answers_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUG_MOCK_RESPONSES", raising=False)
    with pytest.raises(
        UsageProblem, match="DEBUG_MOCK_RESPONSES is not set. Expected a JSON list of answers"
    ):
        require_mocks(Given(mock=True))
    with pytest.raises(UsageProblem, match="--mock and --scripted exclude each other"):
        require_mocks(Given(mock=True, scripted="tools.py:script"))


def test_answers_without_effect_are_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES_RESEARCHER", "[]")
    say_mocks(honoured=False)
    assert "DEBUG_MOCK_RESPONSES is set, and has no effect" in capsys.readouterr().err
    say_mocks(honoured=True)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("DEBUG_MOCK_RESPONSES_RESEARCHER")
    say_mocks(honoured=True)
    assert (
        "DEBUG_MOCK_RESPONSES is not set: models are asked, in spite of --mock"
        in capsys.readouterr().err
    )
