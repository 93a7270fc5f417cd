"""Reads a guardrail's verdict, and applies its rewrite (§13.4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import TypeAdapter

from ..guardrails import GuardrailPoint, GuardrailResult
from ..messages import JsonObject, Message, ModelReply, TextPart
from ..text import valid_json

_MESSAGES = TypeAdapter(list[Message])
_ARGUMENTS = TypeAdapter(JsonObject)
_DESCRIPTIONS = TypeAdapter(dict[str, str | None])


def checked_verdict(
    point: GuardrailPoint | Literal["tools"], verdict: GuardrailResult
) -> GuardrailResult:
    """Verdict with its rewrite as a list of messages (input), a text (output) or a dict of
    arguments (tool).

    A rewrite of another type becomes a denial, like a guardrail's failure; so does `ask` for
    anything but a tool call. Never raises.
    """
    if verdict.ask is not None and point != "tool":
        text = (
            f"the {point} guardrail failed: it asks for an approval, and only tool calls can be "
            "approved"
        )
        return GuardrailResult(allowed=False, reason=text)
    if verdict.rewrite is None or not verdict.allowed:
        return verdict
    expected, read = _READERS[point]
    try:
        return verdict.model_copy(update={"rewrite": read(verdict.rewrite)})
    except (TypeError, ValueError):
        shown = f"{verdict.rewrite!r:.80}"
        return GuardrailResult(
            allowed=False,
            reason=f"the {point} guardrail failed: its rewrite must be {expected}, got {shown}",
        )


def with_text(reply: ModelReply, text: str, faults: list[str], *, structured: bool) -> ModelReply:
    """Return the reply with another text, and without the provider's original response and blocks,
    which contain the old one.

    With `structured`, the reply's output is the text parsed as JSON; `faults` receives the reasons
    why it does not fit.
    """
    metadata = {
        key: value for key, value in reply.message.metadata.items() if key != "provider_content"
    }
    message = Message(role="assistant", parts=[TextPart(value=text)], metadata=metadata)
    output, faults = (value_in(text), faults) if structured else (None, [])
    return reply.model_copy(
        update={"message": message, "output": output, "raw": None, "faults": faults}
    )


def value_in(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is not JSON."""
    try:
        return valid_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


def rewritten_text(value: Any) -> str:
    """A text unchanged; another value, such as the answer of an agent with `outputs`, as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "input": ("a list of messages", _MESSAGES.validate_python),
    "output": ("a text", rewritten_text),
    "tool": ("an object of arguments", _ARGUMENTS.validate_python),
    "tools": ("descriptions by tool", _DESCRIPTIONS.validate_python),
}
