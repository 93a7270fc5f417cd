"""What one process of a gateway takes, and how each protocol's client is told that it is too
much.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx2
import openai
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.gateway.app import gateway_app
from perdure.gateway.ending import OpenRequests
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.gateway.identity import Function, TokenFile
from perdure.gateway.limits import Limits, RequestLimiter
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from ..support.gates import GatedReplies
from ..support.stage import Stage
from .conftest import Serve

ADDRESSES = {
    "/v1/chat/completions": lambda body: body["error"]["code"],
    "/mcp/": lambda body: body["error"]["data"]["kind"],
    "/a2a/tested": lambda body: body["error"]["data"]["kind"],
    "/kaos/tested/v1/chat/completions": lambda body: body["detail"] and "too_large",
    "/api/chat/s/send": lambda body: body["kind"],
    "/perdure/runs": lambda body: body["kind"],
}
"""Of each protocol one, and what its refusals say."""


async def test_a_request_that_is_too_large_is_refused_in_each_protocol(
    scripted: Scripted, serve_agents: Serve
) -> None:
    async with (
        serve_agents(scripted_agent(scripted([])), limits=Limits(max_bytes=2000)) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(30):
                yield b'{"a": "' + b"x" * 1000

        for address, kind in ADDRESSES.items():
            headers = {
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
            }
            for body in (b"x" * 2001, pieces()):
                refused = await http.post(address, content=body, headers=headers)
                assert (refused.status_code, kind(refused.json())) == (413, "too_large"), address


async def test_a_client_asks_so_often_and_no_more(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    limits = Limits(rate=0.5)  # two at once, then one in two seconds
    async with (
        serve_agents(scripted_agent(scripted([])), limits=limits, known=[tokens]) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="guess", max_retries=0) as client,
    ):

        async def ask(token: str) -> httpx2.Response:
            return await http.get("/v1/models", headers={"Authorization": f"Bearer {token}"})

        ann, bob = "token-of-ann-at-acme", "token-of-bob-at-bolt"
        assert [(await ask(ann)).status_code for _ in range(3)] == [200, 200, 429]
        refused = await ask(ann)
        assert refused.json()["error"]["code"] == "too_many_rate"
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert (await ask(bob)).status_code == 200, "each client has its own"
        assert (await http.get("/health/live")).status_code == 200

        async def guess(number: int) -> int:
            token = f"a guess at a token, number {number}"
            assert (
                await http.get("/health", headers={"Authorization": f"Bearer {token}"})
            ).status_code in (200, 429)
            return (await ask(token)).status_code

        guesses = [await guess(number) for number in range(4)]
        assert guesses == [401, 429, 429, 429], "guesses count for their address, wherever"
        with pytest.raises(openai.RateLimitError):
            await client.models.list()
        olga = "token-of-the-operator"
        assert [(await ask(olga)).status_code for _ in range(3)] == [200, 200, 429], (
            "a known one has its own rate"
        )


async def test_who_asks_is_counted_whatever_else_a_request_says(
    scripted: Scripted, serve_agents: Serve
) -> None:
    known = [Function(lambda headers: {"name": "ann"} if headers.get("x-user") == "ann" else None)]
    async with (
        serve_agents(scripted_agent(scripted([])), limits=Limits(rate=0.01), known=known) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):

        async def ask(number: int, **more: str) -> int:
            invented = {
                "authorization": f"Bearer invented{number}",
                "x-forwarded-for": f"10.0.0.{number}",
            }
            return (await http.get("/v1/models", headers={**invented, **more})).status_code

        assert [await ask(number, **{"x-user": "ann"}) for number in range(3)] == [200, 429, 429]
        assert [await ask(number) for number in range(3, 6)] == [401, 429, 429]


async def test_who_is_unknown_is_told_so_before_a_body_is_read(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    async with serve_agents(scripted_agent(scripted([])), known=[tokens]) as served:
        port = httpx2.URL(served.url).port
        for address in [*ADDRESSES, "/ag-ui/tested", "/ai/tested", "/v1/responses"]:
            for tokens_sent, status in (
                (["invented"], b"401"),
                (["token-of-ann-at-acme", "invented"], b"400"),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                head = (
                    f"POST {address} HTTP/1.1\r\nHost: x\r\nContent-Type: "
                    "application/json\r\nContent-Length: 9\r\n"
                )
                sent = "".join(f"Authorization: Bearer {each}\r\n" for each in tokens_sent)
                writer.write(f"{head}{sent}\r\n{{".encode())
                async with asyncio.timeout(20):
                    assert (await reader.readline()).split()[1] == status, (address, tokens_sent)
                writer.close()


async def test_so_many_requests_are_open_at_a_time(scripted: Scripted, serve_agents: Serve) -> None:
    gate = GatedReplies(says("Hello."))
    model = scripted(gate)
    limits = Limits(max_open=2)
    async with (
        serve_agents(scripted_agent(model), limits=limits) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=30) as http,
    ):
        body: JsonObject = {"model": "tested", "messages": [{"role": "user", "content": "Hi"}]}
        headers = {"Idempotency-Key": served.gateway.task_queue}
        asked = [
            asyncio.create_task(http.post("/v1/chat/completions", json=body, headers=headers))
            for _ in range(3)
        ]
        [first], others = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert first.result().status_code == 429
        gate.open.set()
        assert [each.status_code for each in await asyncio.gather(*others)] == [200, 200]
        assert (
            await http.post("/v1/chat/completions", json=body, headers=headers)
        ).status_code == 200


async def test_a_request_that_never_ends_keeps_no_place(
    scripted: Scripted, serve_agents: Serve
) -> None:
    async with serve_agents(
        scripted_agent(scripted([])), limits=Limits(body_seconds=0.2)
    ) as served:
        for address in [*ADDRESSES, "/perdure/calls/nobody-is-asked-here"]:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(served.url).port)
            head = (
                f"POST {address} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, "
                "text/event-stream\r\n"
            )
            body = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            writer.write(f"{head}{body}".encode())
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 408"), address
            writer.close()


async def test_a_head_that_never_ends_keeps_no_connection(scripted: Scripted, stage: Stage) -> None:
    model = scripted([says("Slowly.", delay=1.0)])
    agent = scripted_agent(model, instructions="user:\nHi")
    app = gateway_app(
        Gateway(
            stage.client, {"tested": OfferedAgent("tested", agent, Path("x"))}, stage.task_queue
        )
    )
    async with stage.worker(), serve(app, "127.0.0.1", 0, head_seconds=0.4) as url:
        port = httpx2.URL(url).port
        whole = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        for begun in (
            b"",
            whole[:3],
            whole,
            whole + b"X-A: " + b"a" * 1000,
            whole + b"\r\n" + whole,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            async with asyncio.timeout(20):
                while sent := await reader.read(1000):
                    assert sent.startswith(b"HTTP/1.1 200"), "the first of two is answered"
            writer.close()
        # One that sends a byte now and then wins no time, and one whose request is under way loses
        # none.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            while not reader.at_eof():
                writer.write(b"X")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.1)
        writer.close()
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            body = {"model": "tested", "messages": [{"role": "user", "content": "Hi"}]}
            assert (await http.post("/v1/chat/completions", json=body)).status_code == 200


async def test_a_client_has_its_own_places_and_leaves_nothing_behind() -> None:
    limiter = RequestLimiter(Limits(max_open_each=1), OpenRequests())

    async def ask(address: str, app: ASGIApp) -> int:
        transport = httpx2.ASGITransport(app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
            return (await http.get("/")).status_code

    inner = limiter.guarding(PlainTextResponse("taken"))

    async def nested(scope: Scope, receive: Receive, send: Send) -> None:
        assert [await ask(each, inner) for each in ("10.0.0.1", "10.0.0.2")] == [429, 200]
        await PlainTextResponse("taken")(scope, receive, send)

    assert await ask("10.0.0.1", limiter.guarding(nested)) == 200
    assert not limiter._open
