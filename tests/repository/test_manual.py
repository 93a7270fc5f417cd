"""The manual: spelling, headings, pictures, the length and the words of its pages; what code and
commands in it name exists.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from perdure.cli.app import TableCommand
from perdure.cli.table import COMMANDS, Command

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
GENERATED = {"api.md", "cli.md", "agent-file.md", "rest.md"}
BY_HAND = [page for page in PAGES if page.name not in GENERATED]
BLOCK = re.compile(r"^ *```(\w*)([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
TABLE_OF_SERVERS = re.compile(r"^\| \[?`.*servers/.*\n", re.MULTILINE)
"""Rows that a program writes into the page on providers."""
MISSPELT_ON_PURPOSE = "temprature,aproval,longwinded"
MOST_WORDS = 60_000
LIMITS = {
    "what": (r"\bwhat\b", 40),
    "words of telling": (r"\b(?:told|said|says|tells)\b", 5),
    "is no": (r"(?<!there )\b(?:is|are) no\b(?! longer)", 2),
}
"""The most of each in 10,000 words."""


def prose(page: Path) -> str:
    return TABLE_OF_SERVERS.sub("", BLOCK.sub("", page.read_text(encoding="utf-8")))


def blocks(*languages: str) -> Iterator[tuple[Path, str, str]]:
    """Of all pages: the page, the rest of the block's first line, and its text."""
    for page in PAGES:
        for language, info, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in languages:
                yield page, info.strip(), textwrap.dedent(text)


def test_the_spelling() -> None:
    command = [sys.executable, "-m", "codespell_lib", "-L", MISSPELT_ON_PURPOSE]
    found = subprocess.run(
        [*command, *map(str, PAGES), "README.md"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.stdout == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_headings_go_down_by_one(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert text.startswith("# ")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_each_picture_has_a_text_in_its_place() -> None:
    pictures = [
        (page, text)
        for page in [*PAGES, ROOT / "README.md"]
        for text in re.findall(r"!\[([^\]]*)\]", page.read_text(encoding="utf-8"))
    ]
    assert [page for page, text in pictures if len(text) < 10] == []


def test_a_name_of_a_page_stands_for_one_page() -> None:
    """`perdure docs NAME` prints it."""
    names = [page.stem for page in PAGES]
    assert sorted(names) == sorted(set(names))


def test_the_site_lists_every_page() -> None:
    listed = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES)


def test_the_manual_keeps_to_its_length_and_its_words() -> None:
    text = "\n".join(map(prose, BY_HAND))
    count = sum(any(map(str.isalnum, each)) for each in text.split())
    assert count <= MOST_WORDS, f"{count:,} words by hand"
    found = {
        name: len(re.findall(pattern, text, re.IGNORECASE)) * 10_000 / count
        for name, (pattern, _) in LIMITS.items()
    }
    assert all(found[name] <= most for name, (_, most) in LIMITS.items()), found


def test_code_compiles_and_names_of_perdure_exist() -> None:
    for page, info, text in blocks("python"):
        if page.name in GENERATED or (info and not info.endswith((".py", "more"))):
            continue  # signatures, and what another framework needs
        compile(text, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perdure"):
                names = dir(importlib.import_module(str(node.module)))
                assert {each.name for each in node.names} <= set(names), page


def test_files_in_yaml_are_read() -> None:
    for page, _, text in blocks("yaml"):
        if page.name in GENERATED:  # their files are run by tests
            continue
        list(yaml.safe_load_all(re.sub(r"\A---\n(.*?)^---\n.*", r"\1", text, flags=re.S | re.M)))


def typed() -> Iterator[tuple[str, list[str]]]:
    """Each `perdure …` of a console, with its page."""
    for page, _, text in blocks("console"):
        for line in re.findall(r"^ *\$ ((?:.*\\\n)*.*)", text, re.MULTILINE):
            words = shlex.split(line.replace("\\\n", ""), comments=True)
            for start, word in enumerate(words):
                if word == "perdure" and start + 1 < len(words):
                    rest = words[start + 1 :]
                    ends = [n for n, each in enumerate(rest) if each in ("|", ">", "&", "&&", "2>")]
                    yield page.name, rest[: min(ends, default=len(rest))]


def options_of(command: Command) -> set[str]:
    made = TableCommand("any", command)
    return {
        name
        for each in made.params
        if isinstance(each, click.Option)
        for name in (*each.opts, *each.secondary_opts)
    }


def test_commands_and_their_options_exist() -> None:
    wrong = []
    for page, words in typed():
        name, *rest = [word for word in words if word not in ("[", "]")]
        if name in ("--version", "--help"):
            continue
        command = COMMANDS.get(name)
        if command is not None and rest and rest[0] in command.subcommands():
            command = command.subcommands()[rest[0]]
        if command is None:
            wrong.append(f"{page}: perdure {name}")
            continue
        given = {word.partition("=")[0].strip("[]") for word in rest if word.startswith("--")}
        shown = options_of(command) | {"--help", "--"}
        wrong += [f"{page}: perdure {name} {option}" for option in given - shown]
    assert wrong == []
