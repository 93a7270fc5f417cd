"""Calls and summaries as Temporal's UI shows them."""

from __future__ import annotations

from typing import Any

from perdure.workflows.ui import (
    MAX_SUMMARY_BYTES,
    bounded_summary,
    call_text,
)


def test_a_calls_arguments_are_cut_before_they_are_written_out() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    long = call_text("look", {"x": "y" * 1_000_000, "deep": deep, "list": list(range(10_000))})
    assert len(long) < 600
    assert call_text("look", "[" * 1_000).startswith("look([[[")
    assert (call_text("look", "[1]"), call_text("look", "")) == ("look([1])", "look()")


def test_a_summary_is_one_short_line_without_markup_and_control_characters() -> None:
    hostile = "a\x1b[31m\u202e<img src=x> ![i](http://x.example) [x](javascript:alert(1))\x00"
    shown = bounded_summary(call_text(hostile, {hostile: hostile}))
    assert not any(each in shown for each in ("<img", "](", "\x1b", "\x00", "\u202e"))
    for text in ("é\n" * 400, "東" * 400, "\x00" * 400):
        assert len(bounded_summary(text).encode()) <= MAX_SUMMARY_BYTES
