"""`perdure docs`: print a page of the documentation, which comes with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import answer
from .problems import UsageProblem

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent / "docs")
"""In a wheel, and in a clone."""


def docs(
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", help="Such as tools; default: a list.")] = None,
) -> None:
    """Print a page of the documentation."""
    pages = {path.stem: path for folder in reversed(_FOLDERS) for path in sorted(folder.glob("*.md"))}
    if page is None:
        for name, path in pages.items():
            answer(f"{name:<20} {_title(path)}")
        return
    found = pages.get(page.removeprefix("docs/").removesuffix(".md"))
    if found is None:
        raise UsageProblem(f"there is no page {page!r}. Expected one of: {', '.join(pages)}")
    answer(found.read_text(encoding="utf-8").rstrip(), exact=True)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
