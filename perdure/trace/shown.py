"""What a span says, for those who show it: its kind, its time, its tokens, what went wrong."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Literal

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

Kind = Literal["agent", "model", "tool", "wait", "retry", "other"]
"""Who acts: a run, a provider, a tool; a person is awaited; a failed call waits for its next try."""

NANO = 1_000_000_000
UNFINISHED = "perdure.unfinished"
"""Set on a span that had not ended when it was read; its end is then that moment."""
COST = "gen_ai.usage.cost"

_KINDS: dict[str, Kind] = {"invoke_agent": "agent", "chat": "model", "execute_tool": "tool", "retry": "retry"}


def operation(span: ReadableSpan) -> str:
    """What is done, such as `chat`; the first word of its name where no attribute says it."""
    return str((span.attributes or {}).get("gen_ai.operation.name") or span.name.partition(" ")[0])


def kind_of(span: ReadableSpan) -> Kind:
    """The kind of what the span stands for."""
    name = operation(span)
    if name in _KINDS:
        return _KINDS[name]
    if name.startswith("wait"):
        return "retry" if "retry" in span.name else "wait"
    return "other"


def content_of(attribute: Any) -> Any:
    """The value of an attribute that holds JSON; any other as it is."""
    if not isinstance(attribute, str):
        return attribute
    try:
        return json.loads(attribute)
    except ValueError:
        return attribute


def is_open(span: ReadableSpan) -> bool:
    """Whether it had not ended when it was read."""
    return span.end_time is None or bool((span.attributes or {}).get(UNFINISHED))


def seconds(span: ReadableSpan) -> float | None:
    """How long it has taken; None where its end is not known."""
    return None if span.end_time is None else (span.end_time - (span.start_time or 0)) / NANO


def number(span: ReadableSpan, name: str) -> float | None:
    """An attribute's value, if that is a number."""
    value = (span.attributes or {}).get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def tokens(span: ReadableSpan) -> tuple[int, int] | None:
    """What went in and came out; None where no tokens are counted."""
    found = [number(span, f"gen_ai.usage.{side}_tokens") for side in ("input", "output")]
    return None if found == [None, None] else (int(found[0] or 0), int(found[1] or 0))


def problem(span: ReadableSpan) -> str:
    """What went wrong, in a line; "" when nothing did."""
    kind = str((span.attributes or {}).get("error.type") or "")
    if not kind and span.status.status_code is not StatusCode.ERROR:
        return ""
    said = span.status.description or ""
    if said.startswith(kind):
        return said or "failed"
    return f"{kind}: {said}" if said else kind


def duration_text(seconds: float) -> str:
    """A time in the two units that tell most: `340 ms`, `1.2 s`, `1 min 34 s`, `2 d 3 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(whole.seconds, 3600)
    units = {"d": whole.days, "h": hours, "min": rest // 60, "s": rest % 60}
    first = next(place for place, amount in enumerate(units.values()) if amount)
    shown = [f"{amount} {unit}" for unit, amount in list(units.items())[first : first + 2] if amount]
    return " ".join(shown)
