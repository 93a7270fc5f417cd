"""A server that is away: who waits for a run says so, and goes on when it is back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import RunEvent, RunHandle, connect, get_run
from perdure.client.reading.watch import ServerRetry
from perdure.errors import ConfigurationError
from perdure.testing import asks, call, says
from tests.support.agents import Scripted, scripted_agent
from tests.support.dev_server import DevServer, free_port
from tests.support.gates import Gate
from tests.support.stage import Stage
from tests.support.waiting import wait_for


@pytest.fixture
async def frail(tmp_path: Path) -> AsyncIterator[DevServer]:
    """A server of this test's own, on a file."""
    async with DevServer(tmp_path / "temporal.db") as server:
        yield server


async def streamed(run: RunHandle) -> list[RunEvent]:
    return [event async for event in run.stream()]


def away(server: DevServer) -> str:
    return f"the server at {server.address} does not answer; waiting"


async def noted(log: pytest.LogCaptureFixture, text: str) -> bool:
    return text in log.messages


async def test_who_waits_for_a_run_goes_on_when_the_server_is_back(
    frail: DevServer, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    gate, client = Gate(), frail.client
    stage = Stage(client, "frail")
    caplog.set_level(logging.WARNING, "perdure.waiting")
    async with stage.worker({"gate": gate}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("gate")), says("done")]), ["gate"]), stream=True
        )
        result = asyncio.create_task(run.result())
        stream = asyncio.create_task(streamed(get_run(client, run.id)))
        await gate.reached.wait()
        await frail.kill()
        messages = asyncio.create_task(get_run(client, run.id).messages())
        await wait_for(lambda: noted(caplog, away(frail)))
        assert not any(each.done() for each in (result, stream, messages))
        await frail.start()
        gate.open.set()
        async with asyncio.timeout(40):
            assert (await result).output == "done"
            assert (await stream)[-1].seq == (await run.events())[-1].seq
            assert (await messages)[0].role == "system"
    assert any("answers again" in each for each in caplog.messages)


async def test_one_lost_answer_is_no_server_that_is_away(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A server closes old connections, and what is under way then is lost."""
    lost = [RPCError("transport error", RPCStatusCode.UNAVAILABLE, b"")] * 2

    async def ask() -> str:
        if lost and (error := lost.pop()):
            raise error
        return "done"

    with caplog.at_level(logging.WARNING, "perdure.waiting"):
        lost.pop()
        assert await ServerRetry(client)(ask) == "done"
        assert caplog.messages == []
        lost += [RPCError("transport error", RPCStatusCode.UNAVAILABLE, b"")] * 2
        assert await ServerRetry(client)(ask) == "done"
    assert [text.partition(" at ")[0] for text in caplog.messages] == ["the server"] * 2


async def test_a_wrong_address_still_fails_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(ConfigurationError, match="No Temporal server reachable"):
        await connect(f"127.0.0.1:{free_port()}")
    assert time.monotonic() - begun < 6
