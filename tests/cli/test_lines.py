"""What is said of a run's events, and what is under way meanwhile: nothing of what a model wrote
acts on a terminal.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.cli.console import short_call, styled
from perdure.cli.lines import Story
from perdure.cli.progress import Progress
from perdure.events import RunEvent

EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202e"


def event(
    type: Any, time: float = 0.0, *, iteration: int = 1, call: str | None = None, **data: Any
) -> RunEvent:
    run_id = data.pop("of", None)
    return RunEvent(
        seq=1, type=type, iteration=iteration, data=data, time=time, call_id=call, run_id=run_id
    )


def written(*events: RunEvent) -> list[str]:
    """The lines that stay, after all these events."""
    story = Story("r", is_live=True)
    return [line.text for each in events for line in story.lines(each)]


def test_what_was_streamed_begins_anew_with_a_retry() -> None:
    progress = Progress("r")
    for each in (
        event("llm_start"),
        event("token", token="Hal"),
        event("text_reset"),
        event("token", token="Hi"),
    ):
        progress.show(each)
    assert progress.streamed_text == "Hi"


USAGE = {"input_tokens": 1240, "output_tokens": 56}


def test_an_iteration_and_its_tools() -> None:
    assert written(
        event("llm_start", 10),
        event("llm_complete", 12.5, usage=USAGE, costUsd=0.0125),
        event("tool_call_start", 12.5, call="a", name="look", arguments='{"at": "sky"}'),
        event("tool_call_start", 12.5, call="b", name="look", arguments="{oops"),
        event("error", 13, call="b", message="Error: no"),
        event("tool_result", 13, call="b", name="look", result="Error: no"),
        event("tool_result", 105, call="a", name="look", result="blue\nwide"),
    ) == [
        "  model: 1,240 tokens in, 56 out, $0.013, 2.5 s",
        '  look({"at": "sky"})',
        "  look({oops)",
        "    → Error: no",
        "    → blue wide (2 lines), 1 min 32 s",
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
        '  research({"topic": "bees"})',
        "    run r/1-0",
        "    model: 1,240 tokens in, 56 out, 1.0 s",
        "    look({})",
        "      → bees, 1.0 s",
        "    → many, 3.0 s",
    ]


def test_what_is_under_way() -> None:
    story = Story("r", is_live=True)
    for each in (
        event("tool_call_start", call="a", name="look", arguments="{}"),
        event("tool_progress", call="a", name="look", done=1, total=3, text="far"),
        event("tool_call_start", call="b", name="pay", arguments="{}"),
        event(
            "permission_requested", call="b", name="pay", arguments={}, digest="d", kind="approval"
        ),
    ):
        list(story.lines(each))
    first, second = (line.text for line in story.under_way())
    assert first.endswith(" look({})  1/3 far")
    assert second.endswith(" waits for a person: pay({})")
    list(story.lines(event("done")))
    assert story.under_way() == []


def test_waiting_for_a_person_is_no_time_of_the_tool() -> None:
    lines = written(
        event("tool_call_start", 1, call="a", name="pay", arguments="{}"),
        event(
            "permission_requested",
            1,
            call="a",
            name="pay",
            arguments={},
            digest="d",
            kind="approval",
        ),
        event(
            "permission_completed",
            61,
            call="a",
            name="pay",
            arguments=None,
            approved=True,
            by="ann",
        ),
        event("tool_result", 62, call="a", name="pay", result="paid"),
    )
    assert lines == [
        "  pay({})",
        "  pay approved by ann (claimed)",
        "    → paid, 1.0 s",
    ]


def test_nothing_acts_on_the_terminal() -> None:
    lines = written(
        event("llm_start"),
        event("llm_complete", usage=USAGE),
        event("tool_call_start", call="a", name=f"look{EVIL}", arguments=EVIL),
        event("child_started", call="a", name=EVIL, run_id=EVIL, first_run_id="x"),
        event("tool_result", call="a", name=EVIL, result=EVIL),
        event("status", message=EVIL),
        event(
            "permission_requested",
            call="a",
            name=EVIL,
            arguments={"x": EVIL},
            digest="d",
            reason=EVIL,
        ),
        event("permission_completed", call="a", name=EVIL, approved=False, reason=EVIL, by=EVIL),
    )
    said = "".join(styled(line, "plain") for line in lines)
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)


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
