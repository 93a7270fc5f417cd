"""Slots for model calls and tools: a worker takes no more of them from the server than it can soon
begin.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

from temporalio.common import MetricMeter
from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    PollerBehavior,
    PollerBehaviorAutoscaling,
    PollerBehaviorSimpleMaximum,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerConfig,
    WorkerTuner,
)

from ..json_types import JsonObject

SLOTS = 100
"""Default number for each kind: Temporal's own default."""
AHEAD = 3
"""Number of activities that may always be here without having begun, in addition to those of open
polls."""
BEGIN_SECONDS = 1.0
"""On a quick event loop, as many as begin within this time: far less than a heartbeat time-out."""
ROUNDS = 5
"""Rounds of the event loop until an activity begins; measured."""
DECAY = 0.8
"""Factor, at each poll, for the longest observed round."""
AVAILABLE = "temporal_worker_task_slots_available"
"""Temporal's own gauge, which only its own slot suppliers set."""
_SIZES = ("workflow_tasks", "activities", "local_activities", "nexus_tasks")


class ActivitySlots(CustomSlotSupplier):
    """Limits the slots; a poll waits while too many activities here have not begun.

    Temporal's SDK takes activities from the server until all slots are full, and hands them to
    Python one by one, which takes a busy process some 100 ms each. The server counts the heartbeat
    time-out from the handover, but heartbeats begin with the activity: the last of a hundred would
    time out and be repeated, which makes the process busier still. So activities wait on the
    server, where another worker may take them. Measured, of 200 runs begun at once: up to 165 model
    calls repeated without this, none with it. A bound of 8 for quick event loops, too, costs a
    sixth of the throughput of calls that take no time; this one costs a twentieth.
    """

    def __init__(self, most: int, polls: int, meter: MetricMeter) -> None:
        """`polls` is the maximum of open activity polls; the meter has the attributes of the
        worker.
        """
        self._most, self._always = most, polls + AHEAD
        self._reserved = self._begun = 0
        self._round_seconds = 0.0
        self._counting = threading.Lock()
        self._waiting: list[asyncio.Future[None]] = []
        self._available = meter.create_gauge(
            AVAILABLE, "Current number of available slots per task type"
        )
        self._available.set(most)

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Wait for a permit for a poll, and return it."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._note_round, time.monotonic())
        while True:
            with self._counting:
                if (permit := self._permit()) is not None:
                    return permit
                change = loop.create_future()
                self._waiting.append(change)
            await change

    def _note_round(self, begun: float) -> None:
        """Record the duration of a round of the event loop; a single quick one is not
        significant.
        """
        self._round_seconds = max(time.monotonic() - begun, DECAY * self._round_seconds)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Return a permit, also for an activity without a poll; None if there is none now."""
        with self._counting:
            return self._permit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Record that an activity begins. Callable from any thread."""
        self._count(reserved=0, begun=1)

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Record that an activity has ended, or that a poll brought none. Callable from any
        thread.
        """
        self._count(reserved=-1, begun=-1 if ctx.slot_info else 0)

    def _permit(self) -> SlotPermit | None:
        may_begin_soon = (
            BEGIN_SECONDS / (ROUNDS * self._round_seconds) if self._round_seconds else self._most
        )
        if self._reserved >= self._most or self._reserved - self._begun >= max(
            self._always, may_begin_soon
        ):
            return None
        self._reserved += 1
        return SlotPermit()

    def _count(self, *, reserved: int, begun: int) -> None:
        with self._counting:
            self._reserved += reserved
            self._begun += begun
            if begun:
                self._available.set(self._most - self._begun)
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            with suppress(RuntimeError):  # its loop has ended, and the worker with it
                each.get_loop().call_soon_threadsafe(_wake, each)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def with_slots(config: WorkerConfig, meter: MetricMeter | None) -> JsonObject:
    """Return the options that give a worker such slots; none if its owner has set a tuner."""
    if config.get("tuner") is not None:
        return {}
    given: JsonObject = {name: config.get(f"max_concurrent_{name}") for name in _SIZES}
    attributes = {
        "namespace": config["client"].namespace,
        "task_queue": config["task_queue"],
        "worker_type": "ActivityWorker",
    }
    slots = ActivitySlots(
        given["activities"] or SLOTS,
        _polls(
            config["activity_task_poller_behavior"],
            config.get("max_concurrent_activity_task_polls"),
        ),
        (meter or MetricMeter.noop).with_additional_attributes(attributes),
    )
    tuner = WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(given["workflow_tasks"] or SLOTS),
        activity_supplier=slots,
        local_activity_supplier=FixedSizeSlotSupplier(given["local_activities"] or SLOTS),
        nexus_supplier=FixedSizeSlotSupplier(given["nexus_tasks"] or SLOTS),
    )
    return {"tuner": tuner, **{f"max_concurrent_{name}": None for name in _SIZES}}


def _polls(behavior: PollerBehavior, given: int | None) -> int:
    behaviors = (PollerBehaviorSimpleMaximum, PollerBehaviorAutoscaling)
    return given or (
        behavior.maximum
        if isinstance(behavior, behaviors)
        else PollerBehaviorSimpleMaximum().maximum
    )
