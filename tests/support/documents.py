"""The repository's files, and the pages of its manual."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def manual(name: str) -> str:
    """The text of a page, named by its place in `docs`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")
