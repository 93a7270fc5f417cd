"""Nothing leads a call, or the reading of a specification, to a server or a file that nobody has
named.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent, LoadedAgent
from perdure.declared_tools import Connection, OpenApiTool
from perdure.errors import LoadError
from perdure.json_types import JsonObject
from perdure.tools.files import record_tools
from perdure.tools.kind import Asking, ToolOfferError
from perdure.tools.openapi.document import SpecificationError
from perdure.tools.openapi.kind import OpenApiKind
from tests.support.openapi_specs import executed, offer, offered, one, request, spec, tool_of
from tests.support.raw_server import RawServer, ok, redirect

THEIRS = "THEIRS"
"""Stands for the other server's host and port."""
PATH = [{"name": "v", "in": "path", "schema": {}}]

REDIRECTS = [
    f"http://{THEIRS}/x",
    f"//{THEIRS}/x",
    f"http://ours@{THEIRS}/x",
    f"https://{THEIRS}/x",
    f"/\\{THEIRS}/x",
    f"http:\\\\{THEIRS}/x",
    "ftp://127.0.0.1/x",
    "file:///etc/passwd",
    "http://[::1/x",
    "/again",
]
ARGUMENTS: list[tuple[str, list[JsonObject], JsonObject, str]] = [
    # path, parameters, arguments; what the server is asked for, or the beginning of what the model
    # is told
    ("/a/{v}", PATH, {"v": f"//{THEIRS}/x"}, f"GET /a/%2F%2F{THEIRS}%2Fx "),
    ("/{v}", PATH, {"v": f"@{THEIRS}/"}, f"GET /%40{THEIRS}%2F "),
    ("/a/{v}/b", PATH, {"v": "../../admin"}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": ".."}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": "x/.."}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": "..;x"}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": "..\\..\\admin"}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": "%2e%2e/admin"}, "GET /a/%252e%252e%2Fadmin "),
    ("/a/{v}.", PATH, {"v": "."}, "a part of it must not be '.' or '..'"),
    ("/a/{v}", PATH, {"v": ["..", "x"]}, "GET /a/..,x "),
    ("/a/{v}", PATH, {"v": ""}, "'v' is a part of the path and must not be empty"),
    ("/a/{v}", PATH, {"v": "x?admin=1#y"}, "GET /a/x%3Fadmin%3D1%23y "),
    (
        "/a/{v}",
        PATH,
        {"v": "x HTTP/1.1\r\nHost: evil"},
        "GET /a/x%20HTTP%2F1.1%0D%0AHost%3A%20evil ",
    ),
    ("/a", [{"name": "v", "in": "query"}], {"v": "1&admin=true"}, "GET /a?v=1%26admin%3Dtrue "),
    (
        "/a",
        [{"name": "v", "in": "query", "style": "deepObject"}],
        {"v": {"]&b": "\n"}},
        "GET /a?v%5B%5D%26b%5D=%0A ",
    ),
    ("/a", [{"name": "v", "in": "query"}], {"v": {"admin&x": 1}}, "GET /a?admin%26x=1 "),
    ("/a", [{"name": "v", "in": "header"}], {"v": "x\r\nHost: evil"}, "must not have line ends"),
    ("/a", [{"name": "v", "in": "header"}], {"v": "x\0"}, "must not have line ends"),
    ("/a", [{"name": "Host", "in": "header"}], {"Host": THEIRS}, "GET /a "),
    (
        "/a",
        [{"name": "Transfer-Encoding", "in": "header"}],
        {"Transfer-Encoding": "chunked"},
        "GET /a ",
    ),
    ("/a", [{"name": "v", "in": "query"}], {"v": "x" * 20_000}, "they make a URL of 20,0"),
]


@pytest.mark.parametrize("location", REDIRECTS)
async def test_redirects(
    kind: OpenApiKind, ours: RawServer, theirs: RawServer, location: str
) -> None:
    address = theirs.url.removeprefix("http://")
    ours.answers = {
        "/v1/first": redirect("/v1/again"),
        "/v1/again": redirect(location.replace(THEIRS, address)),
    }
    if location == "/again":
        ours.answers["/v1/again"] = redirect("/v1/again")
    tool = tool_of(one("/first"), Connection(endpoint=f"{ours.url}/v1"))
    result = await executed(kind, tool, "call", {})
    assert result.error_kind in ("redirect", "request", "connection")
    assert "redirects" in result.text or "location" in result.text
    assert len(ours.requests) == (6 if location == "/again" else 2)


