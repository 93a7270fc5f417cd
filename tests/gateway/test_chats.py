"""A chat of a front end, and what is known of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from perdure.gateway.chats import Chat
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.gateway.identity import ANYBODY
from perdure.messages import Message
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for
from .conftest import Serve

TEA = Message.user("tea")


URL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
SAID = {
    "ai": [
        {"type": "text", "text": "See"},
        {"type": "file", "mediaType": "image/png", "url": URL, "filename": "a.png"},
    ],
    "ag-ui": [
        {"type": "text", "text": "See"},
        {
            "type": "image",
            "source": {"type": "data", "value": URL.partition(",")[2], "mimeType": "image/png"},
        },
    ],
}


@pytest.mark.parametrize("face", ["ai", "ag-ui"])
async def test_an_image_is_a_turn_of_its_chat(
    face: str, scripted: Callable[[Script], ScriptedModel], serve_agents: Serve
) -> None:
    model = scripted([says("A pixel."), says("Red.")])
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        id = served.gateway.task_queue
        about = (
            {"id": id} if face == "ai" else {"threadId": id, "runId": "r", "protocolVersion": "1.0"}
        )
        field = "parts" if face == "ai" else "content"
        said = [{"id": "m1", "role": "user", field: SAID[face]}]
        for text, answer in (("Colour?", "A pixel."), ("", "Red.")):
            told = await http.post(f"/{face}/tested", json={**about, "messages": said})
            assert (told.status_code, answer in told.text) == (200, True), told.text
            again = await http.post(f"/{face}/tested", json={**about, "messages": said})
            assert answer in again.text
            said += [
                {"id": f"m{len(said) + 1}", "role": "user", field: [{"type": "text", "text": text}]}
            ]
    seen = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": URL}}]
    assert [each.body["messages"][0]["content"] for each in model.requests] == [seen] * 2


async def test_a_message_is_known_to_be_sent_before_a_worker_has_it(
    stage: Stage, scripted: Callable[[Script], ScriptedModel]
) -> None:
    agent = scripted_agent(scripted([says("Tea it is.")]))
    offer = OfferedAgent("tested", agent, Path("tested.prompty"))
    chat = Chat(
        Gateway(stage.client, {"tested": offer}, stage.task_queue), ANYBODY, offer, stage.task_queue
    )
    assert not await chat.has_taken(TEA, "m1")
    saying = asyncio.create_task(chat.say(TEA, "m1", None))
    await wait_for(lambda: chat.has_taken(TEA, "m1"))
    assert not await chat.has_taken(TEA, "m2")
    async with stage.worker():
        assert (await (await saying).handle.result()).output == "Tea it is."
        assert await chat.has_taken(TEA, "m1")
