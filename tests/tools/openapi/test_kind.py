"""What the model reads of an answer, whatever a server sends."""

from __future__ import annotations

import base64
import json

import pytest

from perdure.declared_tools import Connection
from perdure.messages import AudioPart, FilePart, ImagePart, ToolResult
from perdure.tools.openapi.kind import MAX_EXCERPT, MAX_READ_BYTES, OpenApiKind
from tests.support.openapi_specs import executed, one, tool_of
from tests.support.raw_server import RawServer, ok


async def answered(
    kind: OpenApiKind, ours: RawServer, answer: bytes, method: str = "get"
) -> ToolResult:
    ours.answers["/x"] = answer
    return await executed(
        kind, tool_of(one("/x", method), Connection(endpoint=ours.url)), "call", {}
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ok(b'{ "a": 1 }'), '{ "a": 1 }'),
        (ok(b'{"a":1}', media="application/problem+json"), '{"a":1}'),
        (ok("Zoë".encode("latin-1"), media="text/plain; charset=iso-8859-1"), "Zoë"),
        (ok(b"x", media="text/plain; charset=nowhere"), "x"),
        (ok(b"<a/>", media="application/xml"), "<a/>"),
        (ok(b"\xffx", media="text/plain"), "\N{REPLACEMENT CHARACTER}x"),
        (ok(b"hello", media=""), "hello"),
        (ok(b"", "Location: /x/7", status="201 Created"), "201 Created, location: /x/7"),
        (ok(b"", status="204 No Content"), "204 No Content"),
    ],
)
async def test_texts(kind: OpenApiKind, ours: RawServer, answer: bytes, text: str) -> None:
    result = await answered(kind, ours, answer)
    assert (result.text, result.status) == (text, "success")


@pytest.mark.parametrize(
    ("media", "part"),
    [("image/png", ImagePart), ("audio/mpeg", AudioPart), ("application/zip", FilePart)],
)
async def test_media(kind: OpenApiKind, ours: RawServer, media: str, part: type) -> None:
    [found] = (await answered(kind, ours, ok(b"\0\1\2", media=media))).parts
    assert isinstance(found, part)
    assert (found.source, found.media_type) == (base64.b64encode(b"\0\1\2").decode(), media)


@pytest.mark.parametrize(
    ("answer", "kind_of_error", "text"),
    [
        (
            ok(b'{"detail":"no"}', status="404 Not Found"),
            "http_404",
            'GET /x answered 404 Not Found: {"detail":"no"}',
        ),
        (ok(b"", status="500 Oh"), "http_500", "GET /x answered 500 Oh"),
        (
            ok(b"\0" * 9, media="image/png", status="418 T"),
            "http_418",
            "GET /x answered 418 T: (9 bytes of image/png)",
        ),
        (ok(b"", status="304 Not Modified"), "http_304", "GET /x answered 304 Not Modified"),
        (ok(b"<html>"), "nonsense", "GET /x gave an answer that is not JSON: <html>"),
        (ok(b"[" * 5000), "nonsense", "GET /x gave an answer that is not JSON: [["),
        (
            ok(b"x", "Content-Encoding: gzip"),
            "nonsense",
            "GET /x: the answer is compressed (gzip), although no compression was asked",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "connection", "GET /x: the connection to OURS failed: "),
        (b"", "connection", "GET /x: the connection to OURS failed: "),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
            "connection",
            "GET /x: the connection to OURS failed: ",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + b"A: " + b"x" * 200_000,
            "connection",
            "GET /x: the c",
        ),
    ],
)
async def test_failures(
    kind: OpenApiKind, ours: RawServer, answer: bytes, kind_of_error: str, text: str
) -> None:
    result = await answered(kind, ours, answer)
    assert (result.status, result.error_kind) == ("error", kind_of_error)
    assert result.text.startswith(f"Error: Tool 'call' failed: {text.replace('OURS', ours.url)}")
    assert result.outcome_unknown == (kind_of_error not in ("http_404", "http_418"))


async def test_of_a_long_answer_only_so_much_is_read(kind: OpenApiKind, ours: RawServer) -> None:
    text = await answered(kind, ours, ok(b"x" * (MAX_READ_BYTES + 100_000), media="text/plain"))
    assert text.text.startswith("x" * MAX_READ_BYTES + "\n[… the answer is longer")
    json_text = await answered(kind, ours, ok(b"[" + b"1," * MAX_READ_BYTES))
    assert json_text.status == "success"
    picture = await answered(kind, ours, ok(b"x" * (MAX_READ_BYTES + 1), media="image/png"))
    assert (picture.error_kind, picture.status) == ("too_large", "error")
    error = await answered(kind, ours, ok(b"x" * 100_000, media="text/plain", status="500 Oh"))
    assert len(error.text) < MAX_EXCERPT + 200


async def test_a_server_that_sends_keys_back(kind: OpenApiKind, ours: RawServer) -> None:
    components = {"securitySchemes": {"k": {"type": "http", "scheme": "basic"}}}
    document = one("/x", components=components, security=[{"k": []}])
    connection = Connection.model_validate(
        {"kind": "key", "endpoint": ours.url, "apiKey": "zoe:password-1"}
    )
    encoded = base64.b64encode(b"zoe:password-1").decode()
    for status in ("200 OK", "403 No"):
        ours.answers["/x"] = ok(
            json.dumps({"sent": f"Basic {encoded}", "key": "zoe:password-1"}).encode(),
            status=status,
        )
        result = await executed(kind, tool_of(document, connection), "call", {})
        assert f"Authorization: Basic {encoded}" in ours.requests[-1]
        assert result.text.endswith('{"sent": "Basic [REDACTED]", "key": "[REDACTED]"}')
