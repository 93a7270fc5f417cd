"""Keys are sent as the specification says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.declared_tools import Connection, OpenApiTool
from perdure.tools.kind import ToolOfferError
from perdure.tools.openapi.document import SpecificationError
from perdure.tools.openapi.kind import OpenApiKind
from tests.support.openapi_specs import BASE, executed, offered, one, request, tool_of
from tests.support.raw_server import RawServer, ok

SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "k"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "Bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
    "digest": {"type": "http", "scheme": "digest"},
    "tls": {"type": "mutualTLS"},
}
BEARER = {"Authorization": b"Bearer key 1"}


def key(**more: Any) -> Connection:
    return Connection.model_validate({"kind": "key", "apiKey": "key 1", **more})


@pytest.mark.parametrize(
    ("security", "connection", "headers", "query"),
    [
        ([{"header": []}], key(), {"X-Key": b"key 1"}, ""),
        ([{"query": []}], key(), {}, "?k=key%201"),
        ([{"bearer": []}], key(), BEARER, ""),
        ([{"oauth": ["read"]}], key(), BEARER, ""),
        ([{"basic": []}], key(), {"Authorization": b"Basic a2V5IDE="}, ""),
        ([{"tls": []}, {"digest": []}, {"query": []}], key(), {}, "?k=key%201"),
        ([{"header": [], "query": []}, {"bearer": []}], key(), BEARER, ""),
        ([{}, {"header": []}], key(), {"X-Key": b"key 1"}, ""),
        ([{"tls": []}, {}], key(), {}, ""),
        ([], key(), {}, ""),
        ([{"header": []}], Connection(kind="anonymous"), {}, ""),
        ([{"header": []}], None, {}, ""),
    ],
)
def test_how_a_key_is_sent(
    security: Any, connection: Connection | None, headers: dict[str, bytes], query: str
) -> None:
    document = one("/x", security=security, components={"securitySchemes": SCHEMES})
    sent = request(document, {}, connection=connection)
    assert {name: value for name, value in sent.headers if name != "Accept"} == headers
    assert sent.url == f"{BASE}/x{query}"


def test_a_specification_that_does_not_speak_of_keys() -> None:
    assert (
        dict(request(one("/x"), {}, connection=key()).headers)["Authorization"] == b"Bearer key 1"
    )
    components = {"securitySchemes": {"header": SCHEMES["header"]}}
    assert (
        dict(request(one("/x", components=components), {}, connection=key()).headers)["X-Key"]
        == b"key 1"
    )


@pytest.mark.parametrize(
    ("security", "problem"),
    [
        (
            [{"tls": []}],
            r"GET /x needs tls \(unknown\): expected one key, by apiKey",
        ),
        ([{"header": [], "query": []}], r"needs header \(apiKey\) and query \(apiKey\)"),
        ([{"gone": []}], r"needs gone \(unknown\)"),
    ],
)
def test_keys_that_do_not_fit(security: Any, problem: str) -> None:
    with pytest.raises(SpecificationError, match=problem):
        request(
            one("/x", security=security, components={"securitySchemes": SCHEMES}),
            {},
            connection=key(),
        )


async def test_a_key_with_a_line_end(kind: OpenApiKind, ours: RawServer) -> None:
    tool = tool_of(one("/x"), key(apiKey="a\r\nHost: evil", endpoint=ours.url))
    result = await executed(kind, tool, "call", {})
    assert result.text == (
        "Error: Tool 'call' failed: the key of the tool's connection has a line end or another "
        "control character"
    )
    assert ours.requests == []


async def test_the_key_for_the_specification_itself(kind: OpenApiKind, ours: RawServer) -> None:
    ours.answers["/openapi.json"] = ok(json.dumps(one("/x", servers=[{"url": "/"}])).encode())
    tool = OpenApiTool(name="a", specification=f"{ours.url}/openapi.json", connection=key())
    await offered(kind, tool)
    assert "Authorization" not in ours.requests[-1]
    await offered(kind, tool.model_copy(update={"connection": key(endpoint=ours.url)}))
    assert "Authorization: Bearer key 1" in ours.requests[-1]


@pytest.mark.parametrize(
    "recorded",
    [
        "{}",
        "[" * 100_000,
        '{"operations": [{"name": "g", "description": "d", "parameters": '
        + '{"a":' * 500
        + "1"
        + "}" * 500
        + "}]}",
    ],
    ids=["empty", "no end", "deep"],
)
async def test_a_recorded_text_that_perdure_has_not_written(
    kind: OpenApiKind, recorded: str
) -> None:
    tool = OpenApiTool(name="a", specification="https://a.example/s", recorded=recorded)
    with pytest.raises(ToolOfferError, match="its field `recorded` was not written by perdure"):
        await offered(kind, tool)
    assert len(kind.problems(tool)) == 1, "no other worker could offer it"
