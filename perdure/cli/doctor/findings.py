"""What a doctor finds, and how lists of it are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...json_types import JsonObject

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """One thing that is wrong."""

    id: str
    """For programs."""
    level: Level
    """An error keeps runs from going on, or will."""
    text: str
    do: str = ""
    """What to type, or what to change."""
    about: JsonObject = {}
    """Names and numbers that the text tells."""

    def as_json(self) -> JsonObject:
        """Return it for programs."""
        return self._asdict()


def examples(ids: Sequence[str], most: int = 3) -> str:
    """Return some of the ids, and how many more there are."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(ids[:most])}{more}"
