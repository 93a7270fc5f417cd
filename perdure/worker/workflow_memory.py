"""Bounds, in bytes, what a worker keeps of the runs that it decides about: those that wait are given back first.

It also tells when one of them has ended, so that nothing more is kept for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ref

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from ..workflows.agent_run import AgentRun

DEFAULT_WORKFLOW_BYTES = 128 * 1024 * 1024
LOOK_SECONDS = 1.0
IDLE_SECONDS = 2.0
"""A run that has not changed for so long counts as waiting."""

MAX_ENDED = 10_000
"""A replayer has no event loop in which anybody would be told."""


@dataclass
class _Seen:
    """A run as it was found the last time that anything had changed about it."""

    bytes: int
    changed_at: float


class WorkflowMemory(Interceptor):
    """Watches the runs in a worker's cache, and while they take too much, evicts those that have stood still longest.

    Temporal bounds the cache by the number of runs (`max_cached_workflows`), however large each one is. An evicted
    run costs nothing until something happens to it; then its history is read and replayed. A run that is under way
    stays: it would be back at once.
    """

    def __init__(self, max_bytes: int, on_end: Callable[[str, str], None]) -> None:
        """`on_end` is called in the event loop, soon after a run has ended, with its workflow id and run id."""
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._ended: deque[tuple[str, str]] = deque(maxlen=MAX_ENDED)
        self._held: dict[str, ref[AgentRun]] = {}
        self._seen: dict[str, _Seen] = {}
        self.evictions = 0

    @property
    def bytes(self) -> int:
        """About how much memory the held runs take."""
        return sum(self._sizes().values())

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        held, ended = self._held, self._ended

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                run, info = workflow.instance(), workflow.info()
                if not isinstance(run, AgentRun):
                    return await super().execute_workflow(input)
                held[info.run_id] = ref(run)
                try:
                    return await super().execute_workflow(input)
                finally:
                    if run.has_ended:
                        ended.append((info.workflow_id, info.run_id))

        return Inbound

    @asynccontextmanager
    async def watching(self, worker: Worker) -> AsyncIterator[None]:
        """Look at the worker's cache every now and then, for as long as the block runs."""
        task = asyncio.create_task(self._watch(worker))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self, worker: Worker) -> None:
        # The SDK has no public way to evict a run; its bridge to the core, which knows one, is private.
        bridge: Any = getattr(worker, "_bridge_worker", None)
        can_evict = hasattr(bridge, "request_workflow_eviction")
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            while self._ended:
                self._on_end(*self._ended.popleft())
            for run_id in self.superfluous(time.monotonic()) if can_evict else ():
                bridge.request_workflow_eviction(run_id)
                self._held.pop(run_id, None)
                self.evictions += 1

    def superfluous(self, now: float) -> list[str]:
        """The runs to give back: those that have not changed for the longest time, until the rest fits."""
        sizes = self._sizes()
        before, self._seen = self._seen, {}
        for run_id, size in sizes.items():
            same = before.get(run_id)
            self._seen[run_id] = same if same and same.bytes == size else _Seen(size, now)
        idle = [run_id for run_id, seen in self._seen.items() if now - seen.changed_at >= IDLE_SECONDS]
        excess = sum(sizes.values()) - self._max_bytes
        chosen: list[str] = []
        for run_id in sorted(idle, key=lambda run_id: self._seen[run_id].changed_at):
            if excess <= 0:
                break
            chosen.append(run_id)
            excess -= sizes[run_id]
        return chosen

    def _sizes(self) -> dict[str, int]:
        """The size of each held run; what is no longer held by the worker is forgotten here too."""
        # Runs are added by the threads that decide about them: the copies are made in one step.
        held = {run_id: reference() for run_id, reference in list(self._held.items())}
        for run_id in [run_id for run_id, run in held.items() if run is None]:
            self._held.pop(run_id, None)
        return {run_id: run.memory_bytes for run_id, run in held.items() if run is not None}
