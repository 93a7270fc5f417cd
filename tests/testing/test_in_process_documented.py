"""The tests that docs/guides/testing-agents.md shows are run, each as it stands there."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.testing.server import read_script

from ..support.documents import ROOT

PAGE = ROOT / "docs/guides/testing-agents.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
TESTS = [block for block in BLOCKS if "def test_" in block and "recorded(" not in block]
RECORDED = [block for block in BLOCKS if "recorded(" in block]
"""They have a fixture, and are run by `test_recorded.py`."""

AGENT = """---
name: weather
model:
  id: any
  connection: {kind: key, apiKey: "${env:NOT_SET_ANYWHERE}"}
inputs:
  question: {kind: string, default: How is Paris?}
tools:
  - name: weather
    kind: function
    parameters:
      city: {kind: string, required: true}
---
user:
{{question}}
"""

TOOLS = """
def weather(city: str) -> str:
    return f"sunny in {city}"
"""


@pytest.fixture
def beside_the_agent(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A folder with the agent and its tools, and an environment that names the session's server."""
    (tmp_path / "weather.prompty").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    yield
    sys.modules.pop("tools", None)


def defined_test(block: str) -> Any:
    """The test function of a block."""
    names: JsonObject = {}
    exec(compile(block, str(PAGE), "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    return test


@pytest.mark.usefixtures("beside_the_agent")
@pytest.mark.parametrize("block", TESTS, ids=lambda block: re.findall(r"def (test_\w+)", block)[0])
async def test_it_passes(block: str) -> None:
    outcome = defined_test(block)()
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.usefixtures("beside_the_agent")
async def test_the_shortest_one_can_fail() -> None:
    with pytest.raises(AssertionError):
        defined_test(TESTS[0].replace("sunny in Paris", "rain in Paris"))()


def test_the_script_in_json_is_one() -> None:
    [written] = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    first, [failed, repeated] = read_script(written)
    assert first == asks(call("weather", "call_1", city="Paris"))
    assert (failed.status, repeated) == (503, says("Sunny."))


def test_the_shortest_one_has_seven_lines() -> None:
    assert len([line for line in TESTS[0].splitlines() if line.strip()]) == 7
    assert max(map(len, TESTS[0].splitlines())) <= 120


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "a script is a list of replies, not dict"),
        ('[{"error": "boom"}]', "reply 1: error: Input should be a valid dictionary, got 'boom'"),
        ('[{}, {"txt": "x"}]', "reply 2: txt: Extra inputs are not permitted, got 'x'"),
        (
            '[[{}, {"tool_calls": [{"id": "a"}]}]]',
            "reply 1, attempt 2: tool_calls.0.name: Field required",
        ),
        ("[3]", "reply 1: expected an object with fields of ScriptedReply, got 3"),
    ],
)
def test_a_wrong_script_is_told_in_a_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        read_script(text)
    assert "\n" not in str(caught.value)
    assert "http" not in str(caught.value)


def test_calls_need_no_id() -> None:
    replies: Any = read_script(
        '[{"tool_calls": [{"name": "f", "arguments": {}}, {"name": "f"}, {"id": "a", "name": '
        '"g"}]}]'
    )
    assert [(each.id, each.arguments) for each in replies[0].tool_calls] == [
        ("call_f", "{}"),
        ("call_f_2", "{}"),
        ("a", "{}"),
    ]
