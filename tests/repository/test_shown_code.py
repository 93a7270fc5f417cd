"""The manual shows only commands, options and Python names that perdure has."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

from perdure.cli.app import TableCommand
from perdure.cli.table import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md"))]
GENERATED = ROOT / "docs" / "reference" / "api.md"
"""Has signatures in its blocks."""
BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SEPARATORS = {"|", "||", "&&", ";", "&", ">", "<", "2>", "2>&1", ">>"}


def blocks(page: Path, language: str) -> Iterator[str]:
    for indent, found, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if found == language:
            yield dedent(text) if indent else text


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each perdure command that a console block types."""
    for text in blocks(page, "console"):
        for line in text.replace("\\\n", " ").splitlines():
            if not line.startswith("$ "):
                continue
            words = shlex.split(line[2:].replace("$(", " ").replace(")", " "), comments=True)
            for at, word in enumerate(words):
                if word.rpartition("/")[2] == "perdure":
                    rest = words[at + 1 :]
                    end = next((n for n, each in enumerate(rest) if each in SEPARATORS), len(rest))
                    yield rest[:end]


@cache
def options_of(*names: str) -> set[str]:
    """All options of a command, or of a subcommand."""
    of = COMMANDS[names[0]]
    for name in names[1:]:
        of = of.subcommands()[name]
    parameters = TableCommand(names[-1], of).params
    return {"--help", "-h", *(each for of in parameters for each in (*of.opts, *of.secondary_opts))}


def unknown_options(words: list[str]) -> list[str]:
    if words[0] not in COMMANDS:
        return [words[0]]
    count = 2 if COMMANDS[words[0]].commands else 1
    known = options_of(*words[:count])
    given = [each.partition("=")[0] for each in words[count:] if re.match(r"--?[a-z]", each)]
    return [each for each in given if each not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page: Path) -> None:
    wrong = [
        f"perdure {shlex.join(words)}: {each}"
        for words in commands(page)
        if words and not words[0].startswith(("-", "…"))
        for each in unknown_options(words)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "page", [each for each in PAGES if each != GENERATED], ids=lambda page: page.name
)
def test_python(page: Path) -> None:
    """Blocks parse, and what they import of perdure is there."""
    for text in blocks(page, "python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perdure"):
                module = import_module(node.module or "")
                missing = [each.name for each in node.names if not hasattr(module, each.name)]
                assert missing == [], f"{node.module} has no {missing}"
