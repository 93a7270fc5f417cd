"""perdure's own API, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from openapi_spec_validator import validate

from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import waiting_call
from ..support.waiting import wait_for
from .conftest import Serve, Served

Frame = tuple[str, str, Any]
"""Event, id and data of a server-sent event."""
TEXT = " ".join(f"word{number}" for number in range(60))
PAY = {
    "name": "pay",
    "kind": "function",
    "parameters": [{"name": "euros", "kind": "integer", "required": True}],
    "perdure": {"approval": "always"},
}
JSON_TYPE = {"content-type": "application/json"}
STREAM = {"Accept": "text/event-stream"}


def pay(euros: int) -> str:
    return f"paid {euros}"


async def frames_of(answer: httpx2.Response) -> AsyncIterator[Frame]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields and not line:
            yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            fields = {}


async def read_stream(http: httpx2.AsyncClient, run: str, after: str = "0") -> list[Frame]:
    async with http.stream(
        "GET", f"/runs/{run}/events", params={"after": after}, headers=STREAM
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [each async for each in frames_of(answer)]


def text_in(frames: list[Frame]) -> str:
    return "".join(data["data"]["token"] for event, _, data in frames if event == "token")


async def test_a_run_is_started_followed_and_read(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([says(TEXT, chunk_delay=0.02), says("Other.")])
    async with (
        serve_agents(scripted_agent(model, instructions="user:\nHi")) as served,
        served.asking() as http,
    ):
        assert (await http.get("/agents")).json() == [
            {"name": "tested", "description": None, "inputs": []}
        ]
        key = {"Idempotency-Key": served.gateway.task_queue}
        started = await http.post("/runs", json={"agent": "tested"}, headers=key)
        assert started.status_code == 201, started.text
        run = started.json()["id"]
        seen = await asyncio.gather(*(read_stream(http, run) for _ in range(5)))
        assert [text_in(each) for each in seen] == [TEXT] * 5
        assert [[event for event, _, _ in each].count("done") for each in seen] == [1] * 5
        middle = [id for event, id, _ in seen[0] if event == "token"][0]
        rest = text_in(await read_stream(http, run, middle))
        assert text_in(seen[0][: [id for _, id, _ in seen[0]].index(middle) + 1]) + rest == TEXT
        again = await http.post("/runs", json={"agent": "tested"}, headers=key)
        assert again.json() == {"id": run, "isNew": False}
        other = await http.post("/runs", json={"agent": "tested", "inputs": {"a": 1}}, headers=key)
        assert (other.status_code, other.json()["kind"]) == (409, "key_reused")
        body = {"at": 2, "steer": "Go on."}
        first, second = [
            (await http.post(f"/runs/{run}/fork", json=body, headers=key)).json() for _ in "12"
        ]
        assert (first["id"], first["isNew"], second["isNew"]) == (second["id"], True, False)
        other = await http.post(f"/runs/{run}/fork", json={**body, "steer": "No."}, headers=key)
        assert (other.status_code, other.json()["kind"]) == (409, "key_reused")
        result = (await http.get(f"/runs/{run}/result")).json()
        assert (result["hasEnded"], result["output"], result["error"]) == (True, TEXT, None)
        view = (await http.get(f"/runs/{run}")).json()
        assert (view["status"], view["state"]["status"], view["origin"]) == (
            "done",
            "done",
            "gateway",
        )
        assert (await http.get(f"/runs/{run}/messages")).json()[-1]["role"] == "assistant"
        before = "2001-01-01T00:00:00Z"
        [row] = [
            each
            for each in (await http.get("/runs", params={"since": before, "limit": 1000})).json()
            if each["id"] == run
        ]
        assert row["title"] == "Hi"
        assert (await http.get("/counts", params={"since": before})).json()["done"] > 0
        assert (await http.get("/counts", params={"since": "2999-01-01T00:00:00Z"})).json() == {
            **dict.fromkeys(("running", "waiting", "held", "done", "failed", "cancelled"), 0),
            **dict.fromkeys(("terminated", "timedOut"), 0),
        }
        for _ in range(2):
            assert (await http.get(f"/runs/{run}/calls")).json() == []
        assert [id for id, *_ in served.gateway.surveys] == [run]
        assert "resourceSpans" in (await http.get(f"/runs/{run}/trace")).json()
        assert (await http.get(f"/runs/{run}/events")).json()[-1]["type"] == "done"
        assert (await http.get(f"/runs/{first['id']}/result", params={"wait": 30})).json()["output"]
    assert len(model.requests) == 2


async def test_what_waits_is_seen_and_decided(scripted: Scripted, serve_agents: Serve) -> None:
    agent = scripted_agent(
        scripted([asks(call("pay", euros=3)), says("It is paid.")]), [PAY], instructions="user:\nHi"
    )
    async with serve_agents(agent, tools={"pay": pay}) as served, served.asking() as http:
        run = (await http.post("/runs", json={"agent": "tested"})).json()["id"]
        waiting = await waiting_call(http, run)
        call_of = {"callId": waiting["call_id"], "digest": waiting["digest"]}
        stale = await http.post(f"/runs/{run}/approve", json={**call_of, "digest": "0" * 16})
        assert (stale.status_code, stale.json()["kind"]) == (409, "approval_stale")
        form = await http.post("/runs", data={"agent": "tested"})
        assert "send the header Content-Type: application/json" in form.json()["detail"]
        unfit = await http.post(
            f"/runs/{run}/approve", json={**call_of, "arguments": {"euros": "many"}}
        )
        assert unfit.status_code == 422
        assert (
            await http.post(f"/runs/{run}/approve", json={**call_of, "arguments": {"euros": 2}})
        ).status_code == 200
        assert (await http.get(f"/runs/{run}/result", params={"wait": 30})).json()[
            "output"
        ] == "It is paid."
        events = (await http.get(f"/runs/{run}/events")).json()
    [result] = [each["data"]["result"] for each in events if each["type"] == "tool_result"]
    [decided] = [each["data"] for each in events if each["type"] == "permission_completed"]
    assert result.endswith("\npaid 2")
    assert decided["by"] == "anybody"


async def test_a_held_run_is_listed_as_that(
    scripted: Scripted, serve_agents: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TRACE_URL", "https://traces.example/{trace_id}?tab=1")
    metadata = {"perdure": {"onFailure": "hold"}}
    agent = scripted_agent(
        scripted([ScriptedReply(status=401)]), instructions="user:\nHi", metadata=metadata
    )
    async with serve_agents(agent) as served, served.asking() as http:
        run = (await http.post("/runs", json={"agent": "tested"})).json()["id"]

        async def listed_as() -> list[str]:
            rows = (await http.get("/runs", params={"status": "held", "limit": 1000})).json()
            return [row["status"] for row in rows if row["id"] == run]

        assert await wait_for(listed_as) == ["held"]
        waiting = (await http.get("/runs", params={"status": "waiting", "limit": 1000})).json()
        assert run not in [row["id"] for row in waiting]
        assert (await http.get(f"/runs/{run}")).json()["status"] == "held"
        wrong = await http.post(f"/runs/{run}/go-on", json={"options": {"stream": True}})
        assert (wrong.status_code, wrong.json()["kind"]) == (422, "go_on_options")
        setup = (await http.get(f"/runs/{run}/setup")).json()
        assert (setup["model"], setup["options"]["max_iterations"]) == ("openai/scripted", 10)
        assert (setup["forkOf"], setup["calledBy"]) == (None, None)
        assert setup["traceUrl"] == f"https://traces.example/{setup['traceId']}?tab=1"
        spans = (await http.get(f"/runs/{run}/trace")).json()["resourceSpans"]
        assert f'"{setup["traceId"]}"' in json.dumps(spans)
        await http.post(f"/runs/{run}/cancel")


ANSWERS = {"Hi": "Hello.", "Again?": "Yes, again."}


async def test_a_session(scripted: Scripted, serve_agents: Serve) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        said = request.messages[-1].text
        delay = 0.5 if said == "Slowly" else 0
        return says("word " * 60 if delay else ANSWERS.get(said, "Good."), chunk_delay=delay)

    model = scripted(reply)
    agent = scripted_agent(model)
    async with serve_agents(agent) as served, served.asking() as http:
        id = served.gateway.task_queue
        messages = f"/sessions/{id}/messages"
        assert (await http.post(messages, json={"text": "Hi"})).status_code == 404
        said = {"text": "Hi", "agent": "tested", "messageId": "m1"}
        first = (await http.post(messages, json=said)).json()
        assert (await http.post(messages, json=said)).json() == first
        assert (await http.get(f"/runs/{first['run']}/result", params={"wait": 30})).json()[
            "output"
        ] == "Hello."
        second = (await http.post(messages, json={"text": "Again?"})).json()
        assert second["run"] == f"{id}/2"
        file = {"kind": "file", "source": "not base64!"}
        bad = await http.post(messages, json={"parts": [file]})
        assert (bad.status_code, "neither a URL nor base64" in bad.text) == (422, True)
        assert (await http.post(messages, json={"parts": []})).json()["kind"] == "session_empty"
        assert (await http.get(f"/runs/{second['run']}/result", params={"wait": 30})).json()[
            "output"
        ] == "Yes, again."
        assert [each["role"] for each in (await http.get(messages)).json()] == [
            "user",
            "assistant",
        ] * 2
        slow_run = (await http.post(messages, json={"text": "Slowly"})).json()["run"]

        async def is_called() -> bool:
            return len(model.requests) == 3

        await wait_for(is_called)
        await http.post(messages, json={"text": "Unread", "whileBusy": "steer"})
        queued = {"text": "Last", "whileBusy": "queue"}
        both = (await http.post(messages, json=queued)).json()["run"]
        await http.post(f"/runs/{slow_run}/cancel", json={})

        async def has_ended() -> bool:  # It begins when the cancelled one has ended.
            return (await http.get(f"/runs/{both}/result", params={"wait": 5})).status_code == 200

        await wait_for(has_ended)
        said = {"text": "In place of both", "replaces": both}
        edited = (await http.post(f"/sessions/{id}-edited/messages", json=said)).json()["run"]
        await http.get(f"/runs/{edited}/result", params={"wait": 30})
        talk = (await http.get(f"/sessions/{id}-edited/messages")).json()
        read = [each["parts"][0]["value"] for each in talk if each["role"] == "user"]
        assert read == ["Hi", "Again?", "Slowly", "In place of both"]
        await http.post(f"/sessions/{id}-edited/close", json={})
        for after, status in (("9:0", 404), ("x", 422)):
            path = f"/sessions/{id}/events?after={after}"
            assert (await http.get(path, headers=STREAM)).status_code == status
        assert (await http.post(f"/sessions/{id}/close", json={})).status_code == 200
        async with http.stream("GET", f"/sessions/{id}/events", headers=STREAM) as answer:
            seen = [(event, data.get("run_id")) async for event, _, data in frames_of(answer)]
    done = [run for event, run in seen if event == "done"]
    assert done == [f"{id}/1", f"{id}/2", f"{id}/4"]


@pytest.fixture
async def plain(scripted: Scripted, serve_agents: Serve) -> AsyncIterator[Served]:
    async with serve_agents(scripted_agent(scripted([]))) as served:
        yield served


WRONG: list[tuple[str, str, JsonObject, int, str]] = [
    ("POST", "/runs", {"json": {"agent": "nobody"}}, 404, "unknown_agent"),
    ("POST", "/runs", {"json": {"agent": "tested", "model": "mine"}}, 422, "invalid"),
    ("POST", "/runs", {"content": b"{", "headers": JSON_TYPE}, 400, "no_json"),
    *(
        (
            "POST",
            "/runs",
            {"content": b'{"inputs": {"a": %b}}' % each, "headers": JSON_TYPE},
            400,
            "no_json",
        )
        for each in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" * 5000)
    ),
    ("POST", "/runs", {"content": b"[" * 100_000, "headers": JSON_TYPE}, 400, "no_json"),
    ("POST", "/runs", {"content": b"[" * 500 + b"]" * 500, "headers": JSON_TYPE}, 422, "invalid"),
    (
        "POST",
        "/runs",
        {"content": b"{}", "headers": {"content-type": "text/plain"}},
        415,
        "media_type",
    ),
    ("POST", "/runs", {"content": b"{}"}, 415, "media_type"),
    ("POST", "/runs", {"json": []}, 422, "invalid"),
    ("GET", "/runs/none", {}, 404, "not_found"),
    ("GET", "/runs/none/events?after=x", {}, 404, "not_found"),
    ("GET", "/runs?limit=0", {}, 422, "invalid"),
    ("POST", "/runs/none/steer", {"json": {"text": "x"}}, 404, "not_found"),
    ("GET", "/sessions/none", {}, 404, "not_found"),
    ("GET", "/no/such/address", {}, 404, "no_such_address"),
    ("DELETE", "/agents", {}, 405, "no_such_address"),
    ("POST", "/sessions/any/close", {"headers": {"Origin": "https://evil.example"}}, 403, "origin"),
    ("POST", "/sessions/any/close", {"headers": {"Origin": "http://["}}, 403, "origin"),
]


async def test_what_is_wrong_is_said(plain: Served) -> None:
    async with plain.asking() as http:
        for method, path, sent, status, kind in WRONG:
            answer = await http.request(method, path, **sent)
            assert (path, answer.status_code, answer.json()["kind"]) == (path, status, kind), (
                answer.text
            )
            assert answer.headers["content-type"] == "application/problem+json"
        assert (await http.get("/agents", headers={"Origin": plain.url})).status_code == 200
        unfit = await http.post("/runs/any/approve", json={"callId": 7})
        assert (
            unfit.json()["detail"]
            == "callId: Input should be a valid string; digest: Field required"
        )
        document = (await http.get("/openapi.json")).json()
    validate(document)
    assert set(document["paths"]["/perdure/runs/{id}/approve"]) == {"post"}


async def test_ids_of_any_letters_are_told_and_control_characters_are_refused(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([says("Hello.")] * 3)
    async with (
        serve_agents(scripted_agent(model, instructions="user:\nHi")) as served,
        served.asking() as http,
    ):
        id = f"注文 {served.gateway.task_queue}?"
        started = await http.post("/runs", json={"agent": "tested", "id": id})
        assert started.status_code == 201
        shown = await http.get(f"{served.url}{started.headers['location']}")
        assert shown.json()["id"] == id
        asked: JsonObject = {
            "messages": [{"role": "user", "content": "Hi"}],
            "session_id": f"注文-{id[3:-1]}",
        }
        said = await http.post(f"{served.url}/kaos/tested/v1/chat/completions", json=asked)
        assert unquote(said.headers["x-perdure-run"]) == f"{asked['session_id']}/1"
        for refused in (
            await http.post("/runs", json={"agent": "tested", "id": "a\0b"}),
            await http.post("/runs", json={"agent": "tested", "id": "a\r\nb: c"}),
            await http.post("/runs", json={"agent": "tested", "id": "a/calls"}),
            await http.post(
                f"{served.url}{started.headers['location']}/fork", json={"at": 1, "id": "a/events"}
            ),
            await http.get("/runs", params={"agent": "a\0b"}),
            await http.get("/runs", params={"session": "\0"}),
        ):
            assert (refused.status_code, refused.json()["kind"]) == (422, "invalid")
