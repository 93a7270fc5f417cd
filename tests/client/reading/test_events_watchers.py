"""Several clients read one run's text while the model writes it, and lose their connections all the
time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing

import pytest

from perdure.client import RunEvent, connect, get_run
from perdure.events import TERMINAL_EVENTS
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script
from tests.support.agents import scripted_agent
from tests.support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


async def disconnected(address: str, id: str, seed: int, seconds: float) -> list[RunEvent]:
    """What a client gets that is cut off after at most so many seconds, wherever it is; it goes on
    with a position.
    """
    chance, events = random.Random(seed), list[RunEvent]()
    while not (events and events[-1].type in TERMINAL_EVENTS):
        client = await connect(address)
        stream = get_run(client, id).stream(events[-1].position if events else 0)
        try:
            async with asyncio.timeout(chance.uniform(0.05, seconds)), aclosing(stream):  # type: ignore[type-var]
                async for event in stream:
                    events.append(event)
        except TimeoutError:
            seconds *= 1.1  # Under load, a connection that is too short would never get anywhere.
    return events


async def read_by(
    stage: Stage, model: ScriptedModel, text: str, *, clients: int, seconds: float
) -> None:
    address = stage.client.service_client.config.target_host
    async with stage.worker():
        run = await stage.start(scripted_agent(model), stream=True)
        seen = await asyncio.gather(
            *(disconnected(address, run.id, seed, seconds) for seed in range(clients))
        )
    recorded = [event.seq for event in await run.events() if event.type != "token"]
    for events in seen:
        assert "text_reset" not in [event.type for event in events]
        assert "".join(event.data["token"] for event in events if event.type == "token") == text
        assert [event.seq for event in events if event.type != "token"] == recorded


async def test_three_clients_get_five_hundred_tokens_once_and_in_order(
    stage: Stage, scripted: Scripted
) -> None:
    text = " ".join(f"token{number}" for number in range(500))
    await read_by(stage, scripted([says(text, chunk_delay=0.003)]), text, clients=3, seconds=0.5)


@pytest.mark.trial
@pytest.mark.timeout(300)
async def test_five_clients_get_five_thousand_tokens_once_and_in_order(
    stage: Stage, scripted: Scripted
) -> None:
    text = " ".join(f"token{number}" for number in range(5000))
    await read_by(stage, scripted([says(text, chunk_delay=0.005)]), text, clients=5, seconds=2.0)
