"""Holds a rendered template: its text, the rich values in it, and the role markers that are the template's own (§5)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import Any

from .markers import Marker, find_markers

_PLACEHOLDER = "\ufffc"


class Rendered(str):
    """The rendered text. Slices and joins of it are plain strings, which know nothing of what follows."""

    rich: Mapping[str, Any]
    """Nonce in the text → the rich value that it stands for."""
    markers: Sequence[Marker] | None
    """The role markers that the template itself wrote; None when every line that looks like one counts."""

    def __new__(
        cls, text: str, rich: Mapping[str, Any] | None = None, markers: Sequence[Marker] | None = None
    ) -> Rendered:
        rendered = super().__new__(cls, text)
        rendered.rich = dict(rich or {})
        rendered.markers = markers
        return rendered


def template_markers(literals: Sequence[str], values: Sequence[str]) -> list[Marker]:
    """The role markers in `literals[0] + values[0] + literals[1] + …` that the literals make up without the values.

    A value may be a part of an attribute only, whatever it contains. Positions are those in the whole text.
    """
    skeleton = _PLACEHOLDER.join(literals)
    ends = accumulate(len(literal) + 1 for literal in literals)
    holes = [end - 1 for end in ends][: len(values)]
    growth = [0, *accumulate(len(value) - 1 for value in values)]

    def moved(position: int) -> int:
        return position + growth[bisect_left(holes, position)]

    return [
        Marker(
            moved(marker.start),
            moved(marker.end),
            marker.role,
            tuple((name, moved(start), moved(end), quoted) for name, start, end, quoted in marker.attributes),
        )
        for marker in find_markers(skeleton)
    ]


def join_pieces(literals: Sequence[str], values: Sequence[str]) -> str:
    """The whole text, in which literals and values alternate, beginning with a literal."""
    return "".join(piece for pair in zip_longest(literals, values, fillvalue="") for piece in pair)
