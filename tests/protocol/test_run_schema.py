"""docs/reference/agent-run.schema.json says what starts a run from another SDK."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from perdure import load_dict, run_input
from perdure.json_types import JsonObject
from perdure.options import RunOptions
from perdure.protocol.run import RunInput

from ..support.documents import ROOT

FILE = ROOT / "docs" / "reference" / "agent-run.schema.json"
VALIDATOR = Draft202012Validator(json.loads(FILE.read_text()))

TOOLS: list[JsonObject] = [
    {
        "name": "f",
        "kind": "function",
        "parameters": [{"name": "x", "kind": "integer"}],
        "bindings": {"x": {"input": "y"}},
    },
    {
        "name": "m",
        "kind": "mcp",
        "serverName": "s",
        "allowedTools": ["a"],
        "approvalMode": {"kind": "always"},
    },
    {"name": "o", "kind": "openapi", "specification": "api.yaml", "perdure": {"timeout": 3}},
    {"name": "p", "kind": "prompty", "path": "p.prompty", "mode": "agentic"},
    {
        "name": "a",
        "kind": "activity",
        "options": {"activity": "x", "taskQueue": "q"},
        "parameters": [],
    },
]
MESSAGES = [{"role": "user", "content": "Hello"}]


def test_the_file_is_current() -> None:
    code = (
        "import sys; sys.path.insert(0, 'docs'); import write_schema; "
        "sys.stdout.write(write_schema.text())"
    )
    written = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert written == FILE.read_text(), "type: make docs"


def test_its_examples_are_inputs() -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)
    for example in VALIDATOR.schema["examples"]:
        VALIDATOR.validate(example)
        RunInput.model_validate(example)


def test_what_run_input_writes_fits() -> None:
    agent = load_dict(
        {
            "name": "all",
            "model": {"id": "m", "options": {"topP": 1}},
            "tools": TOOLS,
            "outputs": [{"name": "x"}],
        }
    )
    argument = run_input(agent, {"y": 1}, messages=MESSAGES, options=RunOptions(max_iterations=3))
    VALIDATOR.validate(
        {name: value for name, value in argument.items() if name not in ("carried",)}
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": MESSAGES},
        {"agent": {}},
        {"agent": {}, "messages": [{"role": "robot", "content": "x"}]},
        {"agent": {}, "messages": MESSAGES, "options": {"max_iterations": 0}},
        {"agent": {"model": {"id": 1}}, "messages": MESSAGES},
        {"agent": {"tools": [{"kind": "prompty", "name": "p"}]}, "messages": MESSAGES},
    ],
)
def test_it_refuses_what_the_workflow_refuses(wrong: JsonObject) -> None:
    assert not VALIDATOR.is_valid(wrong)
    with pytest.raises(ValueError, match="validation error"):
        RunInput.model_validate(wrong)
