"""Complete results of a run's tool calls: the name of one, and the sizes that are kept and shown.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .errors import UnknownCallError
from .messages import Part, TextPart, ToolResult
from .text import Note, cut_middle, one_line, utf8_bytes, visible

MAX_NAMED = 20
"""How many calls an error names at most."""


@dataclass(frozen=True, order=True)
class CallPlace:
    """Identifies one tool call of a run. Models reuse ids, so an id alone may match several."""

    iteration: int
    index: int
    """The call's place in the model's reply, from 0."""
    call_id: str
    name: str
    """The tool's name."""


class KeptResults(Protocol):
    """Finds the complete result of one call of the run."""

    async def __call__(
        self, call_id: str, iteration: int | None, ignored: Sequence[str] = ()
    ) -> ToolResult:
        """Return the result of the last call of that id, or of the one in that iteration, skipping
        `ignored` tools.

        Raises UnknownCallError.
        """


def choose(places: Iterable[CallPlace], call_id: str, iteration: int | None) -> CallPlace:
    """Return the last of the calls with the id, in that iteration if one is given. Raises
    UnknownCallError.
    """
    known = sorted(places)
    fitting = [
        place
        for place in known
        if place.call_id == call_id and iteration in (None, place.iteration)
    ]
    if fitting:
        return fitting[-1]
    wanted = (
        f"{call_id!r:.100}" if iteration is None else f"{call_id!r:.100} in iteration {iteration}"
    )
    raise UnknownCallError(f"no tool call {wanted} has a result in this run: {_name_all(known)}")


def _name_all(known: Sequence[CallPlace]) -> str:
    if not known:
        return "there is none yet"
    shown = [
        f"{one_line(visible(place.call_id))} ({place.name}, iteration {place.iteration})"
        for place in known[-MAX_NAMED:]
    ]
    before = f"{len(known) - len(shown)} earlier ones, " if len(known) > len(shown) else ""
    return f"there are {before}{', '.join(shown)}"


KIB, MIB = 1024, 1024 * 1024
SHOWN_BYTES = 64 * KIB
"""The default limit of the text of one result (`maxResult`)."""
SHOWN_TOGETHER_BYTES = 4 * MIB
"""The limit of the text of all results of one reply: with more than 64 calls, each one is shortened
further."""


class SizeLimits(NamedTuple):
    """The size limits of one tool result, so that it fits into a Temporal payload (2 MB) and a
    history (50 MB).
    """

    text_bytes: int = MIB
    """Bytes of all text together, in UTF-8."""
    media_bytes: int = MIB
    """Bytes of all images, audio and files together, in their base64 form."""
    together_text_bytes: int = 4 * MIB
    """Bytes of the text of all results of one reply."""
    together_media_bytes: int = 10 * MIB
    """Bytes of the media of all results of one reply."""

    def for_one_of(self, calls: int) -> SizeLimits:
        """Return the limits for each result of a reply with `calls` calls."""
        return SizeLimits(
            text_bytes=min(self.text_bytes, self.together_text_bytes // calls),
            media_bytes=min(self.media_bytes, self.together_media_bytes // calls),
        )


STORED = SizeLimits(text_bytes=16 * MIB, together_text_bytes=64 * MIB)
"""For workers that store large values outside Temporal (`PERDURE_STORAGE`)."""


def shown_bytes(limit: int | None, calls: int) -> int:
    """Return how many bytes of one result the model reads; `limit` is the tool's own setting."""
    return min(limit or SHOWN_BYTES, SHOWN_TOGETHER_BYTES // calls)


def text_bytes(parts: Sequence[Part]) -> int:
    """Return the bytes of all text together, in UTF-8."""
    return sum([utf8_bytes(part.value) for part in parts if isinstance(part, TextPart)])


def shorten(result: ToolResult, limit: int, note: Note) -> ToolResult:
    """Return the result with at most `limit` bytes of text, and the note in addition; the result
    itself if it fits.
    """
    kept = text_bytes(result.parts)
    if kept <= limit:
        return result
    lost = 0 if result.size is None else result.size - kept
    text = cut_middle(
        result.text, limit, lambda start, missing, whole: note(start, missing + lost, whole + lost)
    )
    media = [part for part in result.parts if not isinstance(part, TextPart)]
    return result.model_copy(update={"parts": [TextPart(value=text), *media], "size": kept + lost})
