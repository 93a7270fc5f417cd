"""The manual: spelling, headings, pictures, the length and the words of its pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
