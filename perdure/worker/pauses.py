"""A worker's view of the namespace's pauses, and its refusal of calls whose run is paused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
)

from ..activities.failures import known_starts, typed_failures
from ..activities.pauses import PauseRecord
from ..activities.run_cache import RunCache
from ..protocol import activities
from ..protocol.descriptions import shown_name
from ..protocol.pauses import PAUSE_ON_RUN, PAUSED, Pause, PausedAttempt, Pauses, RunFacts
from ..redaction import get_logger
from ..workflows.agent_run import AgentRun
from ..workflows.interceptors import RunObserver

LOOK_SECONDS = 1.5
"""Seconds between two looks for a record; once there is one, the server sends additions at once."""
WAIT_SECONDS = 5.0
"""Seconds that a call waits for the worker's first look before it continues without."""
CALLS = (
    activities.CALL_MODEL,
    activities.RUN_TOOL,
    activities.RECONCILE,
    activities.COMPACT,
    activities.JUDGE,
)

_log = get_logger("perdure.worker")


class PauseWatch:
    """Follows the record for a worker. Its state is at most `LOOK_SECONDS` old while the server
    answers.
    """

    def __init__(self, runs: RunCache) -> None:
        self._runs = runs
        self._client: Client | None = None
        self._pauses = Pauses()
        self._has_looked = asyncio.Event()
        self._reading: asyncio.Future[Pauses] | None = None

    async def watch(self, client: Client) -> None:
        """Keep the pauses in force up to date."""
        self._client, has_warned = client, False
        while True:
            record = PauseRecord(client)

            def take(record: PauseRecord = record) -> None:
                self._adopt(record.pauses)

            try:
                await record.follow(on_page=take)
                has_warned = False
            except RPCError as error:
                self._has_looked.set()
                if not has_warned:
                    _log.warning(
                        "The pauses of runs cannot be read, the last known ones hold: %s",
                        error.message,
                    )
                has_warned = True
            await asyncio.sleep(LOOK_SECONDS)

    def _adopt(self, pauses: Pauses) -> None:
        for id in pauses.in_force.keys() - self._pauses.in_force.keys():
            _log.warning("A pause begins: %s", pauses.in_force[id])
        for id in self._pauses.in_force.keys() - pauses.in_force.keys():
            _log.warning("A pause ends: %s", self._pauses.in_force[id].scope)
        self._pauses = pauses
        self._has_looked.set()

    def may_be_on(self, run: RunFacts) -> bool:
        """Return whether a pause is on the run, by this worker's current state."""
        return self._pauses.on(run) is not None

    async def current_pause(self) -> Pause | None:
        """Return the pause on the run of the current activity; the record is read again before a
        pause is returned.

        Raises RPCError, and as `RunCache.current` does.
        """
        run = await self._facts()
        return (await self._read_now()).on(run) if self.may_be_on(run) else None

    async def has_pauses(self) -> bool:
        """Return whether any pause is in force, by this worker's state after its first look."""
        if not self._has_looked.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._has_looked.wait()
        return bool(self._pauses.in_force)

    async def _facts(self) -> RunFacts:
        info = activity.info()
        by_agent = any(pause.scope.agent is not None for pause in self._pauses.in_force.values())
        agent = shown_name((await self._runs.current()).recorded_agent) if by_agent else ""
        return RunFacts(
            id=info.workflow_id or "",
            agent=agent,
            tenant=info.priority.fairness_key,
            task_queue=info.task_queue,
        )

    async def _read_now(self) -> Pauses:
        """Read the record, once for all concurrent callers."""
        if self._reading is None:
            assert self._client is not None
            self._reading = asyncio.ensure_future(PauseRecord(self._client).read())
            self._reading.add_done_callback(self._forget_reading)
        return await asyncio.shield(self._reading)

    def _forget_reading(self, reading: asyncio.Future[Pauses]) -> None:
        # The result is for the callers so far. The follower may already know of later lines.
        self._reading = None
        if not reading.cancelled():
            reading.exception()

    @activity.defn(name=PAUSE_ON_RUN)
    async def pause_on_run(self, run: RunFacts) -> Pause | None:
        """Return the pause on the calling run; None if the run may continue. Raises RPCError."""
        return (await self._read_now()).on(run)


class PauseInterceptor(RunObserver[AgentRun]):
    """Refuses calls of paused runs, and gives runs the worker's state."""

    def __init__(self, watch: PauseWatch) -> None:
        self._watch = watch

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called by the worker."""
        return _PausedActivities(next, self._watch)

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        run.state.may_be_paused = partial(self._watch.may_be_on, run.state.facts)


class _PausedActivities(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, watch: PauseWatch) -> None:
        super().__init__(next)
        self._watch = watch

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        is_call = info.activity_type in CALLS or info.activity_type.startswith(
            activities.TOOL_PREFIX
        )
        # The workflow checks before it starts local activities.
        if not is_call or info.is_local:
            return await self.next.execute_activity(input)
        if await self._watch.has_pauses() and not _is_over(input.args):
            await self._require_permission()
        return await self.next.execute_activity(input)

    async def _require_permission(self) -> None:
        """Raises the error of an attempt whose run is paused."""
        with typed_failures():
            if pause := await self._watch.current_pause():
                info = activity.info()
                told = next(iter(info.heartbeat_details), None)
                raise ApplicationError(
                    f"Not begun: {pause}",
                    PausedAttempt(pause=pause, attempt=info.attempt, told=told),
                    type=PAUSED,
                    non_retryable=True,
                    category=ApplicationErrorCategory.BENIGN,
                )


def _is_over(arguments: Sequence[Any]) -> bool:
    """Return whether nothing will begin: a tool has used up its starts, and its result is that it
    was lost.
    """
    input = arguments[0] if arguments else None
    if isinstance(input, RawValue):  # of a dynamic activity
        input = activity.payload_converter().from_payload(input.payload, activities.ToolInput)
    offer = input.offer if isinstance(input, activities.ToolInput) else None
    return offer is not None and known_starts(offer).are_used_up(offer.starts)
