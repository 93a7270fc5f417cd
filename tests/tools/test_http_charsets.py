"""Bytes of strangers are decoded by charsets of texts alone, wherever a stranger names the
charset.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.providers.clients import _http_client_class
from perdure.tools.http import _DECODED, HttpAnswer, charset_in, was_refused
from perdure.tools.mcp.declaration import Server
from perdure.tools.mcp.http import HostClient
from perdure.tools.openapi.kind import _text
from perdure.tools.remote.a2a_http import http_client
from perdure.tools.remote.settings import RemoteSettings

BODY = b"Mnchen-3ya"
"""What punycode would make something else of."""


def test_the_names_are_those_of_python() -> None:
    assert {codecs.lookup(name).name for name in _DECODED} == _DECODED


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/plain", "utf-8"),
        ("text/plain; charset=ISO-8859-1", "iso8859-1"),
        ('text/plain; format=flowed; Charset="windows-1252"', "cp1252"),
        ("text/plain; charset=Shift-JIS", "shift_jis"),
        *(
            (f"text/plain; charset={name}", "utf-8")
            for name in ("punycode", "idna", "utf-7", "zlib", "unicode_escape")
        ),
        *(
            (f"text/plain; charset={name}", "utf-8")
            for name in ("", "no such", "\0", "x" * 100_000, "../os")
        ),
    ],
)
def test_charset_of_a_content_type(content_type: str, charset: str) -> None:
    assert charset_in(content_type) == charset


def test_an_answer_of_an_http_api() -> None:
    assert (
        _text(HttpAnswer(200, "OK", {"content-type": "text/plain; charset=punycode"}, BODY))
        == BODY.decode()
    )


@asynccontextmanager
async def serving(status: str) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream; "
            f"charset=punycode\r\nContent-Length: {len(BODY)}"
        )
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + BODY)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def clients(url: str) -> list[Any]:
    """One of each kind that perdure gives to an SDK."""
    return [
        http_client(RemoteSettings("agent", url), {}),
        HostClient(Server(endpoint=url)),
        _http_client_class("openai")(),
        _http_client_class("anthropic")(),
    ]


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
@pytest.mark.parametrize("number", range(4))
async def test_what_the_sdks_read(number: int, status: str) -> None:
    async with serving(status) as url, clients(url)[number] as client:
        response = await client.get(url)
        await response.aread()
    assert response.text == BODY.decode()


def test_answers_that_certainly_refuse_a_request() -> None:
    assert was_refused(503, {"retry-after": "1"})
    refused = {
        status
        for status in (200, 302, 400, 404, 408, 429, 500, 501, 502, 503)
        if was_refused(status, {})
    }
    assert refused == {400, 404, 429, 501}, "408 may follow a request that arrived in part"
