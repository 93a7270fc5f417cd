"""`perdure docs`: prints a page of the documentation, which comes with the package."""

from __future__ import annotations

from pathlib import Path

from .console import answer
from .given import Given
from .problems import UsageProblem

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE.parent / "docs", _PACKAGE / "docs")
"""In a clone, and in a wheel."""


def docs(given: Given) -> None:
    """Print the page, or a list of all pages. Raises `UsageProblem` for an unknown page."""
    pages = {path.stem: path for folder in _FOLDERS for path in sorted(folder.rglob("*.md"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in pages.items()}
    if given.page is None:
        for name, text in texts.items():
            answer(f"{name:<20} {text.partition(chr(10))[0].lstrip('# ')}")
        return
    name = Path(given.page).name.removesuffix(".md")
    if name not in texts:
        raise UsageProblem(f"there is no page {given.page!r}. Expected one of: {', '.join(pages)}")
    answer(texts[name].rstrip(), exact=True)
