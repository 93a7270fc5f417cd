"""What a provider sends although its API does not specify it, as an error that people understand."""

from __future__ import annotations

import json
from typing import Any

from ..excerpt import one_line
from ..valid_text import valid_text
from .errors import UNEXPECTED_FORMAT

SHOWN_CHARS = 300


class UnexpectedFormatError(ValueError):
    """What the provider sent is nothing that its API specifies."""

    def __init__(self, got: str) -> None:
        """`got` is what it sent, as `shown` gives it."""
        super().__init__(UNEXPECTED_FORMAT)
        self.got = got

    def account(self, expected: str) -> str:
        """The error's text, with what was expected and what came."""
        return f"{UNEXPECTED_FORMAT}: expected {expected}, got {self.got}"


def shown(value: Any) -> str:
    """The beginning of a JSON value, on one line. Never raises."""
    try:
        return valid_text(one_line(json.dumps(value, ensure_ascii=False), SHOWN_CHARS))
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"
