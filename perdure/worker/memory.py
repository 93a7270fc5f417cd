"""Bounds the memory of a worker's cached runs, and tunes a process that only runs a worker."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

from temporalio import workflow
from temporalio.worker import Worker

from ..workflows.agent_run import AgentRun
from ..workflows.interceptors import RunObserver
from ..workflows.session.session import Session

DEFAULT_WORKFLOW_BYTES = 128 * 1024 * 1024
LOOK_SECONDS = 1.0
"""Seconds between two looks at the cache."""

MAX_ENDED = 10_000
"""Maximum of ended runs not yet reported: a replayer never reports any, since it has no event loop
for it."""


class WorkflowMemory(RunObserver[AgentRun | Session]):
    """Evicts runs from a worker's cache while they take too much memory; the oldest waiting ones go
    first.

    Temporal bounds the cache by the number of runs (`max_cached_workflows`), whatever their size.
    An evicted run costs nothing until its next event; then its history is read and replayed. An
    active run is not evicted: it would be back at once. Sessions count as runs here.
    """

    observed = (AgentRun, Session)

    def __init__(self, max_bytes: int, on_end: Callable[[str, str], None]) -> None:
        """`on_end` is called on the event loop, soon after a run has ended, with its workflow id
        and run id.
        """
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._ended: deque[tuple[str, str]] = deque(maxlen=MAX_ENDED)
        self._held: dict[str, ref[AgentRun | Session]] = {}
        self._before: dict[str, int] = {}
        """The sizes at the last look: a run of the same size now counts as waiting."""
        self.evictions = 0

    @property
    def bytes(self) -> int:
        """Roughly the memory of the cached runs, in bytes."""
        return sum(self._sizes().values())

    def on_begin(self, run: AgentRun | Session, info: workflow.Info) -> None:
        self._held[info.run_id] = ref(run)

    def on_end(self, run: AgentRun | Session, info: workflow.Info, end: Any) -> None:
        if run.has_ended:
            self._ended.append((info.workflow_id, info.run_id))

    async def watch(self, worker: Worker) -> None:
        """Check the worker's cache every `LOOK_SECONDS`."""
        # The SDK has no public way to evict a run; its bridge to the core, which has one, is
        # private.
        bridge: Any = getattr(worker, "_bridge_worker", None)
        can_evict = hasattr(bridge, "request_workflow_eviction")
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            while self._ended:
                self._on_end(*self._ended.popleft())
            for run_id in self._superfluous() if can_evict else ():
                bridge.request_workflow_eviction(run_id)
                self._held.pop(run_id, None)
                self.evictions += 1

    def _superfluous(self) -> list[str]:
        """Return the ids of runs to evict: waiting ones, until the rest fits."""
        sizes, before = self._sizes(), self._before
        self._before = sizes
        excess = sum(sizes.values()) - self._max_bytes
        chosen: list[str] = []
        for run_id, size in sizes.items():
            if excess > 0 and before.get(run_id) == size:
                chosen.append(run_id)
                excess -= size
        return chosen

    def _sizes(self) -> dict[str, int]:
        """Return the size of each cached run, by run id; drop runs that the worker no longer
        holds.
        """
        # Workflow threads add runs meanwhile, so the copy is made in one step.
        held = {run_id: reference() for run_id, reference in list(self._held.items())}
        for run_id in [run_id for run_id, run in held.items() if run is None]:
            self._held.pop(run_id, None)
        return {run_id: run.memory_bytes for run_id, run in held.items() if run is not None}


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 1024 * 1024
"""Well above the 256 KB that asyncio allocates for each socket read, which would be mapped and
unmapped."""
_GARBAGE_THRESHOLDS = (10_000, 10, 10)
"""Number of young objects that starts a collection; Python's own threshold is 700."""
GARBAGE_SECONDS = 20.0
"""Seconds between two full collections: an ended run is one large cycle, which would otherwise stay
long."""


def tune_process() -> None:
    """Make this process smaller and faster. Call it on the event loop, after all imports.

    glibc's allocator keeps one arena and returns memory freed at its end; other allocators are
    unchanged. The garbage collector ignores current objects, collects young ones less often, and
    all of them every 20 seconds, which takes a tenth of a second in a busy worker. Raises
    RuntimeError outside of an event loop.
    """
    _keep_one_arena()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    _collect_later(asyncio.get_running_loop())


def _collect_later(loop: asyncio.AbstractEventLoop) -> None:
    def collect() -> None:
        gc.collect()
        _collect_later(loop)

    loop.call_later(GARBAGE_SECONDS, collect)


def _keep_one_arena() -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
