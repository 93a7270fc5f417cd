"""Two worker processes that remember nothing and are killed at random, and conversations that go on
all the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client

from perdure.agents import Agent
from perdure.client import RunHandle, start_run
from perdure.messages import Message, ToolCall
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest

from .agents import scripted_agent
from .commands import ForkedProcess
from .comparison import fingerprint, portable, run_in_process
from .worker_process import WorkerJob
from .workers import Nursery

MEMORYLESS = {"conversation_cache_bytes": 0, "max_cached_workflows": 2}
"""No conversation is ever at hand, and three runs displace each other from the cache of
decisions."""

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "trimmed": {"context_budget": 12_000},
    "parallel": {"parallel_tool_calls": True},
}
"""The runs that go on at the same time, and their options."""


def step(text: str = "") -> str:
    """What the tool of the worker processes gives."""
    return f"step {text} done"


def script(rounds: int, calls: int) -> Any:
    """A model that asks for tools of a kilobyte each until it has seen so many rounds."""

    def reply(request: ScriptedRequest) -> ScriptedReply:
        last = request.messages[-1]
        number = int(last.text.split()[1]) + 1 if last.role == "tool" else 1
        return (
            asks(*_calls(number, calls), text=f"Round {number}.")
            if number <= rounds
            else says("done")
        )

    return reply


def _calls(number: int, count: int) -> list[ToolCall]:
    words = [f"{number} {index} " + "x" * 1000 for index in range(count)]
    return [call("step", f"call_{number}_{index}", text=text) for index, text in enumerate(words)]


@dataclass
class ColdRun:
    """One run, its model, and what the same run in process showed its model."""

    kind: str
    rounds: int
    model: ScriptedModel
    twin: ScriptedModel
    options: dict[str, Any]
    handle: RunHandle | None = None
    result: RunResult | None = None
    expected: RunResult | None = None

    @property
    def seed(self) -> list[Message]:
        return [Message.system("You are helpful."), Message.user(f"Go, {self.kind} run.")]

    @property
    def wrong_requests(self) -> list[int]:
        """The places of those requests whose conversation the run in process never showed."""
        known = {fingerprint(request.body) for request in self.twin.requests}
        return [
            place
            for place, sent in enumerate(self.model.requests)
            if fingerprint(sent.body) not in known
        ]

    @property
    def answered(self) -> list[str]:
        """The conversations in the order in which the model first received them."""
        return list(dict.fromkeys(fingerprint(request.body) for request in self.model.requests))

    async def compare(self) -> None:
        """Run the same in this process."""
        agent = scripted_agent(self.twin, ["step"])
        self.expected = await run_in_process(agent, {"step": step}, self.seed, **self.options)


@dataclass
class Massacre:
    """Keeps two workers alive, and kills one of them every few seconds."""

    nursery: Nursery
    job: WorkerJob
    seconds: tuple[float, float]
    """Between two kills: at least, at most."""
    seed: int
    most: int | None = None
    """No more kills than these."""
    kills: int = 0
    _alive: list[ForkedProcess] = field(default_factory=list)

    async def go_on(self) -> None:
        chance = random.Random(self.seed)
        self._alive = [await self.nursery.start(self.job) for _ in range(2)]
        while self.kills != self.most:
            await asyncio.sleep(chance.uniform(*self.seconds))
            victim = chance.randrange(2)
            self._alive[victim].kill()
            self.kills += 1
            self._alive[victim] = await self.nursery.start(self.job)

    def end(self) -> None:
        for worker in self._alive:
            worker.kill()


async def run_cold(
    client: Client, nursery: Nursery, job: WorkerJob, runs: Sequence[ColdRun], massacre: Massacre
) -> None:
    """Run all of them to their ends while the workers die."""
    killing = asyncio.create_task(massacre.go_on())
    try:
        await asyncio.gather(*[_run(client, job, run) for run in runs])
    finally:
        killing.cancel()
        massacre.end()


async def _run(client: Client, job: WorkerJob, run: ColdRun) -> None:
    id = f"{job.task_queue}-{run.kind}"
    (Path(job.folder) / id).mkdir(parents=True)
    agent: Agent = scripted_agent(run.model, ["step"])
    options = RunOptions(**run.options)
    run.handle = await start_run(
        client, agent, messages=run.seed, task_queue=job.task_queue, id=id, options=options
    )
    run.result = await run.handle.result()


def cold_run(kind: str, rounds: int) -> ColdRun:
    """A run of that kind; its models have yet to be started."""
    calls = 3 if kind == "parallel" else 1
    options = {"max_iterations": rounds + 1, **KINDS[kind]}
    return ColdRun(
        kind,
        rounds,
        ScriptedModel(script(rounds, calls)),
        ScriptedModel(script(rounds, calls)),
        options,
    )


async def check_cold_runs(
    client: Client,
    address: str,
    folder: Path,
    task_queue: str,
    *,
    rounds: int,
    seconds: tuple[float, float],
    seed: int,
    most_kills: int | None = None,
) -> Massacre:
    """Let the three runs go on over dying workers; raises AssertionError where they differ from
    runs in process.
    """
    job = WorkerJob(address=address, task_queue=task_queue, folder=str(folder), options=MEMORYLESS)
    runs = [cold_run(kind, rounds) for kind in KINDS]
    for run in runs:
        run.model.start()
        run.twin.start()
    async with Nursery() as nursery:
        massacre = Massacre(nursery, job, seconds, seed, most_kills)
        try:
            await asyncio.gather(
                run_cold(client, nursery, job, runs, massacre), *[run.compare() for run in runs]
            )
        finally:
            for run in runs:
                run.model.close()
                run.twin.close()
    for run in runs:
        assert run.wrong_requests == [], f"{run.kind}: seed {seed}, {massacre.kills} kills"
        assert run.answered == [fingerprint(request.body) for request in run.twin.requests]
        assert len(run.answered) == rounds + 1
        assert run.result is not None
        assert run.expected is not None
        assert portable(run.result.messages) == portable(run.expected.messages)
    return massacre
