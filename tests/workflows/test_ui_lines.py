"""The lines about a run's iterations that Temporal's UI shows, from the events of the run."""

from __future__ import annotations

import json
from typing import Any

from perdure.events import LogEntry
from perdure.workflows.ui import (
    MAX_ITERATIONS,
    MAX_SHOWN,
    MAX_SUMMARY_BYTES,
    bounded_summary,
    call_text,
    iteration_lines,
)

USAGE = {"input_tokens": 1240, "output_tokens": 33}


def entry(type: Any, iteration: int, call_id: str | None = None, **data: Any) -> LogEntry:
    return LogEntry(type, iteration, data, 36000.0, call_id, 0)


def reply(iteration: int, **more: str) -> LogEntry:
    return entry("llm_complete", iteration, usage=USAGE, costUsd=0.031, **more)


def call(iteration: int, id: str, name: str, arguments: str) -> LogEntry:
    return entry("tool_call_start", iteration, id, name=name, arguments=arguments)


def test_a_line_has_the_model_call_and_the_outcomes_of_its_tools() -> None:
    entries = [
        reply(1, model="openai/gpt-4o"),
        call(1, "a", "get_weather", '{"city": "Paris", "days": [1, 2]}'),
        entry("tool_result", 1, "a", name="get_weather", result="sunny"),
        call(1, "b", "pay", '{"amount": 7}'),
        entry("error", 1, "b", message="Error: no money"),
        entry("tool_result", 1, "b", name="pay", result="Error: no money"),
        call(1, "c", "drop", "{}"),
        entry("tool_result", 1, "c", name="drop", result="Tool denied", isDenied=True),
        call(1, "d", "sleep", "not JSON"),
    ]
    assert iteration_lines(entries) == [
        "1 · `openai/gpt-4o` · 1,240 → 33 tokens · $0.031 · "
        "✓ `get_weather(city='Paris', days=[1, 2])` · ✗ `pay(amount=7)` · ✗ `drop()` · "
        "▶ `sleep(not JSON)`"
    ]


def test_hostile_texts_of_many_iterations_stay_few_short_lines() -> None:
    name, arguments = "t|`\n" * 90, json.dumps({"東": "京|`" * 100_000})
    entries: list[LogEntry] = []
    for number in range(1, 2 * MAX_ITERATIONS + 1):
        entries.append(reply(number, model="a|b`c\n" * 50))
        entries += [call(number, str(each), name, arguments) for each in range(2 * MAX_SHOWN)]
    lines = iteration_lines(entries)
    assert [line.split(" · ")[0] for line in lines] == ["5", "6", "7", "8"]
    assert all(line.count("▶") == MAX_SHOWN and "\n" not in line for line in lines)
    assert all(line.count("`") % 2 == 0 and len(line) < 600 for line in lines)


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
