"""Reads a `.prompty` file as it is written: the values of its frontmatter, with their lines, and its body (§2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import LoadError
from .places import Place, dotted, nearest
from .yaml_text import read_yaml

MAX_BYTES = 64 * 2**20
"""A larger file is not read."""
_PYTHON = frozenset({".py", ".pyi", ".pyc"})
_OPENER = re.compile(r"\s*(---|\+\+\+)[^\S\n]*(?:\n|\Z)")
_CLOSER = re.compile(r"^(?:---|\+\+\+)[^\S\n]*(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class WrittenAsset:
    """What an author wrote: no reference is resolved, no shorthand expanded."""

    data: Mapping[str, Any]
    """The frontmatter's map."""
    body: str = ""
    file: Path | None = None
    """None for an asset that was given as a map."""
    lines: Mapping[Place, int] = field(default_factory=dict)
    """The line of each place in `data`, counted from 1 at the top of the file."""
    body_line: int = 1
    """The line that the body begins on."""
    has_frontmatter: bool = True

    def located(self, error: LoadError, place: Place) -> LoadError:
        """A copy of the error that names the file, and the field and line of `place`."""
        line = error.line or nearest(place, self.lines)
        return type(error)(error.message, file=self.file, field=dotted(place) or error.field, line=line)


def read_asset(file: Path) -> WrittenAsset:
    """Read the file.

    Raises LoadError when it is Python code, or no UTF-8 text, or its frontmatter is not a map in YAML.
    """
    if file.suffix in _PYTHON:
        raise LoadError("the file is Python code. Expected properties between two lines `---`, then text", file=file)
    try:
        text = split_frontmatter(read_text(file))
        data, lines = read_frontmatter(text.frontmatter or "", text.frontmatter_line)
        _require_text(text)
    except LoadError as error:
        raise LoadError(error.message, file=file, line=error.line) from None
    return WrittenAsset(data, text.body, file, lines, text.body_line, text.frontmatter is not None)


def read_frontmatter(yaml: str, first_line: int) -> tuple[dict[str, Any], dict[Place, int]]:
    """The frontmatter's map, {} when it is empty, and the line of each place in it.

    The text begins on line `first_line` of the file. Raises LoadError, with the line, when it is not a map in YAML.
    """
    try:
        data, lines = read_yaml(yaml, first_line)
    except LoadError as error:
        raise LoadError(f"Invalid frontmatter YAML: {error.message}", line=error.line) from None
    if data is None:
        return {}, lines
    if not isinstance(data, dict):
        raise LoadError(f"Invalid frontmatter: expected a map of properties, got {data!r:.60}", line=first_line)
    return data, lines


def _require_text(text: SplitText) -> None:
    if "\0" in text.body:
        line = text.body_line + text.body[: text.body.index("\0")].count("\n")
        raise LoadError("the file has a NUL character. Expected a text file in UTF-8", line=line)


def read_text(file: Path) -> str:
    """The text of a regular file, without a byte order mark.

    Raises LoadError, with the line where there is one, when it can't be read, or is not UTF-8 text.
    """
    content = _read(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
        raise LoadError(
            f"the file is not UTF-8 text: {error.reason} at byte {error.start}. "
            f"{'It looks like UTF-16: save it as UTF-8' if utf16 else 'Expected a text file in UTF-8'}",
            line=1 + content.count(b"\n", 0, error.start),
        ) from None


def _read(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise LoadError("the file is not a regular file. Expected a text file")
        if file.stat().st_size > MAX_BYTES:
            raise LoadError(f"the file has {file.stat().st_size} bytes. Expected a text of {MAX_BYTES} at most")
        return file.read_bytes()
    except OSError as error:
        raise LoadError(f"the file can't be read: {error.strerror or error}") from None


class SplitText(NamedTuple):
    """Frontmatter and body; lines are counted from 1."""

    frontmatter: str | None
    """None when the text has no frontmatter: then all of it is the body."""
    frontmatter_line: int
    body: str
    body_line: int


def split_frontmatter(text: str) -> SplitText:
    """Split a file's text at delimiters that stand alone on their lines (§18-1); line ends become `\\n`.

    Raises LoadError for an opening delimiter without a closing one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    opener = _OPENER.match(text)
    if opener is None:
        return SplitText(None, 1, text, 1)
    closer = _CLOSER.search(text, opener.end())
    if closer is None:
        raise LoadError(
            "Invalid frontmatter: the opening delimiter has no closing `---` alone on a line",
            line=1 + text.count("\n", 0, opener.start(1)),
        )
    body = text[closer.end() :].lstrip()
    return SplitText(
        frontmatter=text[opener.end() : closer.start()],
        frontmatter_line=1 + text.count("\n", 0, opener.end()),
        body=body,
        body_line=1 + text.count("\n", 0, len(text) - len(body)),
    )
