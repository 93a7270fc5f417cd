"""Errors, delays and lost connections of the scripted model."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import ScriptedReply


async def test_errors_have_the_shape_and_headers_of_the_provider(serve: Any) -> None:
    _, clients = serve([ScriptedReply(status=429, headers={"retry-after": "7"})])
    with pytest.raises(openai.RateLimitError) as chat:
        await clients.chat()
    with pytest.raises(anthropic.RateLimitError) as messages:
        await clients.messages(stream=True)
    assert chat.value.code == "rate_limit_exceeded"
    assert chat.value.response.headers["retry-after"] == "7"
    assert chat.value.request_id == "req_scripted_0_1"
    assert messages.value.type == "rate_limit_error"
    assert messages.value.request_id == "req_scripted_0_2"


async def test_an_error_body_is_sent_verbatim(serve: Any) -> None:
    body = {
        "error": {
            "message": "too long",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    }
    _, clients = serve([ScriptedReply(status=400, error=body)])
    with pytest.raises(openai.BadRequestError) as caught:
        await clients.responses()
    assert caught.value.body == body["error"]


async def test_an_error_can_end_a_stream(serve: Any) -> None:
    body = {"error": {"type": "overloaded_error", "message": "busy", "code": "overloaded"}}
    _, clients = serve([ScriptedReply(text="Half an", error=body)])
    with pytest.raises(openai.APIError, match="busy"):
        _ = [chunk async for chunk in await clients.chat(stream=True)]
    events = [event async for event in await clients.responses(stream=True)]
    assert (events[-1].type, events[-1].message, events[-1].code) == ("error", "busy", "overloaded")
    with pytest.raises(anthropic.APIStatusError, match="busy"):
        _ = [event async for event in await clients.messages(stream=True)]


async def test_a_dropped_connection_is_one_for_the_sdk(serve: Any) -> None:
    model, clients = serve([ScriptedReply(text="a b c d e", drop_after=3)])
    with pytest.raises(openai.APIConnectionError):
        await clients.chat()
    with pytest.raises(anthropic.APIConnectionError):
        await clients.messages()
    stream = await clients.chat(stream=True)
    assert [(await anext(stream)).choices[0].delta.content for _ in range(3)] == ["", "a", " b"]
    with pytest.raises(openai.APIConnectionError):
        await anext(stream)
    assert [request.aborted for request in model.requests] == [False] * 3


@pytest.mark.parametrize("stream", [False, True])
async def test_an_abort_while_the_answer_is_delayed_is_noticed_at_once(
    serve: Any, stream: bool
) -> None:
    reply = (
        ScriptedReply(text="late", chunk_delay=30)
        if stream
        else ScriptedReply(text="late", delay=30)
    )
    model, clients = serve([reply])

    async def consume() -> None:
        answer = await clients.chat(stream=stream)
        _ = [chunk async for chunk in answer]

    call = asyncio.create_task(consume())
    await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
    await asyncio.sleep(0.05)
    call.cancel()
    cancelled_at = time.monotonic()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.to_thread(model.wait_until, lambda: model.requests[0].aborted)
    assert model.requests[0].finished_at - cancelled_at < 0.2


async def test_unknown_paths_and_bodies_are_refused(serve: Any) -> None:
    _, clients = serve([])
    with pytest.raises(openai.NotFoundError, match="no API at /v1/embeddings"):
        await clients.openai.embeddings.create(model="m", input="x")
    with pytest.raises(openai.NotFoundError, match="no API at /v1/models"):
        await clients.openai.models.list()
    with pytest.raises(openai.BadRequestError, match="not JSON"):
        await clients.openai.post("/chat/completions", cast_to=object, content=b"{")
