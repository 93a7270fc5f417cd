"""The fenced blocks of the manual and what the tests do with each of them: `python -m
tests.examples.manual` prints the counts.

A block is executed, unless it is output (its language is `text` or missing, or its first line has
the word `output`), another framework's code (the first line names it), or marked `not-run: REASON`.
The site and GitHub show only the first word of a block's first line.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("api", "cli", "agent-file", "rest")
"""Pages that programs write: signatures, and files that `test_agent_files.py` runs."""
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.stem not in GENERATED),
]
ELSEWHERE = {"first-hour": "test_first_hour", "coming-from": "test_coming_from"}
"""Folders and pages that a test of their own carries out."""
FRAMEWORKS = (
    *("pydantic-ai", "openai-agents", "langgraph", "prompty", "kaos", "octopus", "temporal"),
)
BLOCK = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    info: str
    """The first line after the language: a file's name, or a mark."""
    text: str

    @property
    def treatment(self) -> str:
        """`executed`, `output`, `other framework` or `not run`."""
        if self.info.startswith("not-run: "):
            return "not run"
        if self.info in FRAMEWORKS:
            return "other framework"
        if self.info == "output" or self.language in ("", "text"):
            return "output"
        return "executed"

    @property
    def part(self) -> str:
        """The part of the manual that the page belongs to."""
        return self.page.parent.name if self.page.parent not in (ROOT, DOCS) else "other pages"

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start()) + 1,
            found[2],
            found[3].strip(),
            textwrap.dedent(found[4]),
        )
        for found in BLOCK.finditer(text)
    ]


def own_test(page: Path) -> str | None:
    """The test that carries the page out by itself, if there is one."""
    return ELSEWHERE.get(page.stem, ELSEWHERE.get(page.parent.name))


def rows() -> Iterator[str]:
    """A table of the counts for each part of the manual."""
    counted = Counter((each.part, each.treatment) for page in PAGES for each in blocks(page))
    columns = ("executed", "output", "other framework", "not run")
    yield f"{'':<14}" + "".join(f"{name:>17}" for name in columns)
    for part in sorted({part for part, _ in counted}):
        yield f"{part:<14}" + "".join(f"{counted[part, name]:>17}" for name in columns)
    total = Counter(treatment for (_, treatment), n in counted.items() for _ in range(n))
    yield f"{'together':<14}" + "".join(f"{total[name]:>17}" for name in columns)


if __name__ == "__main__":
    print(*rows(), sep="\n")
    for each in (each for page in PAGES for each in blocks(page) if each.treatment == "not run"):
        print(f"{each}: {each.info}")
