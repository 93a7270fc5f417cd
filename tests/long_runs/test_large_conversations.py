"""Conversations that are larger than anything that Temporal carries at once."""

from __future__ import annotations

import asyncio
import base64
import random

import pytest

from perdure.client import get_run
from perdure.client.reading.survey import survey
from perdure.errors import RunCancelled
from perdure.history.chain import Chain
from perdure.messages import ImagePart, Message, TextPart
from perdure.protocol import activities
from perdure.testing import ScriptedReply, asks, call, says
from perdure.tools import tool

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.comparison import (
    activity_types,
    fingerprints,
    links,
    portable,
    run_in_process,
    without_clock,
)
from ..support.gates import HeldActivities
from ..support.stage import Stage


def noise(size: int, seed: object) -> str:
    """So many characters that hardly compress."""
    return base64.b64encode(random.Random(str(seed)).randbytes(size)).decode()[:size]


@tool
def read(text: str = "") -> str:
    """Read."""
    return noise(60_000, text)


def rounds(count: int, calls: int = 2) -> list[ScriptedReply]:
    """So many rounds of so many tool calls each, and the answer."""
    names = [[f"{number}_{index}" for index in range(calls)] for number in range(count)]
    return [
        *[asks(*[call("read", name, text=name) for name in each]) for each in names],
        says("done"),
    ]


async def test_over_four_megabytes_give_the_same_bytes_as_a_run_in_process(
    stage: Stage, scripted: Scripted
) -> None:
    count, calls = 8, 9
    model, other = scripted(rounds(count, calls)), scripted(rounds(count, calls))
    expected = await run_in_process(scripted_agent(other, ["read"]), [read], max_iterations=100)
    async with stage.worker([read]):
        run = await stage.start(scripted_agent(model, ["read"]), max_iterations=100)
        live = [event async for event in run.stream()]
        result = await run.result()
    assert sum(len(message.text) for message in result.messages) > 4 * 1024 * 1024
    chain = await links(stage.client, run.id)
    assert len(chain) >= 4
    assert any(activities.LOAD_PIECE in activity_types(link) for link in chain)
    assert fingerprints(model) == fingerprints(other)
    assert portable(result.messages) == portable(expected.messages)
    reader = get_run(stage.client, run.id)
    assert await reader.messages() == result.messages
    assert without_clock(await reader.events()) == without_clock(live)
    assert live[-1].data["messages"] == result.messages
    surveyed = [
        (each.finish_reason, len(each.tools))
        for each in (await survey(Chain(stage.client, run.id))).iterations
    ]
    assert surveyed == [*[("tool_calls", calls)] * count, ("stop", 0)]


async def test_six_large_images_in_one_round(roomy_stage: Stage, scripted: Scripted) -> None:
    @tool
    def draw(text: str = "") -> ImagePart:
        """Draw."""
        return ImagePart(source=noise(900_000, text), mediaType="image/png")

    stage = roomy_stage
    script = [
        asks(*[call("draw", f"c{number}", text=str(number)) for number in range(6)]),
        says("done"),
    ]
    model = scripted(script)
    async with stage.worker([draw]):
        run = await stage.start(scripted_agent(model, ["draw"]), parallel_tool_calls=True)
        result = await run.result()
    assert result.output == "done"
    images = [
        part for message in result.messages for part in message.parts if isinstance(part, ImagePart)
    ]
    assert [len(image.source) for image in images] == [900_000] * 6
    first, *_ = await links(stage.client, run.id)
    assert activity_types(first).count(activities.RECORD) >= 5


async def test_a_run_that_fails_with_more_at_hand_than_its_failure_can_carry(
    stage: Stage, scripted: Scripted
) -> None:
    @tool
    def draw(text: str = "") -> ImagePart:
        """Draw."""
        return ImagePart(source=noise(900_000, text), mediaType="image/png")

    script = [asks(*[call("draw", f"c{number}", text=str(number)) for number in range(4)])] * 3
    async with stage.worker([draw]):
        run = await stage.start(scripted_agent(scripted(script), ["draw"]), max_iterations=1)
        with pytest.raises(Exception, match="exceeded 1 iterations") as raised:
            await run.result()
    assert len(raised.value.messages) == 2 + 1 + 4  # type: ignore[attr-defined]
    assert await run.messages() == raised.value.messages  # type: ignore[attr-defined]


async def test_a_large_seed_that_compresses_well(stage: Stage, scripted: Scripted) -> None:
    seed = [
        *QUESTION,
        *[
            Message(role="user", parts=[TextPart(value=f"{number} " * 50_000)])
            for number in range(60)
        ],
    ]
    model = scripted(rounds(3))
    async with stage.worker([read]):
        run = await stage.start(scripted_agent(model, ["read"]), seed)
        result = await run.result()
    assert sum(len(message.text) for message in seed) > 8_000_000
    assert result.messages[: len(seed)] == seed
    assert model.requests[0].messages == seed


async def test_a_cancel_while_the_conversation_is_recorded_for_the_next_link(
    stage: Stage, scripted: Scripted
) -> None:
    held = HeldActivities(activities.RECORD)
    async with stage.worker([read], interceptors=[held]):
        run = await stage.start(scripted_agent(scripted(rounds(8, 1)), ["read"]))
        async with asyncio.timeout(30):
            await held.gate.reached.wait()
        await run.cancel()
        held.gate.open.set()
        with pytest.raises(RunCancelled):
            await run.result()
    assert len(await links(stage.client, run.id)) == 1
