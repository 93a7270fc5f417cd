"""The tree on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.sdk.trace import ReadableSpan

from perdure.trace.text import rows

from ..support.made_traces import Made, a_refund


def lines(spans: Iterable[ReadableSpan]) -> list[str]:
    return [row for _, row in rows(spans)]


def test_the_tree_says_who_did_what_when() -> None:
    told = lines(a_refund())
    assert told[0].startswith("invoke_agent dispute_resolver")
    assert told[0].endswith("2 d 3 h")
    [child] = [line for line in told if "search_policies" in line]
    assert child.startswith("│     ├─ execute_tool search_policies")
    assert child.endswith("+19.0 s      400 ms                   error: timeout happened")
    assert "1,200 in 85 out" in told[1]
    assert len({line.index("+") for line in told if "│     " in line}) == 1, "columns are aligned"


def test_a_name_cannot_disturb_the_terminal() -> None:
    made = Made()
    made.add("execute_tool \x1b[2J\nevil", 0, None)
    [line] = lines(made.spans)
    assert line.split() == ["execute_tool", "\\x1b[2J", "evil", "+0", "ms", "so", "far"]


def test_no_spans_are_no_lines() -> None:
    assert lines([]) == []


def test_a_span_without_its_parent_is_a_root() -> None:
    made = Made()
    root = made.add("invoke_agent a", 0, 2)
    made.add("chat m", 1, 2, root)
    assert [line.split()[0] for line in lines(made.spans[1:])] == ["chat"]
