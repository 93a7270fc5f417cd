"""What `DEBUG_MOCK_RESPONSES` may hold, and whose answers it has."""

from __future__ import annotations

import pytest

from perdure.errors import ConfigurationError
from perdure.settings.mocks import MAX_BYTES, is_set, mock_responses, read_responses, variable_of


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ('["{}", "Hello! How can I help you?"]', ["{}", "Hello! How can I help you?"]),
        ("[]", []),
        ('"Hello"', ["Hello"]),
        (
            '{"tool": "echo", "arguments": {"text": "ä"}}',
            ['{"tool": "echo", "arguments": {"text": "ä"}}'],
        ),
        ("42", ["42"]),
        ('["a", {"tool": "echo"}, 1]', ["a", '{"tool": "echo"}', "1"]),
        ("Hello there", ["Hello there"]),
        ('["cut', ['["cut']),
        ("[" * 100_000, ["[" * 100_000]),
    ],
    ids=[
        "list",
        "empty list",
        "text",
        "object",
        "number",
        "mixed",
        "no JSON",
        "cut JSON",
        "nested too deeply",
    ],
)
def test_the_forms_of_the_variable(text: str, answers: list[str]) -> None:
    assert read_responses(text) == answers


def test_an_agent_has_its_own_variable_and_else_the_common_one() -> None:
    environment = {"DEBUG_MOCK_RESPONSES": '["all"]', "DEBUG_MOCK_RESPONSES_TEAM_LEAD": '["mine"]'}
    assert variable_of("team-lead") == "DEBUG_MOCK_RESPONSES_TEAM_LEAD"
    assert mock_responses(environment, "team-lead") == ["mine"]
    assert mock_responses(environment, "other") == ["all"]


def test_a_called_agent_takes_none_of_its_callers_answers() -> None:
    environment = {
        "DEBUG_MOCK_RESPONSES": '["all"]',
        "DEBUG_MOCK_RESPONSES_RESEARCHER": '["found"]',
    }
    assert mock_responses(environment, "researcher", is_called=True) == ["found"]
    assert mock_responses(environment, "writer", is_called=True) is None


def test_nothing_set_means_no_mocks() -> None:
    assert mock_responses({"DEBUG_MOCK_RESPONSES": ""}, "any") is None
    assert not is_set({"DEBUG_MOCK_RESPONSES": "", "PATH": "x"})
    assert is_set({"DEBUG_MOCK_RESPONSES_RESEARCHER": "[]"})


def test_text_that_is_none_is_repaired_and_too_much_is_refused() -> None:
    assert mock_responses({"DEBUG_MOCK_RESPONSES": "a\udcffb"}, "any") == ["a\ufffdb"]
    with pytest.raises(ConfigurationError, match="262,144 are possible"):
        mock_responses({"DEBUG_MOCK_RESPONSES": "x" * (MAX_BYTES + 1)}, "any")
