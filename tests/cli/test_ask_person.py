"""On a terminal, the command that watches a run asks the person who sits there; `ls --waiting`
tells of the others.
"""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
from temporalio.client import Client

from perdure.client import get_run

from ..support.command_line import AGENT, Cli
from ..support.tmux import Tmux
from ..support.waiting import wait_for


@pytest.fixture
def run_id() -> str:
    return f"pay-{uuid.uuid4()}"


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


async def test_run_asks_and_takes_the_answer(tmux: Tmux, client: Client, run_id: str) -> None:
    pane = await tmux.perdure(*paying(run_id), folder=AGENT, columns=120)
    await pane.shows(r"pay\(\{\"amount\": 7\}\) waits for approval[^§]*e JSON = yes")
    pane.type("what?")
    await pane.shows("'what\\?' is none of these: the call still waits")
    pane.type('e {"amount": ')
    await pane.shows("not valid JSON")
    pane.type('e {"amount": 5}')
    await pane.ends()
    assert 'with {"amount": 5}' in pane.text
    assert "\npaid 5\n" in pane.text
    completed = [
        event
        for event in await get_run(client, run_id).events()
        if event.type == "permission_completed"
    ]
    assert [(event.data["approved"], event.data["arguments"]) for event in completed] == [
        (True, {"amount": 5})
    ]
    assert completed[0].data["by"], "the system's user"


async def test_result_asks_too_and_withdraws_what_is_decided_elsewhere(
    cli: Cli, tmux: Tmux, run_id: str
) -> None:
    running = await cli.start(*paying(run_id))
    await running.says("perdure approve")
    pane = await tmux.perdure("result", "-f", run_id, folder=AGENT, columns=120)
    await pane.shows("e JSON = yes")
    as_json, status = await asyncio.gather(cli("ls", "--waiting", "--json"), cli("status", run_id))
    [mine] = [row for row in json.loads(as_json.stdout) if row["id"] == run_id]
    assert [(each["name"], each["arguments"]) for each in mine["pending"]] == [
        ("pay", {"amount": 7})
    ]
    assert 'pay({"amount": 7}) waits for approval since 20' in status.stdout
    assert (await cli("deny", run_id, "--reason", "too much", "--by", "ann")).code == 0
    await pane.ends()
    assert "pay denied by ann (claimed): too much" in pane.text
    assert "\nTool denied: too much\n" in pane.text
    await running.finish()


async def test_a_refusal_says_what_waits(cli: Cli, client: Client, run_id: str) -> None:
    running = await cli.start(*paying(run_id))
    await running.says("perdure approve")
    await wait_for(lambda: _pending(client, run_id))
    unknown, unfit = await asyncio.gather(
        cli("approve", run_id, "nothing"),
        cli("approve", run_id, "--arguments", '{"amount": "much"}'),
    )
    assert (unknown.code, unfit.code) == (1, 1)
    assert "no tool call 'nothing' waits" in unknown.stderr
    assert "waiting: c1" in unknown.stderr
    assert "'amount' must be integer" in unfit.stderr
    assert (await cli("approve", run_id)).code == 0
    assert (await running.finish()).stdout == "paid 7\n"


async def _pending(client: Client, run_id: str) -> bool:
    return bool((await get_run(client, run_id).status()).pending_approvals)
