"""Bodies that cost more than they say: refused on every face with a short answer, and with little
memory.
"""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from perdure.gateway.identity import TokenFile
from perdure.gateway.mcp_server import _ResultParams
from perdure.gateway.operations import MAX_UNNAMED_BYTES, MAX_VALUES, problem_of_request
from perdure.json_types import JsonObject

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve

MANY: Any = [1] * 1_000_000
"""Two megabytes, each element of which may be an error of a kilobyte."""
FEW: Any = [1] * (MAX_VALUES // 2)


def rpc(method: str, params: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


BODIES: list[tuple[str, Callable[[Any], JsonObject]]] = [
    ("v1/chat/completions", lambda many: {"model": "tested", "messages": many}),
    (
        "v1/chat/completions",
        lambda many: {"model": "tested", "messages": [{"role": "user", "content": many}]},
    ),
    ("v1/responses", lambda many: {"model": "tested", "input": many}),
    (
        "v1/responses",
        lambda many: {"model": "tested", "input": [{"role": "user", "content": many}]},
    ),
    ("kaos/tested/v1/chat/completions", lambda many: {"model": "tested", "messages": many}),
    ("ai/tested", lambda many: {"id": "c", "messages": many}),
    (
        "ai/tested",
        lambda many: {"id": "c", "messages": [{"id": "m", "role": "user", "parts": many}]},
    ),
    (
        "ag-ui/tested",
        lambda many: {
            "threadId": "t",
            "runId": "r",
            "messages": many,
            "tools": many,
            "context": many,
        },
    ),
    ("perdure/runs", lambda many: {"agent": "tested", "messages": many}),
    ("a2a/tested", lambda many: rpc("SendMessage", {"message": {"parts": many}})),
    ("a2a/tested", lambda many: rpc("message/send", {"message": {"parts": many}})),
    ("a2a/tested", lambda many: rpc("SendMessage", {"message": {"metadata": {"a": many}}})),
    (
        "a2a/tested",
        lambda many: rpc("SendMessage", {"message": {"parts": [{"data": {"a": many}}]}}),
    ),
    ("mcp/", lambda many: rpc("tools/call", {"name": "tested", "arguments": many})),
    ("mcp/", lambda many: rpc("tools/list", many)),
    ("api/chat/one/send", lambda many: {"message": many, "agentId": "tested"}),
]
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "a2a-version": "1.0",
}
MEGABYTES = 150
"""Of memory for one such request; the bodies themselves take some 30 of it."""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def test_many_wrong_elements_cost_one_short_error(
    scripted: Scripted, serve_agents: Serve
) -> None:
    async with (
        serve_agents(scripted_agent(scripted([]))) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        sent = [
            (path, json.dumps(body(each)).encode()) for each in (MANY, FEW) for path, body in BODIES
        ]
        endless = b'{"message":"' + b'\\"' * 500_000  # A text that nothing closes is read once.
        for path, content in [*sent, *((path, endless) for path, _ in BODIES)]:
            before = _peak()
            answer = await http.post(f"{served.url}/{path}", content=content, headers=HEADERS)
            is_refused = 400 <= answer.status_code < 500 or '"error":{"code"' in answer.text
            assert is_refused, (path, answer.text[:300])
            assert len(answer.content) < 10_000, path
            assert _peak() - before < MEGABYTES, path


async def test_somebody_without_a_token_sends_small_bodies_only(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    async with (
        serve_agents(scripted_agent(scripted([])), known=[tokens]) as served,
        httpx2.AsyncClient(
            base_url=served.url, timeout=60, headers={"content-type": "application/json"}
        ) as http,
    ):

        async def pieces() -> Any:
            yield b'{"result": "'
            yield b'x"}'

        large = b'{"result": "%s"}' % (b"x" * MAX_UNNAMED_BYTES)
        refused = await http.post("/perdure/calls/unknown", content=large)
        assert (refused.status_code, refused.json()["kind"]) == (413, "too_large")
        unmeasured = await http.post("/perdure/calls/unknown", content=pieces())
        assert (unmeasured.status_code, unmeasured.json()["kind"]) == (411, "length_required")
        small = await http.post("/perdure/calls/unknown", content=b'{"result": "x"}')
        assert small.json()["kind"] not in ("too_large", "length_required")


def test_a_client_that_leaves_within_its_body_is_no_failure_of_the_gateway(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody without a token wrote a traceback into the log with each connection."""
    request = Request({"type": "http", "method": "POST", "path": "/perdure/calls/x", "headers": []})
    assert problem_of_request(ClientDisconnect(), request).status == 400
    assert not caplog.records


@pytest.mark.parametrize("wait", [math.nan, math.inf, -math.inf, True, "5", [1]])
def test_a_wait_that_is_not_a_finite_number(wait: Any) -> None:
    with pytest.raises(ValidationError):
        _ResultParams.model_validate({"run": "any", "wait": wait}, strict=True)
