"""Responses that the provider makes in the background, read by the real SDK from a server that
keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.errors import ModelError
from perdure.messages import Message
from perdure.providers.base import BackgroundRecord, Delta, ModelCallOptions
from perdure.providers.registry import provider_for

from ..support.background_responses import BackgroundServer
from ..support.waiting import wait_for


class Record(BackgroundRecord):
    """What an attempt keeps, and what one after it finds."""

    def __init__(self, response: str = "") -> None:
        self._response = response
        self.text = ""
        self.lost = 0
        self.superseded = True

    @property
    def response(self) -> str:
        return self._response

    async def record(self, response: str) -> None:
        self._response = response

    async def forget(self) -> None:
        self.lost, self.text = self.lost + 1, ""
        self._response = ""

    async def end(self) -> None:
        self._response = ""

    async def is_handed_on(self) -> bool:
        return self.superseded


@pytest.fixture
def server() -> Iterator[BackgroundServer]:
    with BackgroundServer() as server:
        yield server


async def ask(
    server: BackgroundServer, record: Record, *, timeout: float = 20.0, **options: Any
) -> Any:
    agent = server.agent(**options)
    provider = provider_for(agent)
    request = provider.to_request(agent, [Message.user("Go.")])

    def on_delta(delta: Delta) -> None:
        record.text += delta.text if delta.kind == "text" else ""

    how = ModelCallOptions(timeout, stream=True, on_delta=on_delta)
    response = await provider.call_in_background(agent, request, how, record)
    if response is None:
        response = await provider.call(agent, request, how)
    return provider.reply(agent, response)


async def begun(
    server: BackgroundServer, record: Record, words: int, **more: Any
) -> asyncio.Task[Any]:
    """A call under way, whose model has said so many words."""
    task = asyncio.create_task(ask(server, record, **more))

    async def has_said() -> bool:
        return bool(server.made) and server.made[-1].said >= words and record.response != ""

    await wait_for(has_said)
    return task


async def test_it_asks_for_the_background_and_keeps_the_id(server: BackgroundServer) -> None:
    record = Record()
    reply = await ask(server, record)
    assert reply.message.text == record.text == server.made[0].text
    assert {
        key: server.bodies[0][key] for key in ("background", "store", "stream")
    } == dict.fromkeys(("background", "store", "stream"), True)
    assert record.response == "resp_1"


async def test_another_attempt_takes_the_response(server: BackgroundServer) -> None:
    record = Record()
    task = await begun(server, record, 10)
    task.cancel()
    await asyncio.wait([task])
    said = record.text
    assert 0 < len(said) < len(server.made[0].text)
    assert (await ask(server, record)).message.text == server.made[0].text
    assert record.text == said
    assert (len(server.made), server.paid, server.cancelled) == (1, server.words, [])


async def test_a_call_that_nobody_goes_on_with_is_ended(server: BackgroundServer) -> None:
    record = Record()
    record.superseded = False
    task = await begun(server, record, 5)
    task.cancel()
    await asyncio.wait([task])
    assert server.cancelled == ["resp_1"]
    assert server.paid < server.words
    assert record.response == ""


@pytest.mark.parametrize("loss", ["breaks off", "says that it is done", "falls silent"])
async def test_a_response_is_requested_where_its_stream_is_lost(
    server: BackgroundServer, loss: str
) -> None:
    server.drop_every = 0 if loss == "falls silent" else 7
    server.says_done = loss == "says that it is done"
    server.silent_after = 9 if loss == "falls silent" else 0
    record = Record()
    assert (await ask(server, record, timeout=2.5)).message.text == server.made[0].text
    assert server.made[0].text.startswith(record.text)
    assert (len(server.made), server.cancelled) == (1, [])


async def test_an_event_without_its_type(server: BackgroundServer) -> None:
    server.typeless = True
    assert (await ask(server, Record())).message.text == server.made[0].text


async def test_a_response_that_the_provider_does_not_know_is_asked_for_anew(
    server: BackgroundServer,
) -> None:
    record = Record("resp_of_old")
    assert (await ask(server, record)).message.text == record.text == server.made[0].text
    assert record.lost == 1


async def test_a_response_that_is_forgotten_while_it_is_read(server: BackgroundServer) -> None:
    server.drop_every = 9
    record = Record()
    task = await begun(server, record, 1)
    server.forgotten.add("resp_1")
    assert (await task).message.text == server.made[1].text
    assert record.lost == 1


@pytest.mark.parametrize("how", ["refuses", "ignores"])
async def test_without_it_as_before_and_asked_once(
    server: BackgroundServer, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "perdure.runs")
    setattr(server, how, True)
    for _ in range(2):
        record = Record()
        assert (await ask(server, record)).message.text == record.text == server.made[-1].text
        assert record.response == ""
    assert [bool(body.get("background")) for body in server.bodies] == [True] + [False] * (
        len(server.bodies) - 1
    )
    assert len(server.made) == 2
    [line] = [record.getMessage() for record in caplog.records if record.name == "perdure.runs"]
    assert line.startswith("No background responses from http://127.0.0.1:")


async def test_failed(server: BackgroundServer) -> None:
    server.end = "failed"
    record = Record()
    with pytest.raises(ModelError, match=r"It broke\.") as failed:
        await ask(server, record)
    assert (failed.value.kind, record.response) == ("server", "")


async def test_cancelled_by_somebody_else(server: BackgroundServer) -> None:
    record = Record()
    task = await begun(server, record, 3)
    server.made[0].enter("cancelled")
    with pytest.raises(ModelError, match="was cancelled at the provider"):
        await task
    assert record.response == ""


async def test_incomplete(server: BackgroundServer) -> None:
    server.end = "incomplete"
    reply = await ask(server, Record())
    assert (reply.ended, reply.finish_reason) == ("cut_short", "max_output_tokens")


async def test_what_never_ends_is_ended(server: BackgroundServer) -> None:
    server.stop_after = 2
    record = Record()
    with pytest.raises(
        ModelError, match="the provider reports that resp_1 is in_progress"
    ) as failed:
        await ask(server, record, timeout=2.0)
    assert failed.value.kind == "timeout"
    assert server.cancelled == ["resp_1"]


async def test_off_and_not_stored(server: BackgroundServer) -> None:
    await ask(server, Record(), background="off")
    await ask(server, Record(), additionalProperties={"store": False})
    await ask(server, Record(), background="auto")  # The server is not the provider's own.
    assert not any(body.get("background") for body in server.bodies)


async def test_a_provider_that_is_overloaded_for_a_while(server: BackgroundServer) -> None:
    server.drop_every, server.failures = 9, [503, 500]
    assert (await ask(server, Record())).message.text == server.made[0].text
    assert len(server.made) == 1


async def test_a_key_that_is_refused_leaves_the_response(server: BackgroundServer) -> None:
    server.failures = [401]
    record = Record("resp_1")
    with pytest.raises(ModelError) as failed:
        await ask(server, record)
    assert (failed.value.kind, record.response, server.cancelled) == (
        "authentication",
        "resp_1",
        [],
    )


async def test_a_project_that_is_to_store_nothing_is_asked_no_more(
    server: BackgroundServer,
) -> None:
    server.stores = False
    for _ in range(2):
        await ask(server, Record())
    assert [bool(body.get("background")) for body in server.bodies] == [True, False]
