"""The time axis of a trace, on which hours of waiting take no more room than they deserve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .shown import NANO, kind_of
from .tree import Node, walk

FOLDED_SECONDS = 30
FOLDED_SHARE = 0.1
"""A pause is folded when it is longer than both: these seconds, and this share of the time in which work was done."""

Interval = tuple[int, int]


class Segment(NamedTuple):
    """A part of the axis, in nanoseconds."""

    start: int
    end: int
    is_folded: bool


def segments(roots: Sequence[Node], start: int, end: int) -> list[Segment]:
    """The parts of the axis from start to end, without a gap: times of work at their length, long pauses folded."""
    busy = union(interval for _, node in walk(roots) for interval in _work(node, end))
    active = sum(until - since for since, until in busy)
    least = max(FOLDED_SECONDS * NANO, FOLDED_SHARE * active)
    found: list[Segment] = []
    begun = start
    for since, until in gaps(busy, start, end):
        if until - since <= least:
            continue
        if since > begun:
            found.append(Segment(begun, since, False))
        found.append(Segment(since, until, True))
        begun = until
    if begun < end or not found:
        found.append(Segment(begun, end, False))
    return found


def active_seconds(roots: Sequence[Node], end: int) -> float:
    """How long anything was at work: models and tools, in all runs of the trace; parallel work counts once."""
    busy = union(interval for _, node in walk(roots) for interval in _work(node, end))
    return sum(until - since for since, until in busy) / NANO


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same times in intervals that do not meet, in order."""
    found: list[Interval] = []
    for since, until in sorted(intervals):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def gaps(busy: Sequence[Interval], start: int, end: int) -> Iterator[Interval]:
    """The times between start and end that are in none of the intervals, which are in order and do not meet."""
    edges = [start, *(edge for interval in busy for edge in interval), end]
    for since, until in zip(edges[::2], edges[1::2], strict=True):
        if since < until:
            yield since, until


def _work(node: Node, now: int) -> Iterator[Interval]:
    """When the span itself worked: not while a person was awaited under it, nor when what is below it stands for it."""
    if kind_of(node.span) in ("agent", "wait", "retry"):
        return
    waits = [child for child in node.children if kind_of(child.span) in ("wait", "retry")]
    if len(waits) < len(node.children):
        return
    since, until = _interval(node, now)
    yield from gaps(union(_interval(wait, now) for wait in waits if _interval(wait, now)[0] >= since), since, until)


def _interval(node: Node, now: int) -> Interval:
    since = node.span.start_time or 0
    return since, max(since, node.span.end_time if node.span.end_time is not None else now)
