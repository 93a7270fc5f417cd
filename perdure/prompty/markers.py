"""Finds role markers: the lines that begin a message, such as `user:` or `# assistant[name="a"]:` (§6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..messages import Role

ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "developer": "developer",
}
_BLANK = r"[^\S\n]*+"
_ATTRIBUTE = rf'\w++{_BLANK}={_BLANK}(?:"[^"\n]*+"{_BLANK},?|[^",\]=\n]*+(?:,|(?=\]))|[^\s",\]=]++(?=\s)){_BLANK}'
_MARKER = re.compile(
    rf"^{_BLANK}(?:#{_BLANK})?+((?ai:{'|'.join(ROLES)}))"
    rf"(?:\[{_BLANK}((?:{_ATTRIBUTE})++)\])?+{_BLANK}:{_BLANK}$",
    re.MULTILINE,
)
_PAIR = re.compile(rf'(\w++){_BLANK}={_BLANK}(?:"([^"\n]*+)"|([^",\]=\n]*+)(?=,|\Z)|([^\s",\]=]++)(?=\s))')
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_FLOAT = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}")


class Marker(NamedTuple):
    """A role marker: the whole line, from `start` to `end`, without the line break."""

    start: int
    end: int
    role: Role
    attributes: tuple[tuple[str, int, int, bool], ...]
    """The name of each attribute, where its value starts and ends, and whether it is quoted."""


def find_markers(text: str) -> Iterator[Marker]:
    """The lines of `text` that are role markers, in order. Takes time linear in the length of the text."""
    for match in _MARKER.finditer(text):
        attributes = _attributes(text, *match.span(2)) if match[2] else ()
        yield Marker(match.start(), match.end(), ROLES[match[1].lower()], tuple(attributes))


def attribute_value(text: str, *, quoted: bool) -> Any:
    """An attribute's value: a string when it is quoted, else true, false or a number where it reads as one."""
    if quoted:
        return text
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _attributes(text: str, start: int, end: int) -> Iterator[tuple[str, int, int, bool]]:
    for pair in _PAIR.finditer(text, start, end):
        group = next(group for group in (2, 3, 4) if pair[group] is not None)
        yield pair[1], *pair.span(group), group == 2
