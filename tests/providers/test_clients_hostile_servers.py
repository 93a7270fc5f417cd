"""A model server that means harm: it keeps calls, or the worker's memory, or wants its key to be
seen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.errors import ModelError
from perdure.messages import Message, ModelReply
from perdure.options import RunOptions
from perdure.providers import close_clients

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.wild_provider import APIS, answer, asking

KEY = "sk-planted-4f9a8c71d2e3"
TIMEOUT = 0.5


class Dripping(RecordedServer):
    """Sends a head and then the same bytes again and again, with a pause or without."""

    def __init__(self, head: bytes, drop: bytes, pause: float) -> None:
        super().__init__()
        self._sends = head, drop, pause

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head, drop, pause = self._sends
        writer.write(head)
        try:
            while not writer.is_closing():
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(pause)
        except ConnectionError:
            return  # The caller has given up, as it should.
        finally:
            writer.close()


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


async def ask(
    server: RecordedServer, api: str = "chat", *, streams: bool = False, **more: Any
) -> ModelReply:
    agent = asking(server, api)
    assert agent.model is not None
    assert agent.model.connection is not None
    agent.model.connection.kind, agent.model.connection.api_key = "key", KEY
    heart = Heartbeat()
    heart.speak(1, 1)
    return await ask_model(agent, [Message.user("?")], RunOptions(stream=streams, **more), heart)


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
DRIPS = {
    "a byte of the head": (b"HTTP/1.1 200 OK\r\nx: ", b"x", 0.02),
    "a byte of the body": (WHOLE + b'{"choices": "', b"x", 0.02),
    "a comment": (STREAM, b": wait\n\n", 0.02),
    "an empty event": (STREAM, b'data: {"choices": []}\n\n', 0.02),
    "a byte of an error": (b"HTTP/1.1 500 Oh\r\n\r\n", b"x", 0.02),
    "heads without end": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0),
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"x: x\r\n" * 100, 0),
    "comments without a pause": (STREAM, b": wait\n\n" * 100, 0),
}


@pytest.mark.parametrize("drip", DRIPS)
async def test_a_server_that_never_comes_to_an_end(wild: RecordedServer, drip: str) -> None:
    wild.answers(Recorded.of_json(answer("chat", "a")))
    await ask(wild)  # The first call loads the SDK.
    head, drop, pause = DRIPS[drip]
    began = time.monotonic()
    async with recorded_server(Dripping(head, drop, pause)) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server, streams=STREAM in head, llm_timeout=TIMEOUT)
        await close_clients()
    assert caught.value.kind in ("timeout", "connection", "server")
    assert time.monotonic() - began < 20 * TIMEOUT, "on a busy machine; else in half a second"


async def test_no_cookies(wild: RecordedServer) -> None:
    wild.answers(Recorded.of_json(answer("chat", "a"), headers={"set-cookie": "run=1; Path=/"}))
    await ask(wild)
    await ask(wild)
    assert "cookie" not in wild.last.headers


@pytest.mark.parametrize("api", APIS)
async def test_the_key_in_what_the_provider_says_of_its_answer(
    wild: RecordedServer, api: str
) -> None:
    said = {
        **answer(api, "fine"),
        "id": KEY,
        "model": KEY,
        "usage": {"total_tokens": KEY},
        KEY: [KEY],
    }
    if api == "chat":
        said["choices"][0]["finish_reason"] = KEY
    wild.answers(Recorded.of_json(said, headers={"x-request-id": KEY}))
    assert KEY not in (await ask(wild, api)).model_dump_json()


ECHOES = {
    "a message": (
        json.dumps({"error": {"message": f"Wrong key {KEY}", "code": KEY, "type": KEY}}),
        {},
    ),
    "a page": (f"<html><title>{KEY}</title></html>", {}),
    "a text": (f"Bearer {KEY}", {}),
    "an object": (json.dumps({KEY: {KEY: KEY}}), {}),
    "JSON in a text": (
        json.dumps({"error": {"message": json.dumps({"error": {"message": KEY}})}}),
        {},
    ),
    "a header": ("{}", {"x-request-id": KEY, "x-amzn-errortype": KEY, "retry-after": KEY}),
    "an address": ("", {"location": f"https://other.example/{KEY}?key={KEY}"}),
}


@pytest.mark.parametrize("status", [200, 302, 400, 401, 429, 500])
@pytest.mark.parametrize("echo", ECHOES)
async def test_the_key_in_an_error(wild: RecordedServer, status: int, echo: str) -> None:
    body, headers = ECHOES[echo]
    wild.answers(Recorded(body.encode(), status=status, headers=headers))
    with pytest.raises(ModelError) as caught:
        await ask(wild)
    error = caught.value
    shown = f"{error} {error.account} {error.request_id} {error.address} {error.model}"
    assert KEY not in shown


async def test_trailers_without_end(wild: RecordedServer) -> None:
    body = json.dumps(answer("chat", "a")).encode()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n"
    wild.answers(Recorded(chunked + b"x: x\r\n" * 100_000, head=head, ending="drop"))
    with pytest.raises(ModelError) as caught:
        await ask(wild)
    assert caught.value.kind == "connection"
