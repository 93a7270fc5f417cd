"""The table of all findings of the doctor, with their fixes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...json_types import JsonObject
from ...text import count_of

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """One fault."""

    id: str
    """For programs."""
    level: Level
    """An error keeps runs from going on, or will."""
    text: str
    do: str = ""
    """What to type, or what to change."""
    about: JsonObject = {}
    """The names and numbers of the text."""

    def as_json(self) -> JsonObject:
        """Return it for programs."""
        return self._asdict()


CHECKS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("findings.json").read_text(encoding="utf-8")
)
"""Id of a finding → its level, its text, and its fix."""


def finding(id: str, **about: Any) -> Finding:
    """Return the finding of that id, with its names and numbers."""
    check = CHECKS[id]
    shown = {
        name: examples(each) if isinstance(each, list) else each for name, each in about.items()
    }
    shown["count"] = count_of(len(about.get("runs", ())), "open run")
    text, fix = check["text"].format(**shown), check["do"].format(**shown)
    return Finding(id, check["level"], text, fix, about)


def examples(ids: list[str], most: int = 3) -> str:
    """Return some of the ids, and how many more there are."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(ids[:most])}{more}"
