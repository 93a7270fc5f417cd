"""The spans of a trace as a tree, and the tree as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.trace import ReadableSpan

from ..history.events import NANOSECONDS
from ..text import duration_text, one_line, visible
from .describe import is_open, problem, seconds, tokens


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


def rows(spans: Iterable[ReadableSpan]) -> list[tuple[ReadableSpan, str]]:
    """Return each span with its line of the tree, in columns: name, time from the start of the
    trace, duration, tokens, error. Safe to write to a terminal. Never raises.
    """
    roots = tree(spans)
    start = min((root.span.start_time or 0 for root in roots), default=0)
    found: list[tuple[ReadableSpan, list[str]]] = []
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        node, guide, below = waiting.pop()
        found.append((node.span, _row(node.span, guide, start)))
        for place, child in reversed([*enumerate(node.children, 1)]):
            branch, rest = ("└─ ", "   ") if place == len(node.children) else ("├─ ", "│  ")
            waiting.append((child, below + branch, below + rest))
    widths = [max(map(len, column)) for column in zip(*(row for _, row in found), strict=True)]
    return [(span, _line(row, widths)) for span, row in found]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    figures = [text.rjust(width) for text, width in zip(row[1:4], widths[1:4], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *figures, row[4]]).rstrip()


def _row(span: ReadableSpan, guide: str, start: int) -> list[str]:
    taken, used, wrong = seconds(span), tokens(span), problem(span)
    took = duration_text(taken) if taken is not None else ""
    return [
        guide + visible(one_line(span.name, LONGEST_NAME)),
        f"+{duration_text(((span.start_time or 0) - start) / NANOSECONDS)}",
        f"{took} so far".strip() if is_open(span) else took,
        f"{used[0]:,} in {used[1]:,} out" if used else "",
        visible(one_line(f"error: {wrong}", LONGEST_PROBLEM)) if wrong else "",
    ]
