"""Answers that were cut short, on every face of the gateway: none looks whole."""

from __future__ import annotations

import json

import httpx2
import pytest
from a2a.helpers import get_message_text
from openai import AsyncOpenAI

from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve
from .test_a2a_server import client_of as a2a_client
from .test_a2a_server import said, send
from .test_gateway_input_kinds import WORDS
from .test_mcp_server import client_of as mcp_client

WHYS = [
    ("length", "length", "max_output_tokens"),
    ("content_filter", "content_filter", "content_filter"),
    ("stop", "stop", ""),
]


@pytest.mark.parametrize(("word", "finish", "reason"), WHYS)
async def test_openais_clients_are_told_that_an_answer_is_cut_short(
    scripted: Scripted, serve_agents: Serve, word: str, finish: str, reason: str
) -> None:
    model = scripted(lambda request: says("It is", finish_reason=word))
    async with serve_agents(scripted_agent(model)) as served:
        client = AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", timeout=60)
        async with client:
            asked = {"model": "tested", "messages": [{"role": "user", "content": "Hi"}]}
            whole = await client.chat.completions.create(**asked)
            assert whole.choices[0].finish_reason == finish
            pieces = [
                each async for each in await client.chat.completions.create(**asked, stream=True)
            ]
            assert pieces[-1].choices[0].finish_reason == finish
            response = await client.responses.create(model="tested", input="Hi")
            kept = await client.responses.retrieve(response.id)
            async with client.responses.stream(model="tested", input="Hi") as stream:
                types = [event.type async for event in stream]
    for each in response, kept:
        assert each.status == ("incomplete" if reason else "completed")
        assert (each.incomplete_details.reason if each.incomplete_details else "") == reason
        assert each.output_text == "It is"
    assert types[-1] == ("response.incomplete" if reason else "response.completed")


@pytest.mark.parametrize(("word", "finish", "reason"), WHYS)
async def test_the_other_faces_say_that_an_answer_is_cut_short(
    scripted: Scripted, serve_agents: Serve, word: str, finish: str, reason: str
) -> None:
    model = scripted(lambda request: says("It is", finish_reason=word))
    bodies = dict(WORDS)
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        paged = (
            await http.post(f"{served.url}/ai/tested", json={**bodies["ai/tested"], "id": word})
        ).text
        assert json.dumps(finish.replace("_", "-")) in paged
        thread = (
            await http.post(
                f"{served.url}/ag-ui/tested",
                json={**bodies["ag-ui/tested"], "threadId": f"{word}-thread"},
            )
        ).text
        assert ("perdure.cut_short" in thread) == bool(reason)
        run = (await http.post(f"{served.url}/perdure/runs", json={"agent": "tested"})).json()["id"]
        outcome = (await http.get(f"{served.url}/perdure/runs/{run}/result?wait=30")).json()
        assert outcome["cutShort"] == (finish if reason else None)
        async with mcp_client(served) as client:
            content = (await client.call_tool("tested", {})).content
            assert [each.text for each in content][0] == "It is"
            assert ["cut short" in each.text for each in content[1:]] == ([True] if reason else [])
        for streaming in True, False:
            async with a2a_client(served, streaming=streaming) as client:
                seen = await send(client, said("Hi"))
            status = seen[-1].status_update.status if streaming else seen[-1].task.status
            assert ("cut short" in get_message_text(status.message)) == bool(reason)
