"""What loading accepts is warned of where hardly anybody means it, and refused with `strict`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perdure
from perdure.agents import Agent
from perdure.prompty.check.check import check


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.prompty"


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("aproval", "approval"),
        ("needs_approval", "approval"),
        ("approval_timeout", "approvalTimeout"),
    ],
)
def test_a_misspelt_key_of_a_tools_policy_is_an_error(file: Path, key: str, known: str) -> None:
    said = (
        rf"tools\[0\]\.perdure\.{key}: unknown setting '{key}' \(did you mean '{known}'\?\)\. "
        r"Expected timeout, "
    )
    tool = {"name": "pack", "kind": "function", "perdure": {key: "always"}}
    written = f"  - name: pack\n    kind: function\n    perdure: {{{key}: always}}\n"
    file.write_text(f"---\nmodel: m\ntools:\n{written}---\nHi.")
    with pytest.raises(perdure.LoadError, match=rf"a\.prompty:6: {said}"):
        perdure.load(file)
    assert [
        (each.line, each.severity)
        for each in check(file)
        if each.field == f"tools[0].perdure.{key}"
    ] == [(6, "error")]
    with pytest.raises(perdure.LoadError, match=said):
        perdure.load_dict({"model": "m", "tools": [tool], "instructions": "Hi."})
    with pytest.raises(perdure.LoadError, match=said):
        perdure.agent("m", instructions="Hi.", tools=[tool])


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("approval", "always", "function"),
        ("approval", {"by": ["ops"]}, "mcp"),
        ("approval", "${env:PERDURE_UNSET:always}", "openapi"),
        ("approval_timeout", 60, "own"),
        ("idempotent", False, "function"),
        ("needs_approval", True, "function"),
        ("perdue", {"approval": "always"}, "function"),
        ("Perdure", {"approval": "always"}, "function"),
    ],
)
def test_a_policy_outside_of_its_key_is_an_error(
    file: Path, key: str, value: object, kind: str
) -> None:
    tool = {"name": "refund", "kind": kind, key: value}
    file.write_text(f"---\nmodel: m\ntools:\n  - {json.dumps(tool)}\n---\nHi.")
    said = f"'{key}' has no effect here: write a tool's policy under its key `perdure`"
    with pytest.raises(perdure.LoadError, match=rf"a\.prompty:4: tools\[0\]\.{key}: {said}"):
        perdure.load(file)
    found = [each for each in check(file) if each.field == f"tools[0].{key}"]
    assert [(each.line, each.severity) for each in found] == [(4, "error")]
    with pytest.raises(perdure.LoadError, match=said):
        perdure.agent("m", instructions="Hi.", tools=[tool])


def test_an_unset_variable_hides_no_misplaced_policy(file: Path) -> None:
    file.write_text(
        "---\nmodel: m\ntools:\n  - {name: f, approval: '${env:PERDURE_UNSET}'}\n---\nHi."
    )
    assert [each.severity for each in check(file) if "has no effect here" in each.message] == [
        "error"
    ]


def test_a_recorded_agent_keeps_what_another_version_knows_of_a_policy() -> None:
    recorded = {"tools": [{"name": "pack", "kind": "function", "perdure": {"later": 1}}]}
    assert (
        Agent.model_validate(recorded).model_dump(mode="json", by_alias=True)["tools"][0][
            "perdure"
        ]["later"]
        == 1
    )
