"""Builds the site of the manual into site/: `make docs`. Raises when a link leads nowhere.

The pages link to sources of the repository; the site has a page for each of these. The pictures and
files that pages show are copied as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STAGE = ROOT / "build" / "manual"
SOURCES = STAGE / "sources"
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")
FENCE = re.compile(r"\A(```\w*).*")
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".prompty": "yaml", ".yaml": "yaml", ".toml": "toml", ".txt": "text"}


def build() -> None:
    """Copy all, then let Zensical build it. Raises `CalledProcessError` for a broken link."""
    stage()
    program = Path(sys.executable).with_name("zensical")
    subprocess.run([program, "build", "--clean", "--strict"], cwd=ROOT, check=True)


def stage() -> None:
    """Fill `STAGE`: the pages, and a page for each source that one of them links to. Raises
    `FileNotFoundError` for a source that is not there.
    """
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(DOCS, STAGE, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    waiting = [(page, STAGE / page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    done: set[Path] = set()
    while waiting:
        source, target = waiting.pop()
        target.parent.mkdir(parents=True, exist_ok=True)
        is_page = source.suffix == ".md"
        text, outside = _linked(source, target) if is_page else (_shown(source), set())
        target.write_text(text, encoding="utf-8")
        waiting += [(each, _source_page(each)) for each in outside - done]
        done |= outside


def _linked(page: Path, target: Path) -> tuple[str, set[Path]]:
    """The page with its links as they are on the site, and the sources that it links to."""
    outside: set[Path] = set()

    def led(match: re.Match[str]) -> str:
        path = (page.parent / match[2]).resolve()
        if path.is_relative_to(DOCS):
            there = STAGE / path.relative_to(DOCS)
        else:
            if not (path.is_relative_to(ROOT) and path.exists()):
                raise FileNotFoundError(f"{page}: there is no {match[2]} in this repository")
            there = _source_page(path)
            outside.add(path)
        return match[1] + os.path.relpath(there, target.parent)

    parts = BLOCK.split(page.read_text(encoding="utf-8"))
    text = "".join(
        FENCE.sub(r"\1", part) if part.startswith("```") else LINK.sub(led, part) for part in parts
    )
    return text if page.is_relative_to(DOCS) else UNSEARCHED + text, outside


def _source_page(path: Path) -> Path:
    name = path.relative_to(ROOT)
    return SOURCES / name if path.suffix == ".md" else SOURCES / f"{name}.md"


def _shown(path: Path) -> str:
    """A page for a file that is not a page itself, or for a folder."""
    head = f"{UNSEARCHED}# {path.relative_to(ROOT)}\n\n"
    if path.is_dir():
        found = (each for each in path.rglob("*.*") if "__pycache__" not in each.parts)
        files = sorted(each.relative_to(path) for each in found)
        return head + "\n".join(f"- `{each}`" for each in files) + "\n"
    fence = f"`````{LANGUAGES.get(path.suffix, 'text')}"
    return f"{head}{fence}\n{path.read_text(encoding='utf-8')}\n`````\n"


if __name__ == "__main__":
    build()
