"""Long waits are folded; what takes long because it works is not."""

from __future__ import annotations

from perdure.trace.html import Segment, active_seconds, segments
from perdure.trace.text import tree

from ..support.made_traces import START, Made, a_long_run

NANO = 1_000_000_000


def folded(made: Made, end: float) -> list[tuple[float, float]]:
    """The folded parts, in seconds; all parts together cover the axis."""
    parts = segments(tree(made.spans), START, START + int(end * NANO))
    assert [part.start for part in parts] == [START, *(part.end for part in parts[:-1])]
    assert parts[-1].end == START + int(end * NANO)
    return [
        ((part.start - START) / NANO, (part.end - START) / NANO) for part in parts if part.is_folded
    ]


def test_a_long_wait_is_folded() -> None:
    made = Made()
    root = made.add("invoke_agent a", 0, 1000)
    made.chat(0, 10, root)
    made.add("wait approval send", 10, 990, root)
    made.chat(990, 1000, root)
    assert folded(made, 1000) == [(10.0, 990.0)]
    assert active_seconds(tree(made.spans), START + 1000 * NANO) == 20.0


def test_long_work_is_not_folded_and_neither_is_a_short_pause() -> None:
    made = Made()
    root = made.add("invoke_agent a", 0, 1000)
    made.add("execute_tool slow", 0, 900, root)
    made.chat(950, 1000, root)
    assert folded(made, 1000) == []


def test_a_sub_agents_wait_is_a_wait_of_the_whole() -> None:
    made = Made()
    root = made.add("invoke_agent a", 0, 500)
    tool = made.add("execute_tool helper", 0, 500, root)
    child = made.add("invoke_agent helper", 1, 499, tool)
    made.chat(1, 3, child)
    made.add("wait approval pay", 3, 490, child)
    made.chat(490, 499, child)
    assert folded(made, 500) == [(3.0, 490.0)]


def test_an_open_wait_reaches_to_the_moment_of_reading() -> None:
    made = Made()
    root = made.add("invoke_agent a", 0, None)
    made.chat(0, 3, root)
    made.add("wait approval pay", 3, None, root)
    assert folded(made, 90_000) == [(3.0, 90_000.0)]


def test_nothing_at_all_is_one_part() -> None:
    assert segments([], 0, 1) == [Segment(0, 1, False)]
    assert folded_parts(a_long_run(20)) == 0


def folded_parts(spans: list) -> int:  # type: ignore[type-arg]
    return sum(part.is_folded for part in segments(tree(spans), START, START + 60 * NANO))
