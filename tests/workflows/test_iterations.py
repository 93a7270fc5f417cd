"""The last iterations that Temporal shows, from the events of a run."""

from __future__ import annotations

import json
from typing import Any

from perdure.events import LogEntry
from perdure.text import url_chars
from perdure.workflows.iterations import (
    MAX_LINES,
    MAX_URL_CHARS,
    call_text,
    iterations_of,
    lines_of,
)
from perdure.workflows.ui import MAX_SUMMARY_BYTES, bounded_summary, model_call_summary

USAGE = {"input_tokens": 1240, "output_tokens": 33}


class Told:
    """Events, and a clock by which they come."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.time = 36000.0
        self.iteration = 0

    @property
    def lines(self) -> list[str]:
        return lines_of(iterations_of(self.entries))

    def tell(self, type: Any, call_id: str | None = None, **data: Any) -> None:
        self.time += 0.25
        self.entries.append(LogEntry(type, self.iteration, data, self.time, call_id, 0))

    def begin(self, model: str = "") -> None:
        self.iteration += 1
        self.tell("llm_start")
        self.tell(
            "llm_complete",
            usage=USAGE,
            finishReason="stop",
            costUsd=0.031,
            **({"model": model} if model else {}),
        )

    def ask(self, name: str, id: str, arguments: str) -> None:
        self.tell("tool_call_start", id, name=name, arguments=arguments)


def test_a_line_says_what_the_model_call_took_and_how_its_tools_ended() -> None:
    told = Told()
    told.begin("openai/gpt-4o")
    told.ask("get_weather", "a", '{"city": "Paris", "days": [1, 2]}')
    told.tell("tool_result", "a", name="get_weather", result="sunny")
    told.ask("pay", "b", '{"amount": 7}')
    told.tell("error", "b", message="Error: Tool 'pay' failed: ValueError: no money")
    told.tell("tool_result", "b", name="pay", result="Error: …")
    told.ask("drop", "c", "{}")
    told.tell("tool_result", "c", name="drop", result="Tool denied: not today", isDenied=True)
    told.ask("sleep", "d", "not JSON")
    assert told.lines == [
        "- 1 · `openai/gpt-4o` · 1,240 → 33 tokens · $0.031 · ✓ `get_weather(city='Paris', "
        "days=[1, 2])` · "
        "✗ `pay(amount=7)` `ValueError: no money` · ✗ `drop()` `Tool denied: not today` · ▶ "
        "`sleep(not JSON)`"
    ]


def test_nothing_is_under_way_in_a_run_that_has_ended() -> None:
    told = Told()
    told.begin()
    told.ask("look", "a", "{}")
    told.tell("cancelled")
    assert told.lines[0].endswith("✗ `look()` has not ended")


def test_only_the_last_iterations_are_shown_and_few_calls_of_each() -> None:
    told = Told()
    for _ in range(2 * MAX_LINES):
        told.begin()
    for number in range(50):
        told.ask("look", f"c{number}", "{}")
    assert [line.split(" · ")[0] for line in told.lines] == [
        f"- {number}" for number in range(5, 9)
    ]
    assert told.lines[-1].count("look()") == 5
    assert told.lines[-1].endswith("and 45 more")


def test_the_same_id_again_is_another_call() -> None:
    told = Told()
    told.begin()
    told.ask("look", "a", '{"at": 1}')
    told.tell("tool_result", "a", name="look", result="x")
    told.ask("look", "a", '{"at": 2}')
    assert "✓ `look(at=1)` · ▶ `look(at=2)`" in told.lines[0]


def test_what_a_model_writes_stays_short_and_in_its_line() -> None:
    told = Told()
    for _ in range(2 * MAX_LINES):
        told.begin(model="a|b`c\n" * 50)
        for number in range(8):
            told.ask("t|`\n" * 90, f"{number}", json.dumps({"東": "京|`" * 100_000}))
            told.tell("error", f"{number}", message="<b>|`" * 100_000)
            told.tell("tool_result", f"{number}", name="x", result="|`" * 100_000)
    shown = "\n".join(told.lines)
    assert all(line.startswith("- ") for line in shown.splitlines())
    assert shown.count("`") % 2 == 0
    assert len(told.lines) == 1 or url_chars(shown) <= MAX_URL_CHARS
    assert url_chars(told.lines[-1]) < 2 * MAX_URL_CHARS


def test_a_calls_arguments_are_cut_before_they_are_written_out() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    assert (
        len(call_text("look", {"x": "y" * 1_000_000, "deep": deep, "list": list(range(10_000))}))
        < 600
    )
    assert call_text("look", "[" * 1_000).startswith("look([[[")
    assert call_text("look", "[1]") == "look([1])"
    assert call_text("look", "") == "look()"


def test_a_summary_has_no_markup_and_no_control_characters() -> None:
    hostile = "a\x1b[31m\u202e<img src=x> ![i](http://x.example) [x](javascript:alert(1))\x00"
    shown = bounded_summary(call_text(hostile, {hostile: hostile}))
    assert not any(each in shown for each in ("<img", "](", "\x1b", "\x00", "\u202e"))


def test_a_summary_is_one_short_line() -> None:
    assert model_call_summary("iteration 3", "gpt-4o", 1240, ["look", "find", "look"]) == (
        "iteration 3 · gpt-4o · 1,240 tokens so far · after 2 × look, find"
    )
    assert model_call_summary("iteration 1", "", 0, []) == "iteration 1"
    assert "and" not in model_call_summary("iteration 2", "m", 5, ["a"])
    assert model_call_summary("i", "", 0, list("abcdefg")).endswith(
        "after a, b, c, d, 3 other tools"
    )
    for text in ("é\n" * 400, "東" * 400, "\x00" * 400):
        assert len(bounded_summary(text).encode()) <= MAX_SUMMARY_BYTES
