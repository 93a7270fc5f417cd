"""Agents as models of OpenAI's Chat Completions, asked by OpenAI's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from perdure.gateway.ghosts import task_of
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.testing.script import Script

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve, Served

TEXT = " ".join(f"word{number}" for number in range(40))
HI = [{"role": "user", "content": "Hi"}]


def in_turn(*texts: str, delay: float = 0.0) -> Script:
    """Each call has the next answer, whatever it says."""
    left = list(texts)
    return lambda request: says(left.pop(0), delay=delay)


def echo(text: str = "") -> str:
    return text


@asynccontextmanager
async def client_of(
    served: Served, key: str = "any", **more: object
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=key, **more) as client:  # type: ignore[arg-type]
        yield client


async def test_whole_and_streamed(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([asks(call("echo", text="x")), says(TEXT)] * 2)
    agent = scripted_agent(model, ["echo"], instructions="system:\nBe brief.")
    async with serve_agents(agent, tools={"echo": echo}) as served, client_of(served) as client:
        assert [each.id async for each in await client.models.list()] == ["tested"]
        whole = await client.chat.completions.create(model="tested", messages=HI)
        assert whole.choices[0].message.content == TEXT
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert whole.usage.total_tokens > 0
        stream = await client.chat.completions.create(
            model="tested", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [each async for each in stream]
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == TEXT
    assert chunks[-1].usage == whole.usage
    assert {each.id for each in chunks} != {whole.id}
    first = model.requests[0].body["messages"]
    assert [each["role"] for each in first] == ["system", "user"]


AGAIN = {"x-stainless-retry-count": "1"}


async def ask(
    http: httpx2.AsyncClient, *, seconds: float = 60, stream: bool = False, **headers: str
) -> httpx2.Response:
    body = {"model": "tested", "messages": HI, "stream": stream}
    return await http.post("/v1/chat/completions", json=body, headers=headers, timeout=seconds)


async def answered(http: httpx2.AsyncClient, **headers: str) -> str:
    text: str = (await ask(http, **headers)).json()["choices"][0]["message"]["content"]
    return text


async def test_retries_go_on_with_runs_that_lost_their_clients_and_no_others(
    scripted: Scripted, serve_agents: Serve
) -> None:
    """Each retry with one run: nothing is done twice, and nothing is left out. One of an answered
    request has a run of its own.
    """
    answers, others = ["One.", "Two.", "Three."], list(map(str, range(6)))
    left = [*(says(each, delay=3) for each in 2 * answers), *map(says, others)]
    model = scripted(lambda request: left.pop(0))
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):
        for stream in (False, True):
            lost = (ask(http, seconds=1, stream=stream) for _ in range(3))
            given_up = await asyncio.gather(*lost, return_exceptions=True)
            assert [type(each) for each in given_up] == [httpx2.ReadTimeout] * 3
            again = await asyncio.gather(*(ask(http, stream=stream, **AGAIN) for _ in range(3)))
            assert len({each.headers["x-perdure-run"] for each in again}) == 3
            assert all(any(word in each.text for each in again) for word in answers)
        assert len(model.requests) == 6
        first = await answered(http)
        rest = await asyncio.gather(*(answered(http, **AGAIN) for _ in range(5)))
    assert sorted([first, *rest]) == others


PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
SEE: list[JsonObject] = [
    {"type": "text", "text": "What is it?"},
    {"type": "image_url", "image_url": {"url": PIXEL}},
]


async def test_a_chat_with_an_image_is_one_session(scripted: Scripted, serve_agents: Serve) -> None:
    """The last two requests have it as clients do that send images once, and the other image is
    another chat's.
    """
    model = scripted(in_turn("A pixel.", "Red.", "Small.", "Another."))
    async with serve_agents(scripted_agent(model)) as served, client_of(served) as client:
        chat = {"X-OpenWebUI-Chat-Id": served.gateway.task_queue}
        said: list[Any] = [{"role": "user", "content": SEE}]
        for number, (answer, next) in enumerate(
            (("A pixel.", "Colour?"), ("Red.", "Size?"), ("Small.", "")), 1
        ):
            raw = await client.chat.completions.with_raw_response.create(
                model="tested", messages=said, extra_headers=chat
            )
            assert raw.parse().choices[0].message.content == answer
            assert raw.headers["x-perdure-run"] == f"{served.gateway.task_queue}/{number}"
            said = [
                *said,
                {"role": "assistant", "content": answer},
                {"role": "user", "content": next},
            ]
            if number == 2:
                said[0] = {"role": "user", "content": SEE[0]["text"]}
        another = {
            "role": "user",
            "content": [SEE[0], {**SEE[1], "image_url": {"url": PIXEL.replace("Ug", "Uw")}}],
        }
        other = await client.chat.completions.with_raw_response.create(
            model="tested", messages=[another, *said[1:]], extra_headers=chat
        )
        assert not other.headers["x-perdure-run"].startswith(f"{served.gateway.task_queue}/")
    assert [each.body["messages"][0]["content"] for each in model.requests[:3]] == [SEE] * 3


async def test_errors_are_the_clients_own(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([asks(call("echo", text="x"))] * 20)
    agent = scripted_agent(model, ["echo"], metadata={"perdure": {"maxIterations": 2}})
    async with (
        serve_agents(agent, tools={"echo": echo}) as served,
        client_of(served, max_retries=2) as client,
    ):
        with pytest.raises(
            openai.NotFoundError, match="There is no agent 'gpt-4o' here: expected tested"
        ):
            await client.chat.completions.create(model="gpt-4o", messages=HI)
        for ask, unknown in (
            (client.post, "/embeddings"),
            (client.post, "/a/b/c"),
            (client.get, "/chat/completions"),
        ):
            with pytest.raises(openai.APIStatusError) as missing:
                await ask(unknown, cast_to=object)
            assert missing.value.code == "no_such_address"
        with pytest.raises(openai.BadRequestError, match="n: an agent gives one answer"):
            await client.chat.completions.create(model="tested", messages=HI, n=2)
        with pytest.raises(openai.UnprocessableEntityError) as failed:
            await client.chat.completions.create(model="tested", messages=HI)
        assert failed.value.code == "max_iterations"
        with pytest.raises(openai.APIError, match="iterations"):
            async for _ in await client.chat.completions.create(
                model="tested", messages=HI, stream=True
            ):
                pass
    assert len(model.requests) == 4, "what has failed is not tried again"


@pytest.mark.parametrize(
    ("headers", "text", "task"),
    [
        ({}, "### Task:\nGenerate 1-3 broad tags categorizing the main themes", "tags"),
        (
            {},
            "### Task:\nRespond to the user query using the provided context, incorporating "
            "inline citations",
            None,
        ),
        ({}, "### Task: write my homework", None),
        ({}, "Provide a concise, 5-word-or-less title for the conversation", "plain_title"),
        (
            {"x-perdure-task": ""},
            "### Task:\nGenerate a concise title summarizing the chat history.",
            None,
        ),
        ({"x-perdure-task": "title_generation"}, "anything", "title_generation"),
    ],
)
def test_what_is_no_turn_is_recognised(
    headers: dict[str, str], text: str, task: str | None
) -> None:
    assert task_of(headers, 1, text) == task
