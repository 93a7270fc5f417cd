"""`perdure docs`: prints a page of the documentation, which comes with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from .console import answer
from .problems import UsageProblem

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent / "docs")
"""In a wheel, and in a clone."""


def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="[PAGE]", help="Such as tools; default: a list.")
    ] = None,
) -> None:
    """Print a page of the documentation."""
    pages = {
        path.stem: path for folder in reversed(_FOLDERS) for path in sorted(folder.glob("*.md"))
    }
    if page is not None:
        answer(_text_of(pages, page), exact=True)
        return
    for name, path in pages.items():
        answer(f"{name:<20} {_title(path)}")


def _text_of(pages: Mapping[str, Path], name: str) -> str:
    path = pages.get(name.removeprefix("docs/").removesuffix(".md"))
    if path is None:
        raise UsageProblem(f"there is no page {name!r}. Expected one of: {', '.join(pages)}")
    return path.read_text(encoding="utf-8").rstrip()


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
