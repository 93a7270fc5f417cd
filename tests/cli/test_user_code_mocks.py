"""`--mock`: answers in the environment stand for the model's, where a worker is started so."""

from __future__ import annotations

import pytest

from perdure.cli.user_code import say_mocks


def test_answers_without_effect_are_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES_RESEARCHER", "[]")
    say_mocks(honoured=False)
    assert "DEBUG_MOCK_RESPONSES is set and has no effect" in capsys.readouterr().err
    say_mocks(honoured=True)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("DEBUG_MOCK_RESPONSES_RESEARCHER")
    say_mocks(honoured=True)
    assert (
        "DEBUG_MOCK_RESPONSES is not set: --mock has no effect, and models are called"
        in capsys.readouterr().err
    )
