"""A chat of a front end, and what is known of its messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from perdure.gateway.chats import Chat
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.gateway.identity import ANYBODY
from perdure.gateway.openai_wire import ChatMessage, message_of
from perdure.gateway.problems import BadParameter
from perdure.gateway.responses_wire import ResponseRequest, response_input
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
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


BROKEN = URL.replace("Rw0K", "!?!?")
FACES: dict[str, tuple[str, JsonObject]] = {
    "/ai/tested": ("parts", {"id": "chat"}),
    "/ag-ui/tested": ("content", {"threadId": "thread", "runId": "r", "protocolVersion": "1.0"}),
}


async def test_an_image_is_a_turn_of_its_chat(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([says("A pixel."), says("Red.")] * 2)
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        for path, (field, about) in FACES.items():
            parts = SAID[path.split("/")[1]]
            said: list[JsonObject] = [{"id": "m1", "role": "user", field: parts}]
            for text, answer in (("Colour?", "A pixel."), ("", "Red.")):
                for _ in range(2):
                    told = await http.post(path, json={**about, "messages": said})
                    assert (told.status_code, answer in told.text) == (200, True), told.text
                more = [{"type": "text", "text": text}]
                said.append({"id": f"m{len(said) + 1}", "role": "user", field: more})
            broken = json.loads(json.dumps(said[:1]).replace("Rw0K", "!?!?"))
            refused = await http.post(path, json={**about, "messages": broken})
            assert (refused.status_code, "messages: " in refused.text) == (400, True)
    seen = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": URL}}]
    assert [each.body["messages"][0]["content"] for each in model.requests] == [seen] * 4


def test_an_image_or_a_file_that_is_not_base64_is_refused_by_the_name_of_its_field() -> None:
    chat = ChatMessage.model_validate(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": BROKEN}}]}
    )
    with pytest.raises(BadParameter, match="^messages: the data: URI .* has no base64"):
        message_of(chat)
    for part in (
        {"type": "input_image", "image_url": BROKEN},
        {"type": "input_file", "file_data": "a b!"},
    ):
        items = [{"role": "user", "content": [part]}]
        asked = ResponseRequest.model_validate({"model": "tested", "input": items})
        with pytest.raises(BadParameter, match="^input: "):
            response_input(asked)


async def test_a_message_is_known_to_be_sent_before_a_worker_has_it(
    stage: Stage, scripted: Scripted
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