@pytest.mark.parametrize(("path", "parameters", "arguments", "expected"), ARGUMENTS)
async def test_arguments(
    kind: OpenApiKind,
    ours: RawServer,
    theirs: RawServer,
    path: str,
    parameters: Any,
    arguments: Any,
    expected: str,
) -> None:
    tool = tool_of(one(path, parameters=parameters), Connection(endpoint=ours.url))
    result = await executed(kind, tool, "call", arguments)
    if expected.startswith("GET "):
        assert ours.lines() == [expected.replace(":", "%3A") + "HTTP/1.1"]
        assert f"\r\nHost: {ours.url.removeprefix('http://')}\r\n" in ours.requests[0]
        assert "admin=1" not in ours.requests[0]
    else:
        assert result.text.startswith("Error: Invalid arguments for tool 'call': ")
        assert expected in result.text
        assert ours.requests == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (one("@evil.example/x"), "the path '@evil.example/x' can't be called"),
        (one("/a/../admin"), "leads elsewhere"),
        (one("/a?admin=1"), "can't be called: expected `/`"),
        (one("/a b"), "can't be called: expected `/`"),
        (one("/a/{v}"), "the path has {v}, which no path parameter declares"),
        (
            one("/a", parameters=[{"name": "a\r\nb", "in": "header"}]),
            "has a name that no header can have",
        ),
    ],
)
def test_paths_of_specifications(document: Any, problem: str) -> None:
    with pytest.raises(SpecificationError, match=problem.replace("{", r"\{")):
        offer(document)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc", "expected a URL that begins with http"),
        ("gopher://x/", "expected a URL that begins with http"),
        ("https://user:password@api.example.com", "it has a user name or a password"),
        ("https://api.example.com\\@evil.example", "it has a user name or a password"),
        ("https://api.example.com\\evil", "a backslash"),
        ("https://api.example.com/ x", "a blank"),
        ("https://api.example.com:99999", "ort"),
        ("/v1", "names no host: write `endpoint"),
        ("https://api.example.com/?x=1", "has a query"),
    ],
)
async def test_servers(kind: OpenApiKind, url: str, problem: str) -> None:
    with pytest.raises(ToolOfferError, match=problem):
        await offered(kind, tool_of(one("/a", servers=[{"url": url}])))


def test_server_variables_have_their_default() -> None:
    variables = {"region": {"default": "eu", "enum": ["eu", "us"]}, "free": {}}
    document = one("/a", servers=[{"url": "https://{region}.example.com", "variables": variables}])
    assert offer(document)[0].details["server"] == "https://eu.example.com"
    document["servers"][0]["url"] = "https://{free}.example.com"
    with pytest.raises(
        SpecificationError, match="'free' has no default: write connection.endpoint"
    ):
        offer(document)


KEY = Connection.model_validate({"kind": "key", "apiKey": "key-0123456789"})


async def test_a_remote_specification_does_not_choose_where_the_key_goes(
    kind: OpenApiKind, ours: RawServer, theirs: RawServer
) -> None:
    document = one("/a", servers=[{"url": theirs.url}])
    ours.answers["/openapi.json"] = ok(json.dumps(document).encode())
    tool = OpenApiTool(name="api", specification=f"{ours.url}/openapi.json", connection=KEY)
    with pytest.raises(
        ToolOfferError, match=f"names the server {theirs.url}, and the tool's key is not sent"
    ):
        await offered(kind, tool)
    assert "key-0123456789" not in "".join(ours.requests)
    without_key = tool.model_copy(update={"connection": None})
    assert (await offered(kind, without_key))["call"].details["server"] == theirs.url


@pytest.mark.parametrize(
    "reference", ["https://evil.example/x.json", "file:///etc/passwd", "x.json"]
)
def test_a_specification_reads_no_other_document(reference: str) -> None:
    with pytest.raises(
        SpecificationError, match="GET /a: `.ref: .* leads to another document: bundle"
    ):
        offer(one("/a", parameters=[{"$ref": reference}]))


@pytest.mark.parametrize(
    "place", ["../outside.yaml", "ABSOLUTE", "link.yaml", "deep/../../outside.yaml"]
)
async def test_files_outside_the_folder(kind: OpenApiKind, tmp_path: Path, place: str) -> None:
    (tmp_path / "outside.yaml").write_text("openapi: 3.1.0\npaths: {/secret: {get: {}}}\n")
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    place = place.replace("ABSOLUTE", str(tmp_path / "outside.yaml"))
    declared = Agent(name="a", tools=[OpenApiTool(name="api", specification=place)])
    agent = LoadedAgent.of(declared, base_dir=str(folder))
    with pytest.raises(LoadError, match="resolves outside allowed roots"):
        record_tools(agent)
    with pytest.raises(ToolOfferError, match="resolves outside allowed roots"):
        await kind.offer(agent.tools[0], Asking(Agent(name="a"), {}, folder))  # type: ignore[index]


async def test_what_one_answer_sets_is_not_sent_with_the_next_call(
    kind: OpenApiKind, ours: RawServer
) -> None:
    ours.answers["/a"] = ok(b"{}", "Set-Cookie: admin=1; Path=/")
    tool = tool_of(one("/a"), Connection(endpoint=ours.url))
    for _ in range(2):
        await executed(kind, tool, "call", {})
    assert "ookie" not in "".join(ours.requests)


def test_keys_are_no_arguments() -> None:
    scheme = {"type": "apiKey", "in": "query", "name": "Key"}
    declared = [
        {"name": "key", "in": "query"},
        {"name": "Authorization", "in": "header"},
        {"name": "q", "in": "query"},
    ]
    document = spec(
        {"/a": {"get": {"operationId": "call", "parameters": declared}}},
        components={"securitySchemes": {"k": scheme}},
        security=[{"k": []}],
    )
    assert list(offer(document)[0].parameters["properties"]) == ["q"]
    sent = request(document, {"q": 1, "key": "x", "Authorization": "y"}, connection=KEY)
    assert sent.url.endswith("/a?q=1&Key=key-0123456789")
    assert "Authorization" not in dict(sent.headers)
