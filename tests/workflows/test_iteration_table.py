"""The table of the last iterations that Temporal shows, from the events of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.events import LogEntry
from perdure.loop.state import LoopState
from perdure.messages import Message, ModelReply
from perdure.text import url_chars
from perdure.workflows.iteration_table import MAX_ROWS, MAX_URL_CHARS, IterationTable, call_text
from perdure.workflows.ui import MAX_SUMMARY_BYTES, bounded_summary, model_call_summary

USAGE = {"input_tokens": 1240, "output_tokens": 33}


class Told:
    """A table, and a clock by which it is told of events."""

    def __init__(self, rows: Any = ()) -> None:
        self.table = IterationTable("default", rows)
        self.time = 36000.0
        self.iteration = 0
        self.reply: ModelReply | None = None
        self.answered = 0
        """The iteration whose reply it is."""

    def tell(self, type: Any, call_id: str | None = None, **data: Any) -> None:
        self.time += 0.25
        entry = LogEntry(type, self.iteration, data, self.time, call_id, 0)  # type: ignore[arg-type]
        said = self.reply.message.text if self.reply and self.answered == self.iteration else ""
        self.table.follow(entry, self.reply, said)

    def begin(self, text: str = "", model: str = "gpt-4o") -> None:
        self.iteration += 1
        self.tell("llm_start")
        self.reply, self.answered = ModelReply(message=Message.assistant(text), model=model), self.iteration
        self.tell("llm_complete", usage=USAGE, finishReason="stop", costUsd=0.031)

    def ask(self, name: str, id: str, arguments: str) -> None:
        self.tell("tool_call_start", id, name=name, arguments=arguments)


def test_a_row_says_what_the_model_did_and_how_its_tools_ended() -> None:
    told = Told()
    told.begin("I look.")
    told.ask("get_weather", "a", '{"city": "Paris", "days": [1, 2]}')
    told.tell("tool_result", "a", name="get_weather", result="sunny")
    told.ask("pay", "b", '{"amount": 7}')
    told.tell("error", "b", message="Error: Tool 'pay' failed: ValueError: no money")
    told.tell("tool_result", "b", name="pay", result="Error: …")
    told.ask("drop", "c", "{}")
    told.tell("tool_result", "c", name="drop", result="Tool denied: not today", isDenied=True)
    told.ask("sleep", "d", "not JSON")
    (row,) = told.table.rows
    assert row == (
        "| 1\u00a0 | `gpt-4o`\u00a0<br>1,240\u00a0→\u00a033\u00a0<br>$0.031\u00a0 | `I look.`<br>✓ "
        "`get_weather(city='Paris', days=[1, 2])` 250 ms<br>✗ `pay(amount=7)` 500 ms: `ValueError: no money`"
        "<br>✗ `drop()` `Tool denied: not today`<br>▶ `sleep(not JSON)` runs since 10:00:02 UTC |"
    )


def test_a_row_has_the_text_of_its_own_iteration() -> None:
    """Also where the conversation is cut before the model has answered."""
    told = Told()
    told.begin("I look.")
    told.ask("look", "a", "{}")
    told.iteration += 1
    told.tell("messages_updated")
    told.tell("llm_start")
    told.tell("messages_updated")
    assert ["I look." in row for row in told.table.rows] == [True, False]


@pytest.mark.parametrize("text", ["", "Second."])
def test_the_last_text_is_known_for_that_of_its_iteration(text: str) -> None:
    state = LoopState(iteration=1)
    state.note("First.", [])
    state.iteration = 2
    state.note(text, [])
    assert (state.last_text, state.said_in) == (("Second.", 2) if text else ("First.", 1))


def test_nothing_is_under_way_in_a_run_that_has_ended() -> None:
    told = Told()
    told.begin("I look.")
    told.ask("look", "a", "{}")
    told.tell("cancelled")
    assert "✗ `look()` has not ended |" in told.table.rows[0]
    assert "runs since" not in told.table.rows[0]


def test_a_call_that_waits_for_a_person_and_one_that_is_a_run() -> None:
    told = Told()
    told.begin()
    told.ask("pay", "a", "{}")
    told.tell("permission_requested", "a", name="pay")
    assert "▶ `pay()` waits for a person since" in told.table.rows[0]
    told.tell("permission_completed", "a", name="pay", approved=True)
    assert "▶ `pay()` runs since" in told.table.rows[0]
    told.tell("child_started", "a", name="pay", run_id="run/1-0", first_run_id="x")
    assert "[`run/1-0`](/namespaces/default/workflows/run%2F1-0)" in told.table.rows[0]
    assert told.table.called_runs == 1


def test_only_the_last_rows_are_shown_and_few_calls_of_each() -> None:
    told = Told(["| old |"])
    for _ in range(MAX_ROWS - 1):
        told.begin()
    assert told.table.rows[0] == "| old |"
    told.begin()
    for number in range(50):
        told.ask("look", f"c{number}", "{}")
    rows = told.table.rows
    assert len(rows) == MAX_ROWS
    assert rows[0].startswith("| 1")
    assert rows[-1].count("look()") == 5
    assert "and 45 more" in rows[-1]


def test_the_same_id_again_is_another_call() -> None:
    told = Told()
    told.begin()
    told.ask("look", "a", '{"at": 1}')
    told.tell("tool_result", "a", name="look", result="x")
    told.ask("look", "a", '{"at": 2}')
    assert "✓ `look(at=1)`" in told.table.rows[0]
    assert "▶ `look(at=2)`" in told.table.rows[0]


def test_what_a_model_writes_stays_short_and_in_its_cell() -> None:
    told = Told()
    for _ in range(2 * MAX_ROWS):
        told.begin("東京 | `x` <img src=http://e/x.png>\n\n# h " * 5_000, model="a|b`c\n" * 50)
        for number in range(8):
            told.ask("t|`\n" * 90, f"{number}", json.dumps({"東": "京|`" * 100_000}))
            told.tell("error", f"{number}", message="<b>|`" * 100_000)
            told.tell("tool_result", f"{number}", name="x", result="|`" * 100_000)
    table = told.table.markdown()
    assert all(line.count("|") == 4 for line in table.splitlines())
    assert table.count("`") % 2 == 0
    assert url_chars("".join(told.table.rows[:-1])) <= MAX_URL_CHARS
    assert url_chars(table) < 3 * MAX_URL_CHARS


def test_a_calls_arguments_are_cut_before_they_are_written_out() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    assert len(call_text("look", {"x": "y" * 1_000_000, "deep": deep, "list": list(range(10_000))})) < 600
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
    assert model_call_summary("i", "", 0, list("abcdefg")).endswith("after a, b, c, d, 3 other tools")
    for text in ("é\n" * 400, "東" * 400, "\x00" * 400):
        assert len(bounded_summary(text).encode()) <= MAX_SUMMARY_BYTES
