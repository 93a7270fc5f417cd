"""The status of a run, open or closed."""

from __future__ import annotations

import time

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from ...activities.pollers import pinned_version, somebody_polls
from ...history.chain import Chain, ending_of
from ...history.link import read_link
from ...json_types import JsonObject
from ...protocol.activities import CALL_MODEL
from ...protocol.names import STATUS
from ...protocol.outcome import HeldUp, RunOutput, RunStatus
from ...protocol.search_attributes import shown_of
from ..connection import decision_has_waited, has_waited, server_time
from .log import ask, replay

STALE_SECONDS = 60.0
"""So long a wait in a worker may go on that was to have ended: the worker tells nobody that it
has."""
_ENDED_FROM_OUTSIDE = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


_NOTHING_UNDER_WAY: JsonObject = {
    **{"pending_approvals": [], "children": []},
    **{"missing": None, "waits_for_rate": None, "held_up": None, "held": [], "awaited": []},
}


class StatusReader:
    """Reads the status of one run, and remembers that of closed links, which never changes."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._closed: dict[str, RunStatus] = {}

    async def read(self) -> RunStatus:
        """Return the status from the workflow or, when no worker answers, from the history.

        Raises `RPCError` when there is no such run, and as `replay` does.
        """
        link = await self._chain.describe()
        shown = await shown_of(link)
        known = {
            "agent": shown.agent or "",
            "handed_over_by": shown.handed_by,
            "started": shown.started.timestamp(),
        }
        return (await self._status_of(link)).model_copy(update=known)

    async def _status_of(self, link: WorkflowExecutionDescription) -> RunStatus:
        if link.status == WorkflowExecutionStatus.RUNNING:
            return await self._of_open(link)
        if link.run_id not in self._closed:
            self._closed = {link.run_id: await self._of_closed(link)}
        return self._closed[link.run_id].model_copy(deep=True)

    async def _of_open(self, link: WorkflowExecutionDescription) -> RunStatus:
        # A workflow that does not take its own task does not answer a query either.
        if not decision_has_waited(link):
            answer = await ask(self._chain.handle(link.run_id), STATUS, answer=RunStatus)
            if answer is not None:
                waits = (
                    {"queue_without_worker": link.task_queue, "workers_are_busy": True}
                    if has_waited(link)
                    else {}
                )
                told = await self._wait_for_server(link)
                held_up = {"held_up": told} if told else {}
                return answer.model_copy(update={**waits, **held_up})
        client, queue, waited, version = (
            self._chain.client,
            link.task_queue,
            has_waited(link),
            pinned_version(link),
        )
        is_polled = await somebody_polls(
            client, queue, now=await server_time(client), version=version
        )
        missed: JsonObject = {}
        if waited or not is_polled:
            pinned_to = str(version) if version else None
            missed = {
                "queue_without_worker": queue,
                "workers_are_busy": is_polled,
                "pinned_to": pinned_to,
            }
        return (await self._status_by_replay(link)).model_copy(update=missed)

    async def _wait_for_server(self, link: WorkflowExecutionDescription) -> HeldUp | None:
        """Return why a model call of the run waits in its worker, with those of other runs; None
        for none.
        """
        for pending in link.raw_description.pending_activities:
            if pending.activity_type.name == CALL_MODEL and pending.HasField("heartbeat_details"):
                details = await self._chain.client.data_converter.decode(
                    list(pending.heartbeat_details.payloads)
                )
                told = (
                    details[0].get("held_up") if details and isinstance(details[0], dict) else None
                )
                if told and told["until"] > time.time() - STALE_SECONDS:
                    return HeldUp.model_validate(told)
        return None

    async def _of_closed(self, link: WorkflowExecutionDescription) -> RunStatus:
        ending = await ending_of(self._chain.client, await self._chain.closing_event(link.run_id))
        if ending is not None and ending.last_seq:
            return RunStatus(
                status="done" if isinstance(ending, RunOutput) else "failed",
                iteration=ending.iteration,
                model_calls=ending.iterations,
                usage=ending.usage,
                cost_usd=ending.cost_usd,
                unpriced_calls=ending.unpriced_calls,
                last_seq=ending.last_seq,
            )
        # It ended without saying so much, or before it could.
        status = await self._status_by_replay(link)
        ended = _ENDED_FROM_OUTSIDE.get(link.status) if link.status else None
        return (
            status.model_copy(update={"status": ended, **_NOTHING_UNDER_WAY}) if ended else status
        )

    async def _status_by_replay(self, link: WorkflowExecutionDescription) -> RunStatus:
        chain = self._chain
        recorded = await read_link(chain.client, chain.workflow_id, link.run_id)
        return (
            await replay(chain.workflow_id, recorded.history, chain.client.data_converter)
        ).status()
