"""SIGKILL to the worker of a run that is handed over, at each of its points: deps, agents and
instructions stay.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import perdure
from perdure.client import start_run
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import ScriptedModel, asks, call, says

from ..support.agents import Scripted, declared
from ..support.gates import GatedReplies
from ..support.kills import Point, Scene
from ..support.workers import Nursery, read_diary

POINTS = [Point("model", 1), Point("tool", 2)]
"""While the first agent is asked, and while the second one's tool works."""
DEPS = {"tenant": "north"}


class HeldReplies(GatedReplies):
    """Triage hands over to billing, which takes a step."""

    def __init__(self, point: Point) -> None:
        transfer, step = call("transfer_to_billing", "call_1"), call("step", "call_2", text="two")
        held = point.number if point.kind == "model" else 0
        super().__init__(asks(transfer), asks(step), says("All done."), held=held)


def desk(model: ScriptedModel) -> Any:
    at: JsonObject = {"connection": {"endpoint": model.openai_endpoint}}
    more = {"tools": [declared("step")], "instructions_by": "greet", **at}
    billing = perdure.agent("openai/billing", name="billing", instructions="You bill.", **more)
    return perdure.agent(
        "openai/triage", name="triage", instructions="You sort.", handoffs=[billing], **at
    )


async def killed_at(scene: Scene, point: Point, script: HeldReplies) -> None:
    if point.kind == "tool":
        scene.hold(point)
    worker = await scene.worker()
    scene.run = await start_run(
        scene.client, desk(scene.model), "Well?", task_queue=scene.id, id=scene.id, deps=DEPS
    )
    await scene.reach(point)
    worker.kill()
    await scene.worker()
    script.open.set()
    outcome = await scene.outcome()
    assert (outcome.result.agent, outcome.result.output) == ("billing", "All done."), point
    told = {
        (request.step, request.body["model"], _instructions(request.messages))
        for request in scene.model.requests
    }
    billing = "You bill.\nGreet north."
    assert told == {(0, "triage", "You sort."), (1, "billing", billing), (2, "billing", billing)}, (
        point
    )
    assert {str(entry["deps"]) for entry in read_diary(scene.folder)} == {str(DEPS)}, point
    assert outcome.ended == {"call_2": 1}, point


def _instructions(messages: list[Message]) -> str:
    return "\n".join(message.text for message in messages if message.instructs)


@pytest.mark.timeout(120)
async def test_at_each_point(
    client: Client, tmp_path: Path, scripted: Scripted, address: str
) -> None:
    async with Nursery() as nursery:
        plays = []
        for point in POINTS:
            script = HeldReplies(point)
            scene = Scene(client, nursery, scripted(script), tmp_path, address)
            plays.append(killed_at(scene, point, script))
        await asyncio.gather(*plays)
