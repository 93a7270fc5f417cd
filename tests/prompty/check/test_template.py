"""What loading accepts is warned of where hardly anybody means it, and refused with `strict`."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import perdure
from perdure.agents import Agent
from perdure.prompty.check.check import check

HONEST = """---
model: {id: m, options: {temperature: 0}}
inputs:
  - {name: question, kind: string}
---
user:
{{question}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.prompty"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (HONEST.replace("temperature", "temprature"), r"a\.prompty:2: model\.options\.temprature.*temperature"),
        (HONEST.replace("inputs:", "imputs:"), r"a\.prompty:3: imputs: .*inputs"),
        (
            HONEST.replace("{{question}}", "{{qestion}}"),
            r"a\.prompty:7: .*'qestion' is not a declared input .*'question'",
        ),
    ],
)
def test_it_is_a_warning_and_with_strict_an_error(file: Path, written: str, said: str) -> None:
    file.write_text(written)
    with pytest.warns(perdure.PromptyWarning, match=said):
        agent = perdure.load(file)
    assert agent.model is not None
    with pytest.warns(perdure.PromptyWarning, match=said):
        perdure.run_input(file, {"question": "?"})
    with pytest.raises(perdure.LoadError, match=said):
        perdure.load(file, strict=True)


def test_an_honest_file_is_loaded_in_silence(file: Path) -> None:
    file.write_text(HONEST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert perdure.load(file, strict=True).inputs


@pytest.mark.parametrize(
    ("key", "known"), [("aproval", "approval"), ("needs_approval", "approval"), ("approval_timeout", "approvalTimeout")]
)
def test_a_misspelt_key_of_a_tools_policy_is_an_error(file: Path, key: str, known: str) -> None:
    said = rf"tools\[0\]\.perdure\.{key}: unknown setting '{key}' \(did you mean '{known}'\?\)\. Expected timeout, "
    tool = {"name": "pack", "kind": "function", "perdure": {key: "always"}}
    written = f"  - name: pack\n    kind: function\n    perdure: {{{key}: always}}\n"
    file.write_text(f"---\nmodel: m\ntools:\n{written}---\nHi.")
    with pytest.raises(perdure.LoadError, match=rf"a\.prompty:6: {said}"):
        perdure.load(file)
    assert [(each.line, each.severity) for each in check(file) if each.field == f"tools[0].perdure.{key}"] == [
        (6, "error")
    ]
    with pytest.raises(perdure.LoadError, match=said):
        perdure.load_dict({"model": "m", "tools": [tool], "instructions": "Hi."})
    with pytest.raises(perdure.LoadError, match=said):
        perdure.agent("m", instructions="Hi.", tools=[tool])


def test_a_recorded_agent_keeps_what_another_version_knows_of_a_policy() -> None:
    recorded = {"tools": [{"name": "pack", "kind": "function", "perdure": {"later": 1}}]}
    assert Agent.model_validate(recorded).model_dump(mode="json", by_alias=True)["tools"][0]["perdure"]["later"] == 1
