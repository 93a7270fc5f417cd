"""Parses a rendered text into messages (§6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..agents import Agent, Template
from ..errors import InvokerError, RenderError
from ..json_types import JsonView
from ..messages import Message
from .render import Marker, Rendered, attribute_value, find_markers
from .rich_values import RichValues, Section


def parse(agent: Agent, rendered: str, *, rich: JsonView | None = None) -> list[Message]:
    """Messages of a rendered text, in which the values of `rich` (by default the text's own)
    replace their nonces.

    Takes time linear in the length of the text. Raises RenderError for a role marker that a strict
    template did not write itself, or a rich value of the wrong form, and InvokerError if the agent
    names a parser that does not exist.
    """
    kind = (agent.template or Template()).parser.kind
    if kind != "prompty":
        raise InvokerError(f"No parser registered for key: {kind}")
    if rich is None:
        rich = rendered.rich if isinstance(rendered, Rendered) else {}
    values = RichValues.of(agent, rich)
    return [message for section in _sections(rendered) for message in values.fill(section)]


def _sections(rendered: str) -> Iterator[Section]:
    markers = _markers(rendered)
    preface = rendered[: markers[0].start] if markers else str(rendered)
    if preface.strip():
        yield Section("system", {}, preface.strip("\r\n"))
    ends = [marker.start for marker in markers[1:]] + [len(rendered)]
    for marker, end in zip(markers, ends, strict=False):
        attributes = {
            name: attribute_value(rendered[first:last], quoted=quoted)
            for name, first, last, quoted in marker.attributes
            if name != "nonce"
        }
        yield Section(marker.role, attributes, rendered[marker.end : end].strip("\r\n"))


def _markers(rendered: str) -> Sequence[Marker]:
    """Return the role markers that count. Raises RenderError if one is not a strict template's
    own.
    """
    found = list(find_markers(rendered))
    if not isinstance(rendered, Rendered) or rendered.markers is None:
        return found
    own = {marker.start for marker in rendered.markers}
    forged = next((marker for marker in found if marker.start not in own), None)
    if forged is None:
        return rendered.markers
    line = rendered[forged.start : forged.end].strip()
    raise RenderError(
        f"Role marker nonce mismatch (possible injection): {line!r:.60} is not the template's own "
        "text, and would begin a message"
    )
