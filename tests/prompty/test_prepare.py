"""§12.2: validated inputs, and the three steps together."""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.errors import RenderError
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.prompty.load import load_dict
from perdure.prompty.prepare import prepare, validate_inputs


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        pytest.param({"kind": "string", "default": "d"}, {}, {"x": "d"}, id="default"),
        pytest.param({"kind": "string", "default": "d"}, {"x": "g"}, {"x": "g"}, id="given"),
        pytest.param({"kind": "string", "default": "d"}, {"x": None}, {"x": None}, id="given null"),
        pytest.param({"kind": "integer", "default": 0}, {}, {"x": 0}, id="zero"),
        pytest.param({"kind": "boolean", "default": False}, {}, {"x": False}, id="false"),
        pytest.param({"kind": "string", "default": ""}, {}, {"x": ""}, id="empty"),
        pytest.param({"kind": "string", "default": None}, {}, {}, id="null is no default"),
        pytest.param(
            {"kind": "string", "required": True, "default": "d"},
            {},
            {"x": "d"},
            id="required with default",
        ),
        pytest.param({"kind": "string", "example": "e"}, {}, {}, id="never the example"),
        pytest.param(
            {"kind": "integer"}, {"x": "no number"}, {"x": "no number"}, id="no type checks"
        ),
        pytest.param({"kind": "string"}, {"y": 1}, {"y": 1}, id="undeclared"),
    ],
)
def test_validate_inputs(declared: JsonObject, given: JsonObject, expected: JsonObject) -> None:
    before = dict(given)
    assert validate_inputs(load_dict({"inputs": {"x": declared}}), given) == expected
    assert given == before


def test_a_misspelt_input_is_named_beside_the_missing_one() -> None:
    agent = load_dict({"inputs": [{"name": "request", "kind": "string", "required": True}]})
    said = (
        r"input: request\. The agent does not declare the given 'reqest' \(did you mean "
        r"'request'\?\)$"
    )
    with pytest.raises(RenderError, match=said):
        prepare(agent, {"reqest": "x"})


THREAD = [{"role": "user", "content": "q"}]


@pytest.mark.parametrize(
    ("instructions", "texts"),
    [
        pytest.param("system:\nS", ["S", "q"], id="never mentioned: at the end"),
        pytest.param(
            "system:\nS{% if false %}{{ t }}{% endif %}", ["S"], id="mentioned, but not shown"
        ),
        pytest.param("system:\nS{# {{ t }} #}", ["S", "q"], id="a remark is no mention"),
        pytest.param("system:\nS\n{{ t }}\n", ["S", "q"], id="shown"),
    ],
)
def test_threads_that_the_template_forgets(instructions: str, texts: list[str]) -> None:
    agent = load_dict({"instructions": instructions, "inputs": {"t": {"kind": "thread"}}})
    assert [message.text for message in prepare(agent, {"t": THREAD})] == texts


def test_an_agent_without_inputs() -> None:
    assert prepare(Agent(instructions="user:\n{{ q }}"), {"q": 1}) == [Message.user("1")]
