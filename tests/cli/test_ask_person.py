"""On a terminal, the command that watches a run asks the person who sits there; `ls --waiting` tells of the others."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client

from perdure.client import get_run

from ..support.command_line import AGENT, SECONDS, Cli
from ..support.commands import Pipe, forker
from ..support.waiting import wait_for


class Terminal:
    """A command on a terminal of its own; stdout is a pipe."""

    def __init__(self, stdout: asyncio.StreamReader, screen: asyncio.StreamReader, keyboard: int) -> None:
        self.seen = ""
        self._stdout = stdout
        self._screen = screen
        self._keyboard = keyboard

    async def shows(self, text: str) -> None:
        """Wait until the text is on the screen, after what was waited for before."""
        async with asyncio.timeout(SECONDS):
            while text not in self.seen:
                more = await self._screen.read(4096)
                assert more, f"ended without showing {text!r}: {self.seen}"
                self.seen += more.decode()
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def type(self, line: str) -> None:
        os.write(self._keyboard, f"{line}\n".encode())

    async def ends(self) -> str:
        """Its stdout."""
        async with asyncio.timeout(SECONDS):
            return (await self._stdout.read()).decode()


@asynccontextmanager
async def terminal(cli: Cli, *arguments: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    reading, writing = os.pipe()
    process = await forker.command_on_terminal(arguments, AGENT, cli.environment, stdout=writing, terminal=theirs)
    stdout, screen = await Pipe.reading(reading), await Pipe.reading(os.dup(ours))
    try:
        yield Terminal(stdout.reader, screen.reader, ours)
    finally:
        process.kill()
        await process.wait()
        for pipe in (stdout, screen):
            pipe.transport.close()
        os.close(ours)


@pytest.fixture
def run_id() -> str:
    return f"pay-{uuid.uuid4()}"


def paying(run_id: str) -> tuple[str, ...]:
    return ("run", "pay.prompty", "--tools", "paying.py", "--scripted", "paying.py:script", "--id", run_id)


async def test_run_asks_and_takes_the_answer(cli: Cli, client: Client, run_id: str) -> None:
    async with terminal(cli, *paying(run_id)) as command:
        await command.shows('pay({"amount": 7}) waits for approval')
        await command.shows("e JSON = ")
        command.type("what?")
        await command.shows("e JSON = ")
        command.type('e {"amount": ')
        await command.shows("not valid JSON")
        await command.shows("e JSON = ")
        command.type('e {"amount": 5}')
        await command.shows('with {"amount": 5}')
        assert (await command.ends()).endswith("paid 5\n")
    completed = [event for event in await get_run(client, run_id).events() if event.type == "permission_completed"]
    assert [(event.data["approved"], event.data["arguments"]) for event in completed] == [(True, {"amount": 5})]
    assert completed[0].data["by"], "the system's user"


async def test_result_asks_too_and_withdraws_what_is_decided_elsewhere(cli: Cli, run_id: str) -> None:
    running = await cli.start(*paying(run_id))
    await running.says("perdure approve")
    async with terminal(cli, "result", "-f", run_id) as command:
        await command.shows("e JSON = ")
        as_json, status = await asyncio.gather(cli("ls", "--waiting", "--json"), cli("status", run_id))
        [mine] = [row for row in json.loads(as_json.stdout) if row["id"] == run_id]
        assert [(each["name"], each["arguments"]) for each in mine["pending"]] == [("pay", {"amount": 7})]
        assert 'pay({"amount": 7}) waits for approval since 20' in status.stdout
        assert (await cli("deny", run_id, "--reason", "too much", "--by", "ann")).code == 0
        await command.shows("pay denied by ann (claimed): too much")
        assert "too much" in await command.ends()
    await running.finish()


async def test_no_is_told_with_its_reason(cli: Cli, run_id: str) -> None:
    async with terminal(cli, *paying(run_id)) as command:
        await command.shows("e JSON = ")
        command.type("n not today")
        assert await command.ends() == "Tool denied: not today\n"


async def test_a_refusal_says_what_waits(cli: Cli, client: Client, run_id: str) -> None:
    running = await cli.start(*paying(run_id))
    await running.says("perdure approve")
    await wait_for(lambda: _pending(client, run_id))
    unknown, unfit = await asyncio.gather(
        cli("approve", run_id, "nothing"), cli("approve", run_id, "--arguments", '{"amount": "much"}')
    )
    assert (unknown.code, unfit.code) == (1, 1)
    assert "no tool call 'nothing' waits" in unknown.stderr
    assert "waiting: c1" in unknown.stderr
    assert "'amount' must be integer" in unfit.stderr
    assert (await cli("approve", run_id)).code == 0
    assert (await running.finish()).stdout == "paid 7\n"


async def _pending(client: Client, run_id: str) -> bool:
    return bool((await get_run(client, run_id).status()).pending_approvals)
