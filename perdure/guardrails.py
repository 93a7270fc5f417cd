"""Guardrails: user code that allows, denies or rewrites at three points of an iteration (§13.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from .messages import Message

GuardrailPoint = Literal["input", "output", "tool"]


class GuardrailResult(BaseModel):
    """A guardrail's verdict."""

    allowed: bool
    reason: str | None = None
    """Why it was denied; goes into the error or, for a tool, to the model."""
    rewrite: Any = None
    """Replaces what was judged: a message list (input), a text (output), arguments (tool); None keeps it."""


Verdict = GuardrailResult | Awaitable[GuardrailResult]


@dataclass(frozen=True)
class Guardrails:
    """Callbacks, plain or async, or None. Plain ones must be quick (well under 100 ms); let slow ones be async."""

    input: Callable[[list[Message]], Verdict] | None = None
    output: Callable[[Message], Verdict] | None = None
    tool: Callable[[str, dict[str, Any]], Verdict] | None = None
