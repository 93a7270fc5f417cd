"""The pages of the documentation come with the package, and what cites one can be followed; the
help's groups.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import perdure.cli
from perdure.cli.entry import run
from perdure.cli.table import COMMANDS, SERVER, Command

from ..support.command_line import Cli
from ..support.documents import ROOT


def test_a_wheel_has_the_pages(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    command = [sys.executable, "-m", "perdure.cli", "docs", "providers"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    printed = subprocess.run(
        command, cwd=installed, env=environment, check=True, capture_output=True, text=True
    )
    assert printed.stdout == (ROOT / "docs" / "reference" / "providers.md").read_text()


def test_messages_and_docstrings_cite_pages_by_the_command_that_prints_them() -> None:
    texts = {path: path.read_text() for path in (ROOT / "perdure").rglob("*.py")}
    cited = {
        name
        for text in texts.values()
        for name in re.findall(r"perdure docs ([a-z][a-z0-9-]+)", text)
    }
    assert {"providers", "kaos"} <= cited
    assert cited - {page.stem for page in (ROOT / "docs").rglob("*.md")} == set()
    assert [
        str(path) for path, text in texts.items() if re.search(r"docs/[a-z0-9-]+\.md", text)
    ] == []


async def test_an_unknown_page(cli: Cli) -> None:
    assert "tools" in (await cli("docs")).stdout
    finished = await cli("docs", "nothing")
    assert (finished.code, "there is no page 'nothing'. Expected one of: " in finished.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_each_command_of_the_table_has_a_function(command: Command) -> None:
    for each in command.subcommands().values() or [command]:
        module, _, name = each.function.partition(":")
        assert callable(getattr(import_module(f"perdure.cli.{module}"), name))


def test_commands_read_no_value_that_the_table_lacks() -> None:
    """A `Given` answers None for an unknown name, so a misspelt one would never be noticed."""
    commands = [sub for each in COMMANDS.values() for sub in (each, *each.subcommands().values())]
    parameters = [*SERVER, *(of for each in commands for of in each.all_parameters())]
    known = {"options", "command", *(each.name for each in parameters)}
    found = {
        f"{path.name}:{read.lineno} {read.attr}"
        for path in Path(perdure.cli.__file__).parent.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for given in function.args.args
        if given.annotation is not None and ast.unparse(given.annotation) == "Given"
        for read in ast.walk(function)
        if isinstance(read, ast.Attribute)
        and isinstance(read.value, ast.Name)
        and read.value.id == given.arg
        and read.attr not in known
    }
    assert found == set()


def test_the_options_of_a_run_are_those_of_the_model() -> None:
    code = (
        "import sys; sys.path.insert(0, 'docs'); import write_cli; print(write_cli.table(), end='')"
    )
    command = [sys.executable, "-c", code]
    written = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    table = Path(perdure.cli.__file__).with_name("run_options.json")
    assert written == table.read_text(), "type: make docs"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_name_of_the_code_stands_in_the_help_of_an_option(command: Command) -> None:
    texts = [each.help for each in command.all_parameters()]
    assert [
        text for text in texts if re.search(r"(?<![\w.`{/])[a-z]+_[a-z_]+(?![\w(`}]|\.\w)", text)
    ] == []


def test_the_help_lists_each_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(COMMANDS)
