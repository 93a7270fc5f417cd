"""Round trips through the real SDKs to a loopback server of recorded bytes."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.messages import Message, ModelReply
from perdure.providers import Delta, provider_for
from perdure.providers.base import ModelCallOptions
from perdure.providers.wire_format import WireFormat

from ..support.recorded_server import Recorded, RecordedServer
from ..support.wire_agents import ANTHROPIC, APIS, CHAT, RESPONSES, agent
from .conftest import recording
from .test_wire_format_process import NAMES

Api = tuple[str, str]
PATHS = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", ANTHROPIC: "/v1/messages"}
TOOLS = [
    {"kind": "function", "name": "get_weather", "parameters": [{"name": "city", "required": True}]}
]
QUESTION = [Message.system("Be brief."), Message.user("How is it?")]

pytestmark = pytest.mark.parametrize("api", APIS, ids=lambda api: NAMES[api])


def connected(api: Api, recorded: RecordedServer) -> Agent:
    endpoint = recorded.url + ("" if api == ANTHROPIC else "/v1")
    return agent(
        api, connection={"kind": "key", "endpoint": endpoint, "apiKey": "sk-test"}, tools=TOOLS
    )


async def ask(
    api: Api,
    recorded: RecordedServer,
    messages: list[Message] = QUESTION,
    *,
    timeout: float = 10,
    **more: Any,
) -> ModelReply:
    asked = connected(api, recorded)
    provider = provider_for(asked)
    request = provider.to_request(asked, messages)
    return provider.reply(
        asked, await provider.call(asked, request, ModelCallOptions(timeout, **more))
    )


def json_answer(api: Api, name: str) -> Recorded:
    return Recorded(recording(f"{NAMES[api]}_{name}.json"))


def stream_answer(api: Api, name: str, **more: Any) -> Recorded:
    return Recorded.of_stream(recording(f"{NAMES[api]}_{name}.sse"), **more)


async def test_plain(api: Api, recorded: RecordedServer) -> None:
    recorded.answers(json_answer(api, "text"))
    reply = await ask(api, recorded)
    assert reply.message.text == "It is 72°F."
    asked = connected(api, recorded)
    assert recorded.last.path == PATHS[api]
    provider = provider_for(asked)
    assert isinstance(provider, WireFormat)
    assert recorded.last.body == provider.for_call(asked, provider.to_request(asked, QUESTION))
    assert recorded.last.headers["content-type"] == "application/json"
    assert recorded.last.headers["user-agent"].startswith("perdure/")
    assert "sk-test" in {
        recorded.last.headers.get("x-api-key"),
        recorded.last.headers["authorization"][7:],
    }


@pytest.mark.parametrize("piece", [0, 7], ids=["at once", "in pieces"])
async def test_streaming(api: Api, recorded: RecordedServer, piece: int) -> None:
    recorded.answers(stream_answer(api, "text", piece=piece))
    deltas: list[Delta] = []
    reply = await ask(api, recorded, stream=True, on_delta=deltas.append)
    assert (
        "".join(delta.text for delta in deltas if delta.kind == "text")
        == reply.message.text
        == "It is 72°F."
    )
    assert [delta.text for delta in deltas if delta.kind == "thinking"] == ["Look it up."]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 5)
    assert recorded.last.body["stream"] is True
    assert recorded.last.body.get("stream_options") == (
        {"include_usage": True} if api == CHAT else None
    )
    await ask(api, recorded, stream=True)
    assert recorded.connections <= 1, (
        "a stream that was read to its end leaves its connection usable"
    )


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "sent",
    [
        {"hello": 1},
        {"choices": [], "output": None, "content": 3},
        {"choices": [{"message": []}], "output": [[]], "content": [[]]},
        {
            "choices": [{"message": {"content": "", "tool_calls": [{"id": "c", "function": "f"}]}}],
            "output": [{"type": "message", "content": [{"type": ["output_text"]}]}],
            "content": [{"type": "text", "text": []}],
        },
        [{"choices": []}],
    ],
    ids=["stranger", "empty", "list", "deep", "array"],
)
async def test_what_no_api_answers_is_told_with_status_host_and_what_was_expected(
    api: Api, recorded: RecordedServer, stream: bool, sent: Any
) -> None:
    recorded.answers(Recorded.of_json(sent, headers={"x-request-id": "r7", "request-id": "r7"}))
    with pytest.raises(ModelError) as caught:
        await ask(api, recorded, stream=stream)
    error, host = caught.value, recorded.url.removeprefix("http://").partition("/")[0]
    assert error.message.startswith("Unexpected response format: expected a ")
    assert error.message.endswith(f", got {json.dumps(sent)}")
    assert (error.kind, error.status, error.address, error.request_id) == (
        "invalid_response",
        200,
        host,
        "r7",
    )


STRANGE_EVENTS: dict[Api, JsonObject] = {
    CHAT: {"choices": [{"delta": {"tool_calls": [{"index": {}}]}}]},
    RESPONSES: {"type": "response.output_text.delta", "delta": 7},
    ANTHROPIC: {
        "type": "content_block_delta",
        "index": [],
        "delta": {"type": "text_delta", "text": "a"},
    },
}


async def test_an_event_that_is_none_of_the_api_is_shown(
    api: Api, recorded: RecordedServer
) -> None:
    event = json.dumps(STRANGE_EVENTS[api])
    recorded.answers(Recorded.of_stream(start_of(api) + f"data: {event}\n\n".encode()))
    with pytest.raises(ModelError) as caught:
        await ask(api, recorded, stream=True)
    assert caught.value.message.endswith(f", got the event {event}")
    assert (caught.value.kind, caught.value.status) == ("invalid_response", 200)


def start_of(api: Api) -> bytes:
    """A stream up to its first piece of text."""
    whole = recording(f"{NAMES[api]}_text.sse")
    return whole[: whole.index(b"\n\n", whole.index(b"It is ")) + 2]


async def test_a_connection_lost_behind_the_end_does_not_matter(
    api: Api, recorded: RecordedServer
) -> None:
    recorded.answers(stream_answer(api, "text", ending="drop"))
    assert (await ask(api, recorded, stream=True)).message.text == "It is 72°F."


async def test_no_server(api: Api, recorded: RecordedServer) -> None:
    asked = agent(api, connection={"kind": "anonymous", "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(ModelError, match="^Connection error: ") as caught:
        await provider_for(asked).call(asked, {}, ModelCallOptions(5))
    assert caught.value.kind == "connection"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_call_that_takes_too_long(api: Api, recorded: RecordedServer, stream: bool) -> None:
    recorded.answers(
        Recorded.of_stream(start_of(api), ending="hang")
        if stream
        else Recorded(b"{", ending="hang")
    )
    with pytest.raises(ModelError) as caught:
        await ask(api, recorded, stream=stream, timeout=0.6)
    assert caught.value.kind == "timeout"
    await asyncio.wait_for(recorded.client_left.wait(), 2)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_cancelling_ends_the_request_at_once(
    api: Api, recorded: RecordedServer, stream: bool
) -> None:
    recorded.answers(
        Recorded.of_stream(start_of(api), ending="hang")
        if stream
        else Recorded(b"{", ending="hang")
    )
    call = asyncio.ensure_future(ask(api, recorded, stream=stream))
    while not recorded.received:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    cancelled = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(recorded.client_left.wait(), 2)
    assert time.monotonic() - cancelled < 0.5
