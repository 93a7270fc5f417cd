"""The spans of a trace as a tree, and the tree as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from ..history.events import NANOSECONDS
from ..text import duration_text, one_line, visible
from .describe import Kind, is_open, kind_of, problem, seconds, tokens


@dataclass(frozen=True)
class SpanNode:
    """Span with its children, in the order of their start."""

    span: ReadableSpan
    children: list[SpanNode] = field(default_factory=list)


def tree(spans: Iterable[ReadableSpan]) -> list[SpanNode]:
    """Return the roots in the order of their start; a span with a missing parent is a root. Never
    raises.
    """
    nodes = {
        span_id(span): SpanNode(span)
        for span in sorted(spans, key=lambda span: span.start_time or 0)
    }
    roots: list[SpanNode] = []
    for node in nodes.values():
        parent = nodes.get(node.span.parent.span_id) if node.span.parent else None
        (parent.children if parent else roots).append(node)
    return roots


def walk(nodes: Sequence[SpanNode], depth: int = 0) -> Iterator[tuple[int, SpanNode]]:
    """Yield each node with its depth, parents before their children."""
    waiting = [(depth, node) for node in reversed(nodes)]
    while waiting:
        level, node = waiting.pop()
        yield level, node
        waiting += [(level + 1, child) for child in reversed(node.children)]


def span_id(span: ReadableSpan) -> int:
    """Return the span's own id; 0 without one."""
    return span.context.span_id if span.context else 0


LONGEST_NAME = 60
LONGEST_PROBLEM = 160


class SpanRow(NamedTuple):
    """One span's texts, all safe to write to a terminal."""

    guide: str
    """The branch of the tree that leads to the span."""
    name: str
    kind: Kind
    offset: str
    """Time from the start of the trace."""
    duration: str
    tokens: str
    problem: str

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """Texts of the columns."""
        return f"{self.guide}{self.name}", self.offset, self.duration, self.tokens


def rows(spans: Iterable[ReadableSpan]) -> Iterator[SpanRow]:
    """Return a row for each span, in the order of the tree. Never raises."""
    roots = tree(spans)
    start = min((root.span.start_time or 0 for root in roots), default=0)
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        node, guide, below = waiting.pop()
        yield _row(node, guide, start)
        last = len(node.children) - 1
        waiting += reversed(
            [
                (
                    child,
                    f"{below}{'└─ ' if place == last else '├─ '}",
                    f"{below}{'   ' if place == last else '│  '}",
                )
                for place, child in enumerate(node.children)
            ]
        )


def lines(spans: Iterable[ReadableSpan]) -> list[str]:
    """Return the rows in columns, as plain text."""
    found = list(rows(spans))
    widths = column_widths(found)
    return [line(row, widths) for row in found]


def column_widths(found: Sequence[SpanRow]) -> list[int]:
    """Return the widths of the columns of these rows."""
    return [max(map(len, column)) for column in zip(*(row.columns for row in found), strict=True)]


def line(row: SpanRow, widths: Sequence[int]) -> str:
    """Format one row in columns of these widths."""
    name, *figures = row.columns
    cells = [
        name.ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(figures, widths[1:], strict=True)),
    ]
    return "  ".join([*cells, row.problem]).rstrip()


def _row(node: SpanNode, guide: str, start: int) -> SpanRow:
    span = node.span
    taken, used, wrong = seconds(span), tokens(span), problem(span)
    took = duration_text(taken) if taken is not None else ""
    return SpanRow(
        guide=guide,
        name=visible(one_line(span.name, LONGEST_NAME)),
        kind=kind_of(span),
        offset=f"+{duration_text(((span.start_time or 0) - start) / NANOSECONDS)}",
        duration=f"{took} so far".strip() if is_open(span) else took,
        tokens=f"{used[0]:,} in {used[1]:,} out" if used else "",
        problem=visible(one_line(f"error: {wrong}", LONGEST_PROBLEM)) if wrong else "",
    )
