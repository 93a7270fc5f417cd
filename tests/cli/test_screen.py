"""A person at a terminal: watches a run, decides, steers, cancels, leaves."""

from __future__ import annotations

import re
import uuid

import pytest
from temporalio.client import Client

from perdure.client import get_run

from ..support.command_line import AGENT
from ..support.tmux import Tmux
from ..support.waiting import wait_for

ADVICE = "Ctrl-C again, or Ctrl-D, detaches"


@pytest.fixture
def run_id() -> str:
    return f"seen-{uuid.uuid4().hex[:8]}"


def paying(run_id: str) -> tuple[str, ...]:
    return (
        "run",
        "pay.prompty",
        "--tools",
        "paying.py",
        "--scripted",
        "paying.py:script",
        "--id",
        run_id,
    )


def slow(run_id: str, seconds: int) -> tuple[str, ...]:
    script = ("--tools", "tools.py", "--scripted", "tools.py:script")
    return (
        "run",
        "ages.prompty",
        *script,
        "-i",
        "person=Ann",
        "-i",
        f"wait={seconds}",
        "--cancel-grace",
        "0",
        "--id",
        run_id,
    )


async def test_what_waits_is_approved_from_a_second_terminal(tmux: Tmux, run_id: str) -> None:
    running = await tmux.perdure(*paying(run_id), folder=AGENT, columns=100)
    await running.shows(r"pay\(\{\"amount\": 7\}\) waits for approval\n +y = yes, n REASON = no")
    watching = await tmux.perdure("watch", run_id, folder=AGENT, columns=60)
    await watching.shows("y = yes, n REASON = no")
    watching.type("y")
    await running.ends()
    await watching.ends()
    for pane in (running, watching):
        assert "  model: " in pane.text
        assert "pay approved by" in pane.text
        assert re.search(r"    → paid 7", pane.text)
        assert "\npaid 7\n" in pane.text, "the answer"
    assert f"perdure approve {run_id}" not in running.text, "it was decided, though not here"


def talking(*arguments: str) -> tuple[str, ...]:
    return (
        "run",
        "talker.prompty",
        "--tools",
        "talking.py",
        "--scripted",
        "talking.py:script",
        *arguments,
    )


async def test_streamed_text_is_the_answer(tmux: Tmux) -> None:
    pane = await tmux.perdure(*talking("-i", "said=hello", "--stream"), folder=AGENT, columns=100)
    await pane.ends()
    assert pane.text.count("\nHeard: hello.\n") == pane.text.count("Heard:") == 1


async def test_an_answer_other_than_what_was_streamed_is_printed(tmux: Tmux) -> None:
    guarded = ("--guardrails", "talking.py:polite")
    pane = await tmux.perdure(
        *talking("-i", "said=hello", "--stream", *guarded), folder=AGENT, columns=100
    )
    await pane.ends()
    assert "\nPlease: Heard: hello.\n" in pane.text
    assert pane.text.count("Heard: hello.") == 2


async def test_ctrl_c_steers_and_cancels_on_a_narrow_terminal(
    tmux: Tmux, client: Client, run_id: str
) -> None:
    pane = await tmux.perdure(*slow(run_id, 600), folder=AGENT, columns=40)
    await pane.shows("[.0-9]+ s look_up_age")
    pane.press("C-c")
    await pane.shows(ADVICE)
    pane.type("and Bo?")
    await pane.shows("sent; the agent reads it")

    async def steered() -> bool:
        return (await get_run(client, run_id).status()).pending_steering == 1

    await wait_for(steered)
    await pane.shows("[.0-9]+ s look_up_age")
    pane.type("/cancel")
    await pane.ends()
    assert f"Run {run_id} ended without a result (cancelled)" in pane.text
    assert (await get_run(client, run_id).status()).status == "cancelled"


@pytest.mark.trial
async def test_a_second_ctrl_c_detaches_and_loses_nothing(
    tmux: Tmux, client: Client, run_id: str
) -> None:
    pane = await tmux.perdure(*slow(run_id, 3), folder=AGENT, columns=200)
    await pane.shows("[.0-9]+ s look_up_age")
    pane.press("C-c")
    await pane.shows(ADVICE)
    pane.press("C-c")
    await pane.ends()
    assert f"Run {run_id} waits for a worker.\n  go on: perdure resume {run_id}\n" in pane.text
    assert (await get_run(client, run_id).status()).status == "running"
    resumed = await tmux.perdure("resume", run_id, folder=AGENT, columns=80)
    await resumed.ends()
    assert "\nAnn is 30.\n" in resumed.text
    late = await tmux.perdure("watch", run_id, folder=AGENT, columns=80)
    await late.ends()
    assert "    → Ann is 30" in late.text
    assert "\nAnn is 30.\n" in late.text
