"""A span without its times: what is the same whether it is exported live or rebuilt."""

from __future__ import annotations

from dataclasses import dataclass, field

from opentelemetry.trace import SpanKind

Value = str | bool | int | float | tuple[str, ...]


@dataclass
class SpanFacts:
    """What a span says."""

    name: str
    id: int
    parent_id: int | None
    attributes: dict[str, Value]
    kind: SpanKind = SpanKind.INTERNAL
    error: str | None = None
    """What the span's status says of an error; None where there was none."""
    links: list[tuple[int, int]] = field(default_factory=list)
    """Trace and span ids of other traces."""

    def failed(self, kind: str, text: str = "") -> None:
        """Say that it ended with an error of that kind."""
        self.attributes["error.type"] = kind
        self.error = text
