"""The results of a run's tool calls, whole, however long; and how one of them is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .excerpt import one_line, visible

if TYPE_CHECKING:
    from .messages import ToolResult

MAX_NAMED = 20
"""How many calls an error names at most."""


@dataclass(frozen=True, order=True)
class CallPlace:
    """Names one tool call of a run. Models reuse ids, so an id alone may name several."""

    iteration: int
    index: int
    """The call's place in the model's reply, from 0."""
    call_id: str
    name: str
    """The tool's name."""


class UnknownCallError(LookupError):
    """The run has no tool call of that id, or none that has a result; the text names those that there are."""


class KeptResults(Protocol):
    """Finds the whole result of one call of the run."""

    async def __call__(self, call_id: str, iteration: int | None, ignored: Sequence[str] = ()) -> ToolResult:
        """The result of the last call of that id, or of the one in that iteration; not of tools that are `ignored`.

        Raises UnknownCallError.
        """


def chosen(places: Iterable[CallPlace], call_id: str, iteration: int | None) -> CallPlace:
    """The last of the calls that has the id, in that iteration if one is given. Raises UnknownCallError."""
    known = sorted(places)
    fitting = [place for place in known if place.call_id == call_id and iteration in (None, place.iteration)]
    if fitting:
        return fitting[-1]
    wanted = f"{call_id!r:.100}" if iteration is None else f"{call_id!r:.100} in iteration {iteration}"
    raise UnknownCallError(f"no tool call {wanted} has a result in this run: {_named(known)}")


def _named(known: Sequence[CallPlace]) -> str:
    if not known:
        return "there is none yet"
    shown = [
        f"{one_line(visible(place.call_id))} ({place.name}, iteration {place.iteration})"
        for place in known[-MAX_NAMED:]
    ]
    before = f"{len(known) - len(shown)} earlier ones, " if len(known) > len(shown) else ""
    return f"there are {before}{', '.join(shown)}"
