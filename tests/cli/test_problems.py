"""What the command line says when its arguments or its surroundings are wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from perdure.cli.entry import run
from perdure.cli.run import telling_if_interrupted

from ..support.command_line import AGENT, Cli

ANN = ("--input", "person=Ann")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run",), "Missing argument 'AGENT.prompty'"),
        (("run", "nobody.prompty"), "there is no file 'nobody.prompty'"),
        (("run", "nobody.prompty"), "here: ages.prompty"),
        (("run", "ages.prompty"), "the agent 'ages' needs person. Type: --input person=…"),
        (
            ("run", "ages.prompty", "--input", "person"),
            "expected name=value or name=@file, such as person=…",
        ),
        (
            ("run", "ages.prompty", "--input", "age=3"),
            "the agent has no input 'age', only person, wait",
        ),
        (
            ("run", "ages.prompty", *ANN, "--input", "wait=long"),
            "expected a value of kind float as JSON",
        ),
        (
            ("run", "ages.prompty", "--input", "person=@none.txt"),
            "'person=@none.txt': the file can't be read",
        ),
        (
            ("run", "ages.prompty", "--inputs-json", "tools.py"),
            "--inputs-json 'tools.py': not valid JSON",
        ),
        (
            ("run", "ages.prompty", *ANN, "--tools", "nowhere:a"),
            "--tools: Can't load 'nowhere': no module 'nowhere'",
        ),
        (("run", "ages.prompty", *ANN, "--tools", "tools.py:b"), "No function 'b' in 'tools.py'"),
        (
            ("run", "ages.prompty", *ANN, "--guardrails", "tools.py"),
            "expected a name in it, too: tools.py:name",
        ),
        (
            ("run", "ages.prompty", *ANN, "--guardrails", "tools.py:script"),
            "NAME = Guardrails(tool=function)",
        ),
        (
            ("run", "ages.prompty", *ANN, "--scripted", "tools.py:x"),
            "--scripted: No 'x' in 'tools.py'",
        ),
        (
            ("run", "ages.prompty", *ANN, "--scripted", "none.json"),
            "expected a JSON list of replies",
        ),
        (
            ("run", "ages.prompty", *ANN, "--detach", "--scripted", "tools.py:script"),
            "exclude each other",
        ),
        (
            ("approve", "x", "--arguments", "[]"),
            "expected a JSON object of arguments by name, got list",
        ),
        (("ls", "--status", "happy"), "'happy' is not one of"),
    ],
)
def test_wrong_arguments_end_with_2(
    arguments: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("PERDURE_HOME", str(home))
    with contextlib.chdir(AGENT):
        code = run(arguments)
    stdout, stderr = capsys.readouterr()
    assert text in stderr
    assert (code, stdout) == (2, "")
    assert not home.exists(), "no server is started for what can't begin"


async def test_no_server_reachable(embedded: Cli) -> None:
    finished = await embedded("--address", "127.0.0.1:1", "ls")
    assert finished.code == 1
    assert "No Temporal server reachable at '127.0.0.1:1' (connection refused)" in finished.stderr
    assert "perdure dev" in finished.stderr


async def test_bad_yaml_is_shown_with_its_line(embedded: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.prompty").write_text("---\nname: x\nmodel: {id: m\n---\nhi")
    finished = await embedded("run", str(tmp_path / "bad.prompty"))
    assert finished.code == 1
    assert "bad.prompty:4: error: Invalid frontmatter YAML" in finished.stderr


async def test_an_unknown_run(cli: Cli) -> None:
    finished = await cli("result", "nobody")
    assert finished.code == 1
    assert "there is no run 'nobody' in the namespace 'default' of the server at" in finished.stderr
    assert "`perdure ls`" in finished.stderr


async def test_an_id_that_is_taken(cli: Cli) -> None:
    detached = (
        "run",
        "ages.prompty",
        *ANN,
        "--detach",
        "--id",
        "taken",
        "--task-queue",
        "nobody-polls",
    )
    assert (await cli(*detached)).code == 0
    again = await cli(*detached)
    assert again.code == 1
    assert "the run 'taken' is open" in again.stderr
    assert "perdure watch taken" in again.stderr


def test_who_interrupts_the_start_of_a_run_is_told_its_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(asyncio.CancelledError), telling_if_interrupted("run-7"):
        raise asyncio.CancelledError
    assert "perdure status run-7" in capsys.readouterr().err


async def test_a_namespace_that_does_not_exist(cli: Cli) -> None:
    finished = await cli("--namespace", "nowhere", "run", "ages.prompty", *ANN, "--detach")
    assert finished.code == 1
    assert "Traceback" not in finished.stderr
    assert "nowhere" in finished.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("worker", "--tools", "nowhere:a"),
        ("worker", "--rate", "x"),
        ("run", "none.prompty"),
        ("status", "none"),
    ],
    ids=" ".join,
)
async def test_what_ends_a_command_is_an_error_in_a_log_of_json(
    cli: Cli, command: tuple[str, ...]
) -> None:
    variables = {**cli.environment, "PERDURE_LOG_FORMAT": "json"}
    finished = await Cli(variables)(*command)
    assert finished.code
    said = [json.loads(line) for line in finished.stderr.splitlines()]
    assert (said[-1]["level"], said[-1]["message"].startswith("perdure: ")) == ("error", True)
