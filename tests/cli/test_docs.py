"""The pages of the documentation come with the package, and what cites one can be followed; the
help's groups.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from perdure.cli.app import ENTRIES, Entry, load_command
from perdure.cli.entry import run

from ..support.command_line import Cli

ROOT = Path(__file__).parents[2]


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
    assert printed.stdout == (ROOT / "docs" / "providers.md").read_text()


def test_messages_and_docstrings_cite_pages_by_the_command_that_prints_them() -> None:
    texts = {path: path.read_text() for path in (ROOT / "perdure").rglob("*.py")}
    cited = {
        name
        for text in texts.values()
        for name in re.findall(r"perdure docs ([a-z][a-z0-9-]+)", text)
    }
    assert {"providers", "kaos"} <= cited
    assert {name for name in cited if not (ROOT / "docs" / f"{name}.md").is_file()} == set()
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


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_the_help_says_of_each_command_what_its_function_says(entry: Entry) -> None:
    command = load_command(entry)
    assert command.name == entry.name
    assert " ".join(command.help.partition("\n\n")[0].split()) == entry.help


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_no_name_of_the_code_stands_in_the_help_of_an_option(entry: Entry) -> None:
    texts = [text for each in load_command(entry).params if (text := getattr(each, "help", None))]
    assert [
        text for text in texts if re.search(r"(?<![\w.`{/])[a-z]+_[a-z_]+(?![\w(`}]|\.\w)", text)
    ] == []


def test_the_help_lists_each_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(ENTRIES)
