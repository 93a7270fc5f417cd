"""How `perdure run` and `perdure events` show how far a tool is."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.cli.lines import sentence
from perdure.cli.progress import Progress
from perdure.events import RunEvent


def told(done: float, call: str = "c1", **more: Any) -> RunEvent:
    data = {
        "name": "work",
        "callId": call,
        "done": done,
        "total": 2000,
        "text": "step\nby step",
        **more,
    }
    return RunEvent(seq=2, type="tool_progress", iteration=1, data=data, call_id=call)


def test_a_line_for_each_call_and_second(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("r")
    for seq, call in enumerate(("c1", "c2")):
        data = {"name": "work", "arguments": "{}"}
        progress.show(
            RunEvent(seq=seq, type="tool_call_start", iteration=1, data=data, call_id=call)
        )
    capsys.readouterr()
    for event in (told(1), told(2), told(0.5, "c2", total=None, text="")):
        progress.show(event)
    assert capsys.readouterr().err.split("\n") == [
        "    work: 1/2,000 step by step",
        "    work: 0.5",
        "",
    ]


def test_a_failure_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress, text = Progress("r"), "Error: Tool 'work' failed"
    progress.show(RunEvent(seq=1, type="error", iteration=1, data={"message": text}, call_id="c1"))
    for seq in (2, 3):
        progress.show(
            RunEvent(seq=seq, type="tool_result", iteration=1, data={"result": text}, call_id="c1")
        )
    assert capsys.readouterr().err == 2 * f"    → {text}\n"


def test_what_it_says() -> None:
    assert sentence(told(1999)) == "work: 1,999/2,000 step by step"


def test_thoughts_and_text_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("r")
    said = [("thinking", "Hm"), ("thinking", "."), ("token", "It "), ("token", "is.")]
    for seq, (type, text) in enumerate(said):
        progress.show(RunEvent(seq=seq, type=type, iteration=1, data={"token": text}))  # type: ignore[arg-type]
    progress.end_line()
    assert capsys.readouterr().err == "Hm.\nIt is.\n"


def test_a_status_and_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("r")
    for seq, message in enumerate(["Waiting 2 s...", "The conversation is cut to 300 characters"]):
        data = {"message": message, "reason": "Too much\nof it"}
        progress.show(RunEvent(seq=seq, type="status", iteration=1, data=data))
    said = capsys.readouterr().err.split("\n")
    assert said == [
        "  Waiting 2 s... Too much of it",
        "  The conversation is cut to 300 characters: Too much of it",
        "",
    ]


def test_a_limit_that_lasts_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("r")
    for seq in range(1, 4):
        reason = f"Too much (status 429, request r{seq})"
        data = {"message": f"Rate limit reached, waiting {seq} s...", "reason": reason}
        progress.show(RunEvent(seq=seq, type="status", iteration=1, data=data))
    said = "  Rate limit reached, waiting 1 s... Too much (status 429, request r1)"
    assert capsys.readouterr().err.split("\n") == [said, ""]


def test_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    data = {
        "type": "progress",
        "step": 2,
        "max_steps": 5,
        "action": "delegate",
        "target": "researcher",
    }
    Progress("r").show(RunEvent(seq=1, type="progress", iteration=2, data=data, call_id="c1"))
    assert capsys.readouterr().err == "    step 2 of 5\n"
