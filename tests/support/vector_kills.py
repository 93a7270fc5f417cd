"""Plays an upstream vector while its worker is killed after each completed activity."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest
from perdure.testing.script import Script

from .agents import scripted_agent
from .kills import Scene, delays_of
from .run_vectors import Outcome, VectorCase
from .stage import replay_runs
from .vector_runs import options, outcome_of, script, send
from .worker_process import VECTOR_TOOL_SECONDS
from .workers import Nursery, count


@dataclass
class KilledVector:
    """What a vector gave whose worker was killed again and again."""

    outcome: Outcome
    kills: int
    answered: dict[str, int]
    """Request → how often it was answered to the end."""
    ended: dict[str, int]
    """Call id → ends of tool executions."""
    resumed_after: list[float]
    """Seconds from each kill to the next model call or tool; of several kills in between, from the
    last."""
    delays: list[str]
    """What had to be tried again, when, and what had ended the attempt before."""


async def vector_killed(
    client: Client, nursery: Nursery, root: Path, case: VectorCase, wire: str
) -> KilledVector:
    with ScriptedModel(_taking_its_time(script(case))) as model:
        scene = Scene(
            client, nursery, model, root, client.service_client.config.target_host, vector=case.name
        )
        agent = scripted_agent(model, case.agent["tools"], wire=wire)
        run = await scene.start(agent, messages=case.messages, **options(case))
        for due in case.due_before(1):
            await send(due, run)
        kills = await _kill_after_each_activity(scene)
        outcome = await outcome_of(run)
        await replay_runs(client, run.id)
        requests = [json.dumps(request.body) for request in model.requests if not request.aborted]
        return KilledVector(
            outcome=outcome,
            kills=len(kills),
            answered={request: requests.count(request) for request in requests},
            ended=count(scene.folder, "end"),
            resumed_after=_waits(scene, kills),
            delays=await delays_of(client, run.id),
        )


def _taking_its_time(script: Script) -> Script:
    """The same replies, each so late that a worker can be killed before it has it."""
    assert callable(script)

    def reply(request: ScriptedRequest) -> ScriptedReply:
        return script(request).model_copy(update={"delay": VECTOR_TOOL_SECONDS})

    return reply


async def _kill_after_each_activity(scene: Scene) -> list[float]:
    """The moments of the kills."""
    assert scene.run is not None
    kills: list[float] = []
    worker = await scene.worker()
    handle = scene.client.get_workflow_handle(scene.run.id)
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            kills.append(worker.kill())
            worker = await scene.worker()
        await asyncio.sleep(0)
    return kills


def _waits(scene: Scene, kills: list[float]) -> list[float]:
    waits = []
    for moment, next_kill in zip_longest(kills, kills[1:], fillvalue=math.inf):
        after = scene.next_start(moment)
        if after is not None and moment + after < next_kill:
            waits.append(after)
    return waits
