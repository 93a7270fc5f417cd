"""What a check says about one place of an asset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..places import Place


@dataclass(frozen=True)
class Finding:
    """What is wrong, or looks wrong, at one place."""

    place: Place
    """In the canonical form of the asset; () for its body."""
    message: str
    severity: Literal["error", "warning"] = "error"
    line: int | None = None
    """The line of the file, where the place does not tell it."""


def warning(place: Place, message: str, line: int | None = None) -> Finding:
    """A finding that does not keep the agent from running."""
    return Finding(place, message, "warning", line)
