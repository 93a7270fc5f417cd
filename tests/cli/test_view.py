"""What a terminal shows of a run, at any width: nothing of what a model wrote acts on it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from perdure.cli.console import short_call
from perdure.cli.under_way import FlowingText, UnderWay
from perdure.cli.view import EventLines
from perdure.events import RunEvent

EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202e"


def console(width: int = 60) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False, markup=False, emoji=False)


def event(type: Any, time: float = 0.0, *, iteration: int = 1, call: str | None = None, **data: Any) -> RunEvent:
    run_id = data.pop("of", None)
    return RunEvent(seq=1, type=type, iteration=iteration, data=data, time=time, call_id=call, run_id=run_id)


def written(*events: RunEvent, width: int = 200) -> list[str]:
    """The lines that stay, after all these events."""
    lines = EventLines("r", "some-model", UnderWay(), FlowingText(console(width)))
    return [line.text.plain for each in events for line in lines.lines(each)]


def test_what_was_streamed_begins_anew_with_a_retry() -> None:
    lines = EventLines("r", "some-model", UnderWay(), FlowingText(console()))
    for each in (event("llm_start"), event("token", token="Hal"), event("text_reset"), event("token", token="Hi")):
        list(lines.lines(each))
    assert lines.last_text == "Hi"


USAGE = {"input_tokens": 1240, "output_tokens": 56}


def test_an_iteration_and_its_tools() -> None:
    assert written(
        event("llm_start", 10),
        event("llm_complete", 12.5, usage=USAGE, costUsd=0.0125),
        event("cost_warning", 12.5, costUsd=0.0125, warnCostUsd=0.01, maxCostUsd=0.5),
        event("tool_call_start", 12.5, call="a", name="look", arguments='{"at": "sky"}'),
        event("tool_call_start", 12.5, call="b", name="look", arguments="{oops"),
        event("error", 13, call="b", message="Error: no"),
        event("tool_result", 13, call="b", name="look", result="Error: no"),
        event("tool_result", 105, call="a", name="look", result="blue\nwide"),
    ) == [
        " 1  some-model  2.5 s  $0.013  1,240 tokens in, 56 out",
        "    the run has cost $0.013 (--warn-cost-usd); it ends at $0.50 (--max-cost-usd)",
        "    ✗ 0.5 s  look({oops)",
        "      → Error: no",
        '    ✓ 1 min 32 s  look(at="sky")',
        "      → 2 lines: blue wide",
    ]


def test_a_called_run_is_indented_below_its_call() -> None:
    assert written(
        event("tool_call_start", 1, call="a", name="research", arguments='{"topic": "bees"}'),
        event("child_started", 1, call="a", name="research", run_id="r/1-0", first_run_id="x"),
        event("llm_start", 1, of="r/1-0"),
        event("llm_complete", 2, of="r/1-0", usage=USAGE),
        event("tool_call_start", 2, call="a", of="r/1-0", name="look", arguments="{}"),
        event("tool_result", 3, call="a", of="r/1-0", name="look", result="bees"),
        event("tool_result", 4, call="a", name="research", result="many"),
    ) == [
        '    ↳ research(topic="bees")',
        "      run r/1-0",
        "     1  research  1.0 s  1,240 tokens in, 56 out",
        "        ✓ 1.0 s  look()",
        "          → bees",
        "    ✓ 3.0 s  research",
        "      → many",
    ]


def test_waiting_for_a_person_is_no_time_of_the_tool() -> None:
    lines = written(
        event("tool_call_start", 1, call="a", name="pay", arguments="{}"),
        event("permission_requested", 1, call="a", name="pay", arguments={}, digest="d", kind="approval"),
        event("permission_completed", 61, call="a", name="pay", arguments=None, approved=True, by="ann"),
        event("tool_result", 62, call="a", name="pay", result="paid"),
    )
    assert lines[:2] == ["    pay approved by ann (claimed)", "    ✓ 1.0 s  pay()  after 1 min of waiting for a person"]


def test_nothing_acts_on_the_terminal() -> None:
    lines = written(
        event("llm_start"),
        event("token", token=EVIL + "[bold]:smile:"),
        event("llm_complete", usage=USAGE),
        event("tool_call_start", call="a", name=f"look{EVIL}", arguments=EVIL),
        event("child_started", call="a", name=EVIL, run_id=EVIL, first_run_id="x"),
        event("tool_result", call="a", name=EVIL, result=EVIL),
        event("status", message=EVIL),
        event("permission_requested", call="a", name=EVIL, arguments={"x": EVIL}, digest="d", reason=EVIL),
        event("permission_completed", call="a", name=EVIL, approved=False, reason=EVIL, by=EVIL),
    )
    said = "".join(lines)
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)
    assert "[bold]:smile:" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_text_flows_in_lines_that_fit(width: int) -> None:
    text = "Many words of several lengths, 漢字 too, go by.\n\n" * 5 + "x" * 500 + " end"
    flow, lines = FlowingText(console(width)), []
    for start in range(0, len(text), 7):
        lines += [line.plain for line in flow.add(text[start : start + 7], "dim")]
    lines += [line.plain for line in flow.end()]
    assert max(console().measure(line).maximum for line in lines) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"city": "Paris", "days": 2}', 'f(city="Paris", days=2)'),
        ("", "f()"),
        ("[1]", "f([1])"),
        ("{broken\n", "f({broken)"),
        ({"a": {"b": None}}, 'f(a={"b": null})'),
    ],
)
def test_a_call_in_few_words(arguments: Any, said: str) -> None:
    assert short_call("f", arguments) == said
