"""Renders an agent's template with its inputs (§5): its text, rich values, and the template's own
role markers (§6).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest
from typing import Any, NamedTuple

from ..agents import Agent, Template
from ..declared_tools import RICH_KINDS
from ..errors import InvokerError
from ..json_types import JsonView
from ..messages import Role
from .rich_values import new_nonce

ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "developer": "developer",
}
_BLANK = r"[^\S\n]*+"
_ATTRIBUTE = (
    rf'\w++{_BLANK}={_BLANK}(?:"[^"\n]*+"{_BLANK},?|[^",\]=\n]*+(?:,|(?=\]))|[^\s",\]=]++(?=\s))'
    rf"{_BLANK}"
)
_MARKER = re.compile(
    rf"^{_BLANK}(?:#{_BLANK})?+((?ai:{'|'.join(ROLES)}))"
    rf"(?:\[{_BLANK}((?:{_ATTRIBUTE})++)\])?+{_BLANK}:{_BLANK}$",
    re.MULTILINE,
)
_PAIR = re.compile(
    rf'(\w++){_BLANK}={_BLANK}(?:"([^"\n]*+)"|([^",\]=\n]*+)(?=,|\Z)|([^\s",\]=]++)(?=\s))'
)
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
    """Yield the lines of `text` that are role markers, in order. Takes time linear in the length of
    the text.
    """
    for match in _MARKER.finditer(text):
        attributes = _attributes(text, *match.span(2)) if match[2] else ()
        yield Marker(match.start(), match.end(), ROLES[match[1].lower()], tuple(attributes))


def attribute_value(text: str, *, quoted: bool) -> Any:
    """Return an attribute's value: a string if it is quoted; else true, false or a number if it
    reads as one.
    """
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


_PLACEHOLDER = "\ufffc"


class Rendered(str):
    """The rendered text. Slices and joins of it are plain strings, without these attributes."""

    rich: JsonView
    """Nonce in the text → the rich value behind it."""
    markers: Sequence[Marker] | None
    """The role markers that the template itself wrote; None if every line that looks like one
    counts."""

    def __new__(
        cls, text: str, rich: JsonView | None = None, markers: Sequence[Marker] | None = None
    ) -> Rendered:
        rendered = super().__new__(cls, text)
        rendered.rich = dict(rich or {})
        rendered.markers = markers
        return rendered


def template_markers(literals: Sequence[str], values: Sequence[str]) -> list[Marker]:
    """Role markers in `literals[0] + values[0] + literals[1] + …` that the literals form without
    the values.

    A value may only be a part of an attribute, whatever it contains. Positions are those in the
    whole text.
    """
    skeleton = _PLACEHOLDER.join(literals)
    ends = accumulate(len(literal) + 1 for literal in literals)
    holes = [end - 1 for end in ends][: len(values)]
    growth = [0, *accumulate(len(value) - 1 for value in values)]

    def move(position: int) -> int:
        return position + growth[bisect_left(holes, position)]

    return [
        Marker(
            move(marker.start),
            move(marker.end),
            marker.role,
            tuple(
                (name, move(start), move(end), quoted)
                for name, start, end, quoted in marker.attributes
            ),
        )
        for marker in find_markers(skeleton)
    ]


def join_pieces(literals: Sequence[str], values: Sequence[str]) -> str:
    """Return the whole text, in which literals and values alternate, beginning with a literal."""
    return "".join(piece for pair in zip_longest(literals, values, fillvalue="") for piece in pair)


FORMATS = ("jinja2", "nunjucks")
"""Kinds of `template.format`. Jinja2 renders Nunjucks, too; `check` warns of that."""


def render(agent: Agent, inputs: JsonView) -> Rendered:
    """Return the instructions with the inputs filled in.

    Rich inputs (§2.6) never reach the template engine: nonces replace them. In strict mode the
    result lists the template's own role markers, and `parse` refuses all others (§6.3). Raises
    RenderError, and InvokerError if the template's format has no renderer.
    """
    template = agent.template or Template()
    if template.format.kind not in FORMATS:
        raise InvokerError(f"No renderer registered for key: {template.format.kind}")
    rich = {
        new_nonce(prop.name): prop.name
        for prop in agent.inputs or []
        if _is_rich(prop.kind, inputs.get(prop.name))
    }
    hidden = {name: nonce for nonce, name in rich.items()}
    from .jinja import render_jinja  # slow to import, and not needed to parse

    literals, values = render_jinja(agent.instructions, {**inputs, **hidden})
    markers = template_markers(literals, values) if template.format.strict else None
    return Rendered(
        join_pieces(literals, values),
        {nonce: inputs[name] for nonce, name in rich.items()},
        markers,
    )


def _is_rich(kind: str, value: Any) -> bool:
    return kind in RICH_KINDS and value is not None
