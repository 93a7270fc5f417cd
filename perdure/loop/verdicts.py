"""Reads a guardrail's verdict: what its rewrite puts in place of what was judged (§13.4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from ..guardrails import GuardrailPoint, GuardrailResult
from ..messages import Message

_MESSAGES = TypeAdapter(list[Message])
_ARGUMENTS = TypeAdapter(dict[str, Any])


def checked(point: GuardrailPoint, verdict: GuardrailResult) -> GuardrailResult:
    """The verdict with its rewrite as a list of messages (input), a text (output) or a dict of arguments (tool).

    A rewrite that is nothing of the kind denies, as a guardrail does that fails. Never raises.
    """
    if verdict.rewrite is None or not verdict.allowed:
        return verdict
    expected, read = _READERS[point]
    try:
        return verdict.model_copy(update={"rewrite": read(verdict.rewrite)})
    except (TypeError, ValueError):
        shown = f"{verdict.rewrite!r:.80}"
        return GuardrailResult(
            allowed=False, reason=f"the {point} guardrail failed: its rewrite must be {expected}, got {shown}"
        )


def _text(value: Any) -> str:
    """A text as it is, another value as JSON: the answer of an agent with `outputs`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_READERS: dict[GuardrailPoint, tuple[str, Callable[[Any], Any]]] = {
    "input": ("a list of messages", _MESSAGES.validate_python),
    "output": ("a text", _text),
    "tool": ("an object of arguments", _ARGUMENTS.validate_python),
}
