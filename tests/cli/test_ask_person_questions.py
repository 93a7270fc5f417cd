"""A question of the model's on the command line: on the terminal that watches the run, and in
another one.
"""

from __future__ import annotations

import asyncio
import uuid

import pytest
from temporalio.client import Client

from perdure.client import get_run

from ..support.command_line import AGENT, Cli
from ..support.tmux import Tmux
from ..support.waiting import wait_for


@pytest.fixture
def run_id() -> str:
    return f"ask-{uuid.uuid4()}"


def asking(run_id: str) -> tuple[str, ...]:
    return ("run", "ask.prompty", "--scripted", "asking.py:script", "--id", run_id)


async def test_the_terminal_takes_the_answer(tmux: Tmux, run_id: str) -> None:
    pane = await tmux.perdure(*asking(run_id), folder=AGENT, columns=120)
    await pane.shows(r"Where to\?[^§]*2\. Oslo[^§]*your answer, or the number of a choice")
    pane.type("Paris")
    await pane.shows("not among the choices: expected one of 'Rome', 'Oslo'")
    pane.type("2")
    await pane.ends()
    assert "ask_user answered by" in pane.text
    assert "\nbooked Oslo\n" in pane.text


async def test_another_terminal_answers(cli: Cli, client: Client, run_id: str) -> None:
    async def waits() -> bool:
        return bool((await get_run(client, run_id).status()).pending_approvals)

    running = await cli.start(*asking(run_id))
    await running.says(f"perdure answer {run_id} c1 TEXT")
    await wait_for(waits)
    approved, status = await asyncio.gather(cli("approve", run_id), cli("status", run_id))
    assert approved.code == 1
    assert "it is a question: answer it, or deny it with a reason" in approved.stderr
    assert "waits for an answer since 20" in status.stdout
    assert f": perdure answer {run_id} c1 TEXT" in status.stdout
    assert f"  or perdure deny {run_id} c1" in status.stdout
    pasted = await cli("answer", run_id, "c1", "TEXT")
    assert (pasted.code, "TEXT is a placeholder" in pasted.stderr) == (2, True), pasted
    answered = await cli("answer", run_id, "c1", "Rome", "--by", "ann")
    assert (answered.code, answered.stdout) == (0, "")
    assert "Answered 'Rome' to ask_user(" in answered.stderr
    assert (await running.finish()).stdout == "booked Rome\n"
