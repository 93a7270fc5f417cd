"""The spans of a trace as the tree that readers see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.trace import ReadableSpan


@dataclass(frozen=True)
class Node:
    """A span, and those that belong under it in the order of their start."""

    span: ReadableSpan
    children: list[Node] = field(default_factory=list)


def tree(spans: Iterable[ReadableSpan]) -> list[Node]:
    """The roots, in the order of their start; a span whose parent is not among the spans is one. Never raises."""
    nodes = {span_id(span): Node(span) for span in sorted(spans, key=lambda span: span.start_time or 0)}
    roots: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.span.parent.span_id) if node.span.parent else None
        (parent.children if parent else roots).append(node)
    return roots


def walk(nodes: Sequence[Node], depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Each node with its depth, parents before their children."""
    waiting = [(depth, node) for node in reversed(nodes)]
    while waiting:
        level, node = waiting.pop()
        yield level, node
        waiting += [(level + 1, child) for child in reversed(node.children)]


def span_id(span: ReadableSpan) -> int:
    """The span's own id; 0 for one that has none."""
    return span.context.span_id if span.context else 0
