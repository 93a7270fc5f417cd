"""One schedule's world: its clock, server, workers, people, and what all of them have seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from temporalio.client import Client

from perdure.json_types import JsonView

from .chance import Chance
from .clock import EPOCH, VirtualLoop, clock
from .execution import Process
from .history import Execution
from .machine import Machine
from .scene import Scene, draw_scene
from .server import Server
from .service import client_of
from .tools import Entry
from .worker import Worker

if TYPE_CHECKING:
    from .people import People

RUN = "run"
"""The id of the run."""
LIMIT = 3600.0
"""Virtual seconds after which a schedule ends, finished or not."""


class World:
    """Everything that takes part in one schedule."""

    def __init__(self, seed: int, *, traced: bool = False, faults: float = 1.0) -> None:
        random.seed(seed)
        self.seed = seed
        self.chance = Chance(seed, faults)
        self.loop = VirtualLoop()
        clock.loop = self.loop
        self.loop.set_exception_handler(self._on_exception)
        self.scene: Scene = draw_scene(seed, self.chance)
        self.lines: list[str] | None = [] if traced else None
        self.diary: list[Entry] = []
        self.requests: list[JsonView] = []
        """The requests of all model calls."""
        self.answered = 0
        self.faults = 0
        self.steps = 0
        self.errors: list[Exception] = []
        """Errors of activities that Temporal retries."""
        self.violations: list[tuple[str, str]] = []
        self.abandoned: list[Machine] = []
        self.server = Server(self, self.scene.suggest_after)
        self.processes: list[Process] = []
        self.workers: list[Worker] = []
        self.states: dict[tuple[str, int], str] = {}
        """What the workflow knew after each workflow task, by link and the task's event."""
        self.people: People | None = None
        for number in range(self.scene.workers):
            self.workers.append(Worker(self, f"worker {number + 1}"))

    def now(self) -> float:
        """Return the virtual time."""
        return self.loop.time()

    def later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something after that time."""
        return self.loop.call_later(seconds, act)

    def trace(self, text: str) -> None:
        """Note what happens, if somebody reads it."""
        if self.lines is not None:
            self.lines.append(f"{self.now() - EPOCH:10.3f}  {text}")

    def fails(self, invariant: str, execution: Execution | None, text: str) -> None:
        """Note a violation."""
        self.violations.append((invariant, text))
        where = f" {execution.run_id}" if execution else ""
        self.trace(f"VIOLATION{where}: {invariant}: {text[:2000]}")

    def new_process(self, worker: Worker) -> Process:
        """Return a new process of the worker."""
        self.processes.append(process := Process(self, worker))
        return process

    def client_of(self, process: Process | None) -> Client:
        """Return a Temporal client of that process; of an observer without one."""
        return client_of(self.server, process)

    def on_model_call(self, process: Process, request: JsonView) -> None:
        """Note the request of a model call."""
        self.trace(f"{process.worker.name}: model call, {len(request['messages'])} messages")
        self.requests.append(request)

    def on_error(self, error: Exception) -> None:
        """Note an error of an activity that Temporal retries."""
        self.trace(f"an activity fails: {error!r}")
        self.errors.append(error)

    def on_answer(self, execution: Execution, token: tuple[int, int], is_taken: bool) -> None:
        """Note whether the server awaited an activity's end."""
        if not is_taken:
            self.trace(f"server: an end of {execution.run_id}, event {token[0]} is not awaited")

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, AssertionError | Exception):
            import traceback

            text = "".join(traceback.format_exception(error))
            self.fails("HARNESS", None, text)

    @property
    def links(self) -> list[Execution]:
        """The links of all executions, in the order of their starts."""
        return list(self.server.executions.values())

    def is_over(self) -> bool:
        """Whether every run has ended."""
        current = self.server.current.values()
        return bool(current) and all(execution.is_closed for execution in current)

    def run(self) -> None:
        """Let the schedule happen."""
        from .people import People

        self.people = People(self)

        def begin() -> None:
            assert self.people is not None
            self.server.start(RUN, self.scene.start())
            self.people.begin()

        self.loop.call_soon(begin)
        self.loop.run_while(lambda: not self.is_over(), LIMIT)

    def end(self) -> None:
        """Take everything down."""
        for worker in self.workers:
            worker.process.is_dead = False
            worker.is_frozen = False
            self.abandoned += worker.cache.values()
        asyncio._set_running_loop(self.loop)
        try:
            for machine in self.abandoned:
                machine.evict()
        finally:
            asyncio._set_running_loop(None)
        self.loop.end()
        for process in self.processes:
            process.activities.give_back()
        clock.loop = None
