"""Conversations that are interrupted by SIGKILL, and what became of them."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.client import Client

from perdure.agents import Agent
from perdure.client import RunHandle, start_run
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says

from .agents import QUESTION, scripted_agent
from .commands import ForkedProcess
from .gates import GatedReplies
from .stage import replay_runs
from .waiting import wait_for
from .worker_process import WorkerJob
from .workers import Nursery, count, read_diary

ROUNDS = 2


class Point(NamedTuple):
    """A moment of the conversation: while the n-th model call, or the n-th tool, is under way."""

    kind: Literal["model", "tool"]
    number: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


POINTS = [Point(kind, number) for number in range(1, ROUNDS + 1) for kind in ("model", "tool")]


def conversation(count: int = ROUNDS) -> list[ScriptedReply]:
    """So many rounds of one model call and one tool, and an answer."""
    rounds = [
        asks(call("step", f"call_{number}", text=str(number)), text=f"Round {number}.")
        for number in range(1, count + 1)
    ]
    return [*rounds, says("All done.")]


class HeldConversation(GatedReplies):
    """The conversation, in which the first model call of one point is not answered until it is let
    go.
    """

    def __init__(self, point: Point) -> None:
        super().__init__(*conversation(), held=point.number if point.kind == "model" else 0)


@dataclass
class Scene:
    """One run, with a model, a diary of its tools and worker processes of its own."""

    client: Client
    nursery: Nursery
    model: ScriptedModel
    root: Path
    """Where the runs have their folders."""
    address: str
    id: str = field(default_factory=lambda: f"kill-{uuid.uuid4()}")
    """Of the run, and the name of its task queue."""
    held: HeldConversation | None = None
    run: RunHandle | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    @property
    def folder(self) -> Path:
        return self.root / self.id

    async def start(
        self,
        agent: Agent,
        *,
        task_queue: str | None = None,
        messages: list[Message] | None = None,
        **options: Any,
    ) -> RunHandle:
        self.run = await start_run(
            self.client,
            agent,
            messages=messages or QUESTION,
            task_queue=task_queue or self.id,
            id=self.id,
            options=RunOptions(**options),
        )
        return self.run

    async def worker(self) -> ForkedProcess:
        return await self.nursery.start(
            WorkerJob(address=self.address, task_queue=self.id, folder=str(self.root))
        )

    def hold(self, point: Point) -> None:
        """Keep the tool of that moment from ending; a model call is held by its script."""
        (self.folder / f"held-call_{point.number}").touch()

    def release(self) -> None:
        """Let go what is held."""
        if self.held:
            self.held.open.set()
        for file in self.folder.glob("held-*"):
            file.unlink()

    async def reach(self, point: Point) -> None:
        """Return while the model call or tool of that moment is under way."""
        await wait_for(lambda: self._reached(point), timeout=60.0)
        await asyncio.sleep(0.05)

    async def _reached(self, point: Point) -> bool:
        if point.kind == "model":
            return any(request.step == point.number - 1 for request in self.model.requests)
        return f"call_{point.number}" in count(self.folder, "start")

    def next_start(self, moment: float) -> float | None:
        """Seconds from that moment to the next beginning of a model call or a tool; None when there
        was none.
        """
        requests = [request.received_at for request in self.model.requests]
        starts: list[float] = [
            entry["at"] for entry in read_diary(self.folder) if entry["event"] == "start"
        ]
        following = [at - moment for at in requests + starts if at > moment]
        return min(following) if following else None

    async def outcome(self) -> Outcome:
        assert self.run is not None
        result = await asyncio.wait_for(self.run.result(), 60)
        self.release()
        await asyncio.to_thread(
            self.model.wait_until,
            lambda: all(request.finished_at for request in self.model.requests),
        )
        await replay_runs(self.client, self.run.id)
        steps = [request.step for request in self.model.requests]
        answered = [request.step for request in self.model.requests if not request.aborted]
        return Outcome(
            result=result,
            asked={step: steps.count(step) for step in steps},
            answered={step: answered.count(step) for step in answered},
            started=count(self.folder, "start"),
            ended=count(self.folder, "end"),
            delays=await delays_of(self.client, self.run.id),
        )


@dataclass
class Outcome:
    """What a run gave, and what it took."""

    result: RunResult
    asked: dict[int, int]
    """Step → model calls that reached the model."""
    answered: dict[int, int]
    """Step → model calls whose answer was sent to the end."""
    started: dict[str, int]
    """Call id → beginnings of tool executions."""
    ended: dict[str, int]
    """Call id → ends of tool executions."""
    delays: list[str]
    """What had to be tried again, when, and what had ended the attempt before."""
    resumed_after: float | None = None
    """Seconds from the kill to the next model call or tool."""


async def delays_of(client: Client, workflow_id: str) -> list[str]:
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    scheduled = {
        event.event_id: event.activity_task_scheduled_event_attributes for event in history.events
    }
    delays = []
    for event in history.events:
        when = event.event_time.ToDatetime().time()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
            timeout = TimeoutType.Name(event.workflow_task_timed_out_event_attributes.timeout_type)
            delays.append(f"{when} workflow task: {timeout}")
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            delays.append(
                f"{when} workflow task: "
                f"{event.workflow_task_failed_event_attributes.failure.message}"
            )
        started = event.activity_task_started_event_attributes
        if started.attempt > 1:
            activity = scheduled[started.scheduled_event_id].activity_type.name
            delays.append(
                f"{when} {activity}, attempt {started.attempt}: {started.last_failure.message}"
            )
    return delays


async def undisturbed(scene: Scene) -> Outcome:
    await scene.worker()
    await scene.start(scripted_agent(scene.model, ["step"]))
    return await scene.outcome()


async def worker_killed_at(scene: Scene, point: Point, tool: str = "step") -> Outcome:
    """SIGKILL the only worker at that moment, and start another one."""
    if point.kind == "tool":
        scene.hold(point)
    worker = await scene.worker()
    await scene.start(scripted_agent(scene.model, [tool]))
    await scene.reach(point)
    killed = worker.kill()
    await scene.worker()
    outcome = await scene.outcome()
    outcome.resumed_after = scene.next_start(killed)
    return outcome


async def tool_that_kills_its_workers(scene: Scene) -> Outcome:
    """Each worker that starts the tool is gone at once; there is always another one."""
    await scene.worker()
    run = await scene.start(scripted_agent(scene.model, ["kill_worker"]))
    finished = asyncio.create_task(run.result())
    replaced = 0
    while not finished.done():
        deaths = sum(count(scene.folder, "start").values())
        if deaths > replaced:
            replaced = deaths
            await scene.worker()
        await asyncio.wait([finished], timeout=0.1)
    return await scene.outcome()
