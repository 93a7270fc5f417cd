"""The test cluster: what its processes are configured with, and whether its checkers find what is
planted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster import dynamic
from cluster.chaos import check_effects
from cluster.chaos.check_effects import Checked, Entry
from cluster.chaos.shapes import SCRIPTS, mark, position, reply

RUN = "c1"


def diary(tool: str, text: str = "c1/0/0", **more: Any) -> Entry:
    given = {"at": 1.0, "event": "start", "tool": tool, "text": text, "run": RUN, "pid": 1}
    return {**given, "key": "k", **more}


def request(step: int, messages: list[Entry], shape: str = "steered") -> Entry:
    return {
        "at": 1.0 + step,
        "event": "asked",
        "run": RUN,
        "shape": shape,
        "step": step,
        "messages": messages,
    }


def conversation(shape: str, *more: Entry) -> list[Entry]:
    """The messages of the second request of a run."""
    return [
        {"role": "system", "content": "You work."},
        {"role": "user", "content": mark(RUN, shape)},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_0_0"}]},
        {"role": "tool", "tool_call_id": "call_0_0", "content": "done"},
        *more,
    ]


STEERED = {"at": 1.0, "event": "steered", "run": RUN, "text": "steering 0"}
SECOND = {"role": "user", "content": "steering 0"}
ENDED = {"at": 9.0, "event": "ended", "run": RUN, "shape": "plain", "ends": ["done"]}
ENDS = {RUN: {"end": "COMPLETED", "result": {}}}


def steering(messages: list[Entry], *sent: Entry) -> Callable[[Checked], None]:
    return lambda checked: check_effects._steering([request(1, messages)], [*sent], ENDS, checked)


def conversations(*requests: Entry) -> Callable[[Checked], None]:
    return lambda checked: check_effects._conversations([*requests], [], checked)


def effects(*entries: Entry) -> Callable[[Checked], None]:
    return lambda checked: check_effects._effects([*entries], checked)


def ends(*entries: Entry, known: dict[str, Entry] = ENDS) -> Callable[[Checked], None]:
    return lambda checked: check_effects._ends([*entries], known, checked)


FINE = {"output": f"done {RUN}"}
PLANTED: dict[str, tuple[Callable[[Checked], None], str]] = {
    "a payment twice": (effects(diary("pay"), diary("pay")), "an effect comes once"),
    "another key": (effects(diary("step"), diary("step", key="l")), "a call keeps its key"),
    "no result of a call": (
        conversations(request(1, conversation("plain")[:3])),
        "each call has one result",
    ),
    "two results of a call": (
        conversations(request(1, [*conversation("plain"), conversation("plain")[3]])),
        "a result answers a call",
    ),
    "another past": (
        conversations(
            request(1, conversation("plain")),
            request(2, [*conversation("plain")[:3], SECOND, conversation("plain")[3]]),
        ),
        "a conversation goes on where it was",
    ),
    "steering lost": (steering(conversation("steered"), STEERED), "accepted steering is not lost"),
    "steering twice": (
        steering(conversation("steered", SECOND, SECOND), STEERED),
        "steering is read once, in order",
    ),
    "two ends": (ends({**ENDED, **FINE, "ends": ["done", "done"]}), "a reader sees one end"),
    "failed": (ends({**ENDED, "ends": ["failed"]}), "a reader sees one end"),
    "another answer": (ends({**ENDED, "output": "done c2"}), "the answer is right"),
    "lost": (
        ends({"at": 1.0, "event": "started", "run": RUN, "shape": "plain"}, known={}),
        "an accepted run is recorded",
    ),
    "denied and done": (
        lambda checked: check_effects._decisions(
            [diary("approved")], [{"event": "denied", "run": RUN}], checked
        ),
        "what is denied is not done",
    ),
    "approved and done twice": (
        lambda checked: check_effects._decisions(
            [diary("approved")] * 2, [{"event": "approved", "run": RUN}], checked
        ),
        "a decision counts once",
    ),
    "nobody told": (
        lambda checked: check_effects._hooks([], [{**ENDED, "shape": "webhook"}], checked),
        "a webhook is told of the end",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_checker_finds(name: str) -> None:
    look, what = PLANTED[name]
    checked = Checked()
    look(checked)
    assert [each for each in checked.wrong if each.startswith(what)]


def test_the_checker_has_nothing_against_what_is_right() -> None:
    checked = Checked()
    for look in (
        effects(diary("pay"), diary("step"), diary("step")),
        steering(conversation("steered", SECOND), STEERED),
        conversations(
            request(0, conversation("plain")[:2]), request(1, conversation("plain", SECOND))
        ),
        ends({**ENDED, **FINE}),
    ):
        look(checked)
    assert checked.wrong == []
    assert checked.counts["repeated calls"] == 1


@pytest.mark.parametrize("shape", SCRIPTS)
def test_the_model_knows_where_each_run_stands(shape: str) -> None:
    messages: list[Entry] = [{"role": "user", "content": mark(RUN, shape)}]
    for step in range(len(SCRIPTS[shape]) + 1):
        assert position(messages) == (RUN, shape, step)
        messages.append(reply(RUN, shape, step))
    assert messages[-1]["content"] == f"done {RUN}"


def test_recovery_is_from_the_kill_to_what_the_run_does_next(tmp_path: Path) -> None:
    entries = {
        "diary": [diary("step", at=10.0, pid=7), diary("step", at=16.0, pid=8)],
        "faults": [{"fault": "kill_worker", "at": 11.0, "pid": 7}],
    }
    for name, lines in entries.items():
        text = "\n".join(map(json.dumps, lines))
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert check_effects._recoveries(tmp_path) == [5.0]


def test_the_profile_of_compose_has_the_environment_of_the_file() -> None:
    given = dynamic.compose_environment("secret")
    assert given["POSTGRES_PWD"] == given["SQL_PASSWORD"] == "secret"
    assert (given["DB"], given["NUM_HISTORY_SHARDS"]) == ("postgres12", "128")
    assert not [name for name, value in given.items() if "$" in value]
