"""A chat of a front end, and what is known of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from perdure.gateway.chats import Chat
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.gateway.identity import ANYBODY
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


async def test_a_message_is_known_to_be_sent_before_a_worker_has_it(
    stage: Stage, scripted: Callable[[Script], ScriptedModel]
) -> None:
    agent = scripted_agent(scripted([says("Tea it is.")]))
    offer = OfferedAgent("tested", agent, Path("tested.prompty"))
    chat = Chat(Gateway(stage.client, {"tested": offer}, stage.task_queue), ANYBODY, offer, stage.task_queue)
    assert not await chat.has_taken("tea", "m1")
    saying = asyncio.create_task(chat.say("tea", "m1", None))
    await wait_for(lambda: chat.has_taken("tea", "m1"))
    assert not await chat.has_taken("tea", "m2")
    async with stage.worker():
        assert (await (await saying).handle.result()).output == "Tea it is."
        assert await chat.has_taken("tea", "m1")
