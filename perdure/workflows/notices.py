"""Notifies webhooks of a run's progress, with workflows that outlive the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import Literal

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from ..errors import RunError
from ..json_types import JsonObject
from ..protocol import names
from ..protocol.descriptions import shown_name
from ..protocol.outcome import Held
from ..protocol.search_attributes import TENANT
from ..text import bounded_text, one_line
from ..tool_calls import PendingApproval
from ..webhooks import (
    PUSHED,
    NoticeInput,
    NoticeType,
    PushChange,
    PushTarget,
    Webhook,
    distinct_webhooks,
)
from .policies import HEARTBEAT_TIMEOUT, MARGIN, MOMENTARY_RETRIES
from .run_state import RunState

MAX_PUSH = 10
"""The number of A2A clients that one run notifies."""
MAX_ERROR_BYTES = 1000
"""Limit of a failure's text in a notice."""
SEND_SECONDS = timedelta(seconds=30)
"""Time-out of one attempt at one webhook."""
_ENDS: dict[str, NoticeType] = {
    "done": "run.done",
    "failed": "run.failed",
    "cancelled": "run.cancelled",
}
ATTEMPTS, LONGEST_PAUSE = 10, timedelta(hours=6)
"""Pauses of 5 s, 20 s, 80 s and so on, about 20 hours in total."""


@dataclass
class Notices:
    """Sends each notice once to the webhooks of a run; idle where the run has no webhooks."""

    state: RunState
    _known: set[str] = field(default_factory=set)
    """Digests of the waiting calls already reported."""
    _holds: list[Held] = field(default_factory=list)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)

    def look(self) -> None:
        """Send notices of new waits for a person and of new holds."""
        if self.state.cancelled:
            return
        for pending in self.state.approvals.pending_approvals:
            if pending.digest not in self._known:
                self._known.add(pending.digest)
                self._notify(
                    "run.waiting", pending.digest, pending.since, {"call": _call_data(pending)}
                )
        for held in self.state.holds.held:
            if all(each is not held for each in self._holds):
                self._holds.append(held)
                what = f"{self.state.loop.iteration}-{len(self._holds)}"
                self._notify("run.held", what, held.since, {"held": _hold_data(held)})

    def take(self, change: PushChange) -> None:
        """Add or remove a push target of an A2A client; a new one receives notices of the current
        waits.
        """
        push, target = self.state.push, change.target
        push.pop(change.removed, None)
        if target is None:
            return
        if target.id not in push and len(push) >= MAX_PUSH:
            workflow.logger.warning(
                "more than %d A2A clients ask for notifications: %r gets none", MAX_PUSH, target.id
            )
            return
        push[target.id] = target
        for pending in self.state.approvals.pending_approvals:
            self._note(
                self._input("run.waiting", f"{pending.digest} {target.id}", pending.since, {}),
                push=[target],
            )

    async def send_end(
        self, how: Literal["done", "failed", "cancelled"], error: RunError | None = None
    ) -> None:
        """Send notice of the run's end, except for a child run. Returns when the notice is
        recorded.
        """
        if self.state.input.lineage is None:
            about: JsonObject = {}
            if error is not None:
                about = {
                    "error": {
                        "kind": error.kind,
                        "message": bounded_text(str(error), MAX_ERROR_BYTES),
                    }
                }
            self._notify(_ENDS[how], "", workflow.time(), about)
        await self.settle()

    async def settle(self) -> None:
        """Return when all notices are recorded and will outlive this link."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _notify(self, type: NoticeType, what: str, time: float, about: JsonObject) -> None:
        self._note(
            self._input(type, what, time, about),
            webhooks=[each for each in distinct_webhooks(self.state.webhooks) if each.takes(type)],
            push=list(self.state.push.values()) if type in PUSHED else [],
        )

    def _input(self, type: NoticeType, what: str, time: float, about: JsonObject) -> NoticeInput:
        return NoticeInput(
            id=self._id(type, what),
            type=type,
            time=time,
            data={**self._run(), **about},
            first_pause=max(0.1, 2.5 * self.state.options.retry_base_seconds),
        )

    def _note(
        self, input: NoticeInput, *, push: list[PushTarget], webhooks: Sequence[Webhook] = ()
    ) -> None:
        if not (webhooks or push):
            return
        task = asyncio.create_task(
            _start(input.model_copy(update={"webhooks": list(webhooks), "push": push}))
        )
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _id(self, *what: str) -> str:
        """Return an id that stays the same when another worker repeats a lost worker's task
        later.
        """
        info = workflow.info()
        place = (info.namespace, info.workflow_id, info.first_execution_run_id, *what)
        return f"msg_{blake2b(repr(place).encode(errors='replace'), digest_size=16).hexdigest()}"

    def _run(self) -> JsonObject:
        input, info = self.state.input, workflow.info()
        known: JsonObject = {
            "run": info.workflow_id,
            "agent": shown_name(input.agent),
            "session": input.session and input.session.session,
            "tenant": info.typed_search_attributes.get(TENANT),
            "calledBy": input.lineage and input.lineage.parent,
        }
        return {name: value for name, value in known.items() if value}


def _call_data(pending: PendingApproval) -> JsonObject:
    call: JsonObject = {
        "callId": pending.call_id,
        "kind": pending.kind,
        "name": pending.name,
        "digest": pending.digest,
    }
    return call if pending.deadline is None else {**call, "deadline": pending.deadline}


def _hold_data(held: Held) -> JsonObject:
    return {
        "reason": held.reason,
        "kind": held.kind,
        "why": bounded_text(held.why, MAX_ERROR_BYTES),
    }


async def _start(input: NoticeInput) -> None:
    try:
        await workflow.execute_local_activity(
            names.NOTIFY, input, start_to_close_timeout=MARGIN, retry_policy=MOMENTARY_RETRIES
        )
    except FailureError as error:
        workflow.logger.error("the notice %s (%s) can't be sent: %s", input.id, input.type, error)


@workflow.defn(name=names.NOTICE_WORKFLOW, sandboxed=False)
class Notice:
    """Sends one notice to each target until the target accepts it or all attempts are used up."""

    @workflow.run
    async def run(self, input: NoticeInput) -> None:
        """Send the notice. Raises `ApplicationError` when a target has not accepted it."""
        ends = [self._send(input, each.url, webhooks=[each]) for each in input.webhooks]
        ends += [self._send(input, each.url, push=[each]) for each in input.push]
        if failed := [text for text in await asyncio.gather(*ends) if text]:
            raise ApplicationError("; ".join(failed), type="NoticeNotTaken", non_retryable=True)

    async def _send(
        self,
        input: NoticeInput,
        url: str,
        *,
        webhooks: Sequence[Webhook] = (),
        push: Sequence[PushTarget] = (),
    ) -> str:
        """Return the reason why the target did not accept the notice; "" if it did."""
        alone = input.model_copy(update={"webhooks": list(webhooks), "push": list(push)})
        try:
            await workflow.execute_activity(
                names.SEND_NOTICE,
                alone,
                start_to_close_timeout=SEND_SECONDS,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(seconds=input.first_pause),
                    backoff_coefficient=4.0,
                    maximum_interval=LONGEST_PAUSE,
                    maximum_attempts=ATTEMPTS,
                ),
                summary=f"{input.type} · {one_line(url, 100)}",
            )
        except ActivityError as error:
            return f"{url}: {error.cause or error}"
        return ""
