"""Inputs of a kind that their agent does not declare: refused on every face, in its own form,
before a run starts.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from perdure import Agent, RenderError
from perdure.client.run_input import new_run, require_kinds
from perdure.gateway.identity import ANYBODY
from perdure.json_types import JsonObject
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve
from .test_mcp_server import client_of, text_of

INPUTS: list[JsonObject] = [
    {"name": "days", "kind": "integer", "required": True},
    {"name": "mood", "kind": "string", "enumValues": ["good", "bad"]},
    {"name": "tags", "kind": "array", "items": {"kind": "string"}},
    {"name": "past", "kind": "thread"},
    {"name": "photo", "kind": "image"},
]
WRONG: list[tuple[JsonObject, list[str]]] = [
    ({"days": "three"}, ["'days'", "'three'", "integer"]),
    ({"days": True}, ["'days'", "True", "integer"]),
    ({"days": None}, ["'days'", "None", "integer"]),
    ({"days": 3, "mood": "odd"}, ["'mood'", "'odd'", "string"]),
    ({"days": 3, "mood": 7}, ["'mood'", "7", "string"]),
    ({"days": 3, "tags": ["a", 5]}, ["'tags'", "[1]", "5", "array"]),
    ({"days": 3, "past": "hello"}, ["'past'", "'hello'", "thread"]),
    ({"days": 3, "photo": 5}, ["'photo'", "5", "image"]),
    ({}, ["days"]),
]
PLACES = [
    "perdure/runs/{}",
    "perdure/sessions/{}",
    "perdure/runs?session={}",
    "v1/responses/{}",
]
PLACES += ["ai/tested/{}/stream", "kaos/tested/memory/events?session_id={}"]
TOOL_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
NOT_FINITE = [float("nan"), float("inf"), -float("inf")]
RIGHT: list[JsonObject] = [
    {"days": 3},
    {"days": 3.0, "mood": None, "tags": []},
    {"days": 3, "mood": "bad", "past": [{"role": "user", "content": "Hello"}], "other": 5},
]
FIELDS: Any = {"inputs": INPUTS, "instructions": "user:\n{{days}} {{mood}} {{tags}}"}
WORDS: list[tuple[str, JsonObject]] = [
    ("v1/chat/completions", {"model": "tested", "messages": [{"role": "user", "content": "Hi"}]}),
    ("v1/responses", {"model": "tested", "input": "Hi"}),
    (
        "kaos/tested/v1/chat/completions",
        {"model": "tested", "messages": [{"role": "user", "content": "Hi"}]},
    ),
    ("perdure/sessions/one/messages", {"agent": "tested", "text": "Hi"}),
    ("api/chat/one/send", {"message": "Hi", "agentId": "tested"}),
    (
        "ag-ui/tested",
        {
            "threadId": "two",
            "runId": "r",
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
            "messages": [{"id": "m", "role": "user", "content": "Hi"}],
        },
    ),
    (
        "ai/tested",
        {
            "id": "three",
            "trigger": "submit-message",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
        },
    ),
    (
        "a2a/tested",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "message/send",
            "params": {
                "message": {
                    "kind": "message",
                    "role": "user",
                    "messageId": "m",
                    "parts": [{"kind": "text", "text": "Hi"}],
                }
            },
        },
    ),
]


async def test_a_wrong_kind_is_refused_before_a_run_starts(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted(lambda request: says("Done."))
    async with (
        serve_agents(scripted_agent(model, **FIELDS)) as served,
        served.asking() as http,
        client_of(served) as client,
    ):
        before = await served.gateway.list(ANYBODY)
        for given, parts in WRONG:
            refused = await http.post("/runs", json={"agent": "tested", "inputs": given})
            assert refused.status_code == 422, (given, refused.text)
            told = await client.call_tool("tested", given)
            assert told.is_error
            for text in refused.json()["detail"], text_of(told):
                assert all(part in text for part in parts), (given, text)
        assert len(await served.gateway.list(ANYBODY)) == len(before)
        for given in RIGHT:
            started = await http.post("/runs", json={"agent": "tested", "inputs": given})
            assert started.status_code == 201, (given, started.text)
            await http.get(f"/runs/{started.json()['id']}/result?wait=30")
    assert len(model.requests) == len(RIGHT)


async def test_words_alone_do_not_start_an_agent_that_needs_more(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted(lambda request: says("Done."))
    async with (
        serve_agents(scripted_agent(model, **FIELDS)) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        for path, body in WORDS:
            refused = await http.post(f"{served.url}/{path}", json=body)
            assert "days" in refused.text, path
            assert refused.status_code == (200 if path.startswith("a2a") else 422), path
    assert model.requests == []


@pytest.mark.parametrize("number", NOT_FINITE)
def test_a_number_that_is_not_finite(number: float) -> None:
    agent = Agent.model_validate(
        {
            "name": "a",
            "inputs": [{"name": "share", "kind": "float"}, {"name": "o", "kind": "object"}],
        }
    )
    for given in ({"share": number}, {"o": {"deep": [number]}}):
        with pytest.raises(RenderError, match="has a number that JSON does not have"):
            require_kinds(agent, given)


def test_a_misspelt_input_is_named() -> None:
    agent = Agent.model_validate({"name": "a", "inputs": [{"name": "city"}, {"name": "citizen"}]})
    with pytest.raises(
        RenderError, match=r"the agent has no input 'citi' \(did you mean 'city'\?\)"
    ):
        require_kinds(agent, {"citi": "Rome", "citizen": "Ann"})
    require_kinds(agent, {"city": "Rome", "citizen": "Ann", "citi": 1, "tenant": "t"})


async def test_ids_that_no_server_takes_are_refused_at_once(
    scripted: Scripted, serve_agents: Serve
) -> None:
    """Temporal's client asks for an id that a database refuses again and again, for ten seconds."""
    asked = [each for odd in ("a\0b", "a\ud800b", "x" * 5000) for each in requests_with(odd)]
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with (
        serve_agents(scripted_agent(scripted([]))) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        for method, path, body in asked:
            began = time.monotonic()
            content = None if body is None else json.dumps(body)
            answer = await http.request(
                method, f"{served.url}/{path}", content=content, headers=headers
            )
            is_error = '"error":{' in answer.text or '"isError":true' in answer.text
            assert 400 <= answer.status_code < 500 or is_error, (
                path,
                answer.status_code,
                answer.text[:200],
            )
            assert time.monotonic() - began < 5, path
            assert "SQL" not in answer.text
            assert len(answer.text) < 2000


def requests_with(odd: str) -> list[tuple[str, str, Any]]:
    asked: list[tuple[str, str, Any]] = []
    for path, body in WORDS:
        if path == "a2a/tested":
            message = {**body["params"]["message"], "contextId": odd}
            asked.append(("POST", path, {**body, "params": {"message": message}}))
            asked.append(("POST", path, {**body, "method": "tasks/get", "params": {"id": odd}}))
        ids = (
            {"threadId": odd}
            if path == "ag-ui/tested"
            else {"id": odd}
            if path == "ai/tested"
            else {}
        )
        asked += [("POST", path, {**body, **ids})] if ids else []
    words = WORDS[1][1]
    asked += [
        ("POST", "v1/responses", {**words, key: odd})
        for key in ("previous_response_id", "conversation")
    ]
    if odd.isascii():  # The half of a character is another one once it was in a path.
        send = [("api/chat/{}/send", WORDS[4][1]), ("perdure/sessions/{}/messages", WORDS[3][1])]
        asked += [("POST", path.format(quote(odd)), body) for path, body in send]
        asked += [("GET", path.format(quote(odd)), None) for path in PLACES]
    asked.append(
        ("POST", "mcp/", {**TOOL_CALL, "params": {"name": "result", "arguments": {"run": odd}}})
    )
    return asked


def test_an_input_that_nothing_uses_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    declared = {
        "inputs": [{"name": "city", "kind": "string"}],
        "instructions": "system:\n{{city}} of {{land}}\n",
    }
    agent = Agent.model_validate({"name": "guide", "model": {"id": "m"}, **declared})
    new_run(agent, {"city": "Rome", "land": "Italy", "zone": 1}, None, None)
    assert [record.getMessage() for record in caplog.records] == [
        "Nothing uses the input 'zone': the agent 'guide' declares city"
    ]
