"""`--mock`: answers in the environment stand for the model's, where a worker is started so."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from perdure.cli.mocks import require_mocks, say_mocks
from perdure.cli.problems import UsageProblem
from perdure.cli.reload import worker_arguments

from .conftest import Cli

MODELLESS = """---
name: mocked
---
system:
Be brief.

user:
Hi
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mocked.prompty").write_text(MODELLESS)
    return tmp_path


def mocked(cli: Cli, folder: Path, *answers: str) -> Cli:
    return Cli({**cli.environment, "DEBUG_MOCK_RESPONSES": json.dumps(answers)}, folder)


async def test_run_takes_them_with_a_worker_of_its_own(cli: Cli, folder: Path) -> None:
    run_id = f"mocked-{uuid.uuid4()}"
    finished = await mocked(cli, folder, "Hello! How can I help you?")(
        "run", "mocked.prompty", "--mock", "--id", run_id
    )
    assert finished.stdout == "Hello! How can I help you?\n", finished.stderr
    assert f"Run {run_id}: mock answers (DEBUG_MOCK_RESPONSES), " in finished.stderr


def test_without_answers_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUG_MOCK_RESPONSES", raising=False)
    with pytest.raises(UsageProblem, match="DEBUG_MOCK_RESPONSES is not set. Expected a JSON list of answers"):
        require_mocks(asked=True, scripted=None, quiet=False)
    with pytest.raises(UsageProblem, match="--mock and --scripted exclude each other"):
        require_mocks(asked=True, scripted="tools.py:script", quiet=False)


def test_answers_without_effect_are_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES_RESEARCHER", "[]")
    require_mocks(asked=False, scripted=None, quiet=True)
    assert capsys.readouterr().err == ""
    require_mocks(asked=False, scripted=None, quiet=False)
    assert "DEBUG_MOCK_RESPONSES is set, and has no effect" in capsys.readouterr().err
    say_mocks(honoured=True)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("DEBUG_MOCK_RESPONSES_RESEARCHER")
    say_mocks(honoured=True)
    assert "DEBUG_MOCK_RESPONSES is not set: models are asked, in spite of --mock" in capsys.readouterr().err


def test_a_supervised_worker_is_started_so() -> None:
    assert worker_arguments(None, None, None, "q", None, 5.0, mock=True)[-1] == "--mock"
