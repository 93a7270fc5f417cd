"""A `.prompty` text split into its YAML frontmatter and its body (§2.1)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import LoadError

_OPENER = re.compile(r"\s*(---|\+\+\+)[^\S\n]*(?:\n|\Z)")
_CLOSER = re.compile(r"^(?:---|\+\+\+)[^\S\n]*(?:\n|\Z)", re.MULTILINE)


class SplitText(NamedTuple):
    """The two halves; lines are counted from 1."""

    frontmatter: str | None
    """None when the text has no frontmatter: then all of it is the body."""
    frontmatter_line: int
    body: str
    body_line: int


def split(text: str) -> SplitText:
    """Split at delimiters that stand alone on their lines (§18-1). Raises LoadError without a closing one.

    Line ends become `\\n`, as reading a text file does.
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
