"""What a tool offers as one text, as it is recorded when a run is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from ...agent import Agent
from ...arguments import deeper_than
from ...json_types import JsonObject
from ...prompty.places import Place, map_strings
from ...redaction import looks_secret, redact, redactor
from ..kind import Offering
from .document import SpecificationError

_MAX_LEVELS = 100
"""So deep is nothing that `as_text` writes, whose schemas are bounded."""


def as_text(offered: Sequence[Offering], agent: Agent | None = None) -> str:
    """The functions as JSON. What looks like a secret in a specification, such as an example key, is not in it."""
    known = redactor(agent)

    def clean(place: Place, text: str) -> str:
        text = known.text(text)
        return redact(text, agent) if "://" in text or looks_secret(text) else text

    operations = map_strings([asdict(each) for each in offered], clean)
    return json.dumps({"operations": operations}, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> list[Offering]:
    """The functions that `as_text` has written. Raises SpecificationError for any other text."""
    try:
        operations: list[JsonObject] = json.loads(text)["operations"]
        if not deeper_than(operations, _MAX_LEVELS):
            return [Offering(**each) for each in operations]
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise SpecificationError("its field `recorded` is not what perdure writes there: leave it out")
