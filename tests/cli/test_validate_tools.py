"""`perdure validate --tools` compares the declared tools with their functions before any run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.guardrails import instruct_functions

AGENT = """---
name: librarian
model: {id: m, provider: openai}
tools:
  - name: find_books
    kind: function
%s---
system:
You are a librarian.
"""
TOOLS = """
from perdure import tool


@tool
def find_books(topic: str) -> list[str]:
    \"\"\"Finds books on a topic.\"\"\"
    return []
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def validate(folder: Path, parameters: str, *arguments: str) -> tuple[int, str, str]:
    (folder / "agent.prompty").write_text(AGENT % parameters)
    done = CliRunner().invoke(app, ["validate", "agent.prompty", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_declaration_by_name_alone_is_completed(folder: Path) -> None:
    code, stdout, stderr = validate(folder, "", "--tools", "tools.py", "--show-request")
    assert code == 0, stderr
    function = json.loads(stdout)["tools"][0]["function"]
    assert code == 0
    assert function["description"] == "Finds books on a topic."
    assert list(function["parameters"]["properties"]) == ["topic"]


def test_a_contradiction_is_told_with_both(folder: Path) -> None:
    parameters = "    parameters:\n      - {name: subject, kind: string, required: true}\n"
    code, _, stderr = validate(folder, parameters, "--tools", "tools.py")
    assert code == 1
    assert "agent.prompty:5: error" in stderr
    assert "'subject' is declared, and the function does not have it" in stderr
    assert "find_books(topic: string)" in stderr


def test_a_function_that_is_not_there(folder: Path) -> None:
    (folder / "tools.py").write_text(TOOLS.replace("find_books", "find_authors"))
    code, _, stderr = validate(folder, "", "--tools", "tools.py")
    assert code == 1
    assert "no function is named 'find_books'" in stderr
    assert "find_authors" in stderr


def test_without_tools_nothing_is_compared(folder: Path) -> None:
    assert validate(folder, "")[0] == 0


def test_with_strict_a_warning_is_an_error(folder: Path) -> None:
    misspelt = AGENT.replace("---\nname", "---\ndescripton: finds books\nname", 1) % ""
    (folder / "agent.prompty").write_text(misspelt)
    lenient, strict = (
        CliRunner().invoke(app, ["validate", "agent.prompty", *more]) for more in ([], ["--strict"])
    )
    assert (lenient.exit_code, strict.exit_code) == (0, 1)
    assert "agent.prompty:2: warning: descripton: unknown property" in lenient.stderr
    assert "agent.prompty:2: error: descripton: unknown property" in strict.stderr


def test_a_right_file_is_right_with_strict_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-opens-nothing")
    code, _, stderr = validate(folder, "", "--strict", "--tools", "tools.py")
    assert (code, stderr) == (0, "agent.prompty: no problems found\n")
    monkeypatch.delenv("OPENAI_API_KEY")
    code, _, stderr = validate(folder, "", "--strict", "--tools", "tools.py")
    assert (code, stderr.splitlines()[0]) == (
        0,
        "OPENAI_API_KEY is not set here: a worker needs it for openai",
    )


def test_a_function_that_no_tool_declares_is_named_with_the_nearest(folder: Path) -> None:
    (folder / "tools.py").write_text(TOOLS.replace("find_books", "find_book"))
    assert (
        "function 'find_book', which the agent does not declare (did you mean 'find_books'?)"
        in "".join(validate(folder, "", "--tools", "tools.py")[1:])
    )
    (folder / "tools.py").write_text(f"{TOOLS}\n\n@tool\ndef lend() -> None:\n    'Lends.'\n")
    code, _, stderr = validate(folder, "", "--tools", "tools.py")
    assert code == 0
    assert (
        "warning: tools: --tools has a function 'lend', which the agent does not declare. The "
        "model is not" in stderr
    )


def test_the_functions_that_an_agent_names_are_looked_for_in_tools(folder: Path) -> None:
    settings = "metadata: {perdure: {instructionsBy: about}}\n"
    missing = (
        "no function of --tools named 'about' has the decorator that instructionsBy needs; there: "
    )
    assert missing in validate(folder, settings, "--tools", "tools.py")[2]
    about = (
        "import perdure\n\n\n@perdure.instructions\ndef about() -> str:\n    return 'Books are in "
        "Oslo.'\n"
    )
    (folder / "tools.py").write_text(about + TOOLS)
    code, _, stderr = validate(folder, settings, "--tools", "tools.py")
    instruct_functions.pop("about")
    assert (code, missing in stderr) == (0, False)


def test_a_webhook_without_its_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "metadata: {perdure: {webhooks: ['https://example.com/x']}}\n"
    why = (
        "no notice will be sent: the variable PERDURE_WEBHOOK_SECRET has no secret: expected "
        "`whsec_`"
    )
    assert why in validate(folder, settings)[2]
    monkeypatch.setenv("PERDURE_WEBHOOK_SECRET", "whsec_" + "A" * 32)
    assert why not in validate(folder, settings)[2]


def test_a_handoff_to_a_file_above_says_where_to_begin(folder: Path) -> None:
    (folder / "team").mkdir()
    (folder / "triage.prompty").write_text(
        AGENT % "metadata: {perdure: {handoffs: [team/billing.prompty]}}\n"
    )
    billing = AGENT % "metadata: {perdure: {handoffs: [../triage.prompty]}}\n"
    (folder / "team" / "billing.prompty").write_text(billing)
    alone, both = (
        CliRunner().invoke(app, ["validate", name, "--tools", "tools.py"])
        for name in ("team/billing.prompty", "triage.prompty")
    )
    assert (alone.exit_code, both.exit_code) == (1, 0), both.stderr
    assert (
        f"Begin with an agent above both: `perdure validate {folder}/triage.prompty`"
        in alone.stderr
    )
