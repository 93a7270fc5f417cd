"""Sends a person's decision to a run by Temporal's update, which answers at once; it counts once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..arguments import deeper_than
from ..errors import ApprovalError
from ..history.chain import Chain
from ..payloads.failures import require_sendable
from ..protocol.names import APPROVAL, REFUSED, STATUS
from ..protocol.outcome import RunStatus
from ..protocol.run import CallApproval
from ..redaction import redactor
from ..text import valid_json
from ..tool_calls import PendingApproval
from .reading.log import ask

ANSWER_SECONDS = 10.0
"""A decision that no worker has answered within these seconds is unconfirmed."""
ATTEMPT_SECONDS = 1.0
"""After these it is sent again: one that comes as its link ends may never be answered, and is due to the next link."""
MAX_LEVELS = 100
"""Of nesting, in edited arguments: JSON that is twice as deep can't be recorded."""
PAUSE_SECONDS = 0.1
"""Before a decision is sent again that found the run between two histories, or too busy."""

_PASSING = (
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    # Such as "Workflow Task in failed state": passes when a worker comes that can replay the run.
    RPCStatusCode.FAILED_PRECONDITION,
)
_BETWEEN_LINKS = "AcceptedUpdateCompletedWorkflow"
"""The SDK's error type for an update whose history has ended before the update did."""


async def send_decision(chain: Chain, decision: Mapping[str, Any]) -> None:
    """Send a decision with these fields of `CallApproval`, made valid and without secrets.

    Raises as `Decision.send` does, `ApprovalError` for arguments that are nested too deeply, and `PayloadTooLargeError`
    for a decision that does not fit into a message to Temporal.
    """
    if deeper_than(decision.get("arguments"), MAX_LEVELS):
        text = (
            f"the edited arguments of tool call {decision['call_id']!r} are nested more than {MAX_LEVELS} levels deep"
        )
        raise ApprovalError(f"run {chain.workflow_id!r}: {text}", kind="arguments")
    approval = redactor().value(CallApproval(**valid_json(dict(decision))))
    await require_sendable(chain.client, approval, "The approval", lambda: "Give shorter arguments")
    await Decision(chain, approval.model_copy(update={"id": uuid.uuid4().hex})).send()


@dataclass
class Decision:
    """One decision about a call of one run. Sending it again, with the same id, changes nothing."""

    chain: Chain
    approval: CallApproval
    _obstacle: str = field(default="", init=False)
    """What the server said when the decision could not be delivered at last."""

    async def send(self, *, patience: float = ANSWER_SECONDS) -> None:
        """Return when the run has accepted the decision.

        Raises `ApprovalError` when it refuses it, when the run is over, and after `patience` seconds without an
        answer; `RPCError` when there is no such run.
        """
        try:
            async with asyncio.timeout(patience):
                while not await self._accepted():
                    await asyncio.sleep(PAUSE_SECONDS)
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
            raise await self._unconfirmed(patience) from None

    async def _accepted(self) -> bool:
        """Whether the run has accepted; False when it is to be asked once more."""
        link = await self.chain.known()
        try:
            return await self._attempt(link)
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.type == _BETWEEN_LINKS:
                return False
            match kind := _kind(cause):
                case "repeated":
                    return True
                case "full":
                    # The next attempt finds it accepted, or is refused again: nobody answers a signal.
                    await self.chain.handle(link).signal(APPROVAL, self.approval)
                    return False
            raise await self._refused(cause, kind) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                now = await self.chain.describe()
                if now.run_id == link:
                    raise self._ended(now) from error
                return False
            if error.status not in _PASSING:
                raise
            self._obstacle = error.message if error.status is RPCStatusCode.FAILED_PRECONDITION else ""
            return False

    async def _attempt(self, link: str) -> bool:
        """Send it to that link; False if there is no answer within `ATTEMPT_SECONDS`. Raises what the update does."""
        handle = self.chain.handle(link)
        attempt = asyncio.ensure_future(handle.execute_update(APPROVAL, self.approval, id=self.approval.id))
        attempt.add_done_callback(lambda done: done.cancelled() or done.exception())  # It may end unheard.
        try:
            await asyncio.wait([attempt], timeout=ATTEMPT_SECONDS)
            if attempt.done():
                attempt.result()
                return True
        finally:
            attempt.cancel()
        await self.chain.describe()
        return False

    async def _refused(self, cause: BaseException, kind: str) -> ApprovalError:
        text = cause.message if isinstance(cause, ApplicationError) else str(cause)
        return ApprovalError(f"run {self.chain.workflow_id!r}: {text}", kind=kind, pending=await self._pending())

    def _ended(self, description: WorkflowExecutionDescription) -> ApprovalError:
        status = description.status.name.lower().replace("_", " ") if description.status else "over"
        text = f"run {self.chain.workflow_id!r} is {status}: no tool call waits for approval any longer"
        return ApprovalError(text, kind="ended")

    async def _unconfirmed(self, patience: float) -> ApprovalError:
        return ApprovalError(
            f"run {self.chain.workflow_id!r}: the decision about tool call {self.approval.call_id!r} is unconfirmed, "
            f"because {await self._hindrance(patience)}. The server may still deliver it: start a worker and look at "
            "the run's status, or send the same decision again",
            kind="unconfirmed",
        )

    async def _hindrance(self, patience: float) -> str:
        queue = (await self.chain.describe()).task_queue
        if self._obstacle:
            return f"the server could not hand it to a worker of the task queue {queue!r}: {self._obstacle}"
        status = await self._status()
        if status and status.missing:
            lacking = ", ".join(status.missing.what)
            return (
                f"the run still waits for a worker of the task queue {status.missing.task_queue!r} that has {lacking}"
            )
        return f"no worker of the task queue {queue!r} has answered within {patience:g} s"

    async def _pending(self) -> list[PendingApproval]:
        status = await self._status()
        return status.pending_approvals if status else []

    async def _status(self) -> RunStatus | None:
        return await ask(self.chain.handle(await self.chain.known()), STATUS, answer=RunStatus)


def _kind(cause: BaseException) -> str:
    """The kind of a refusal."""
    if isinstance(cause, ApplicationError) and cause.type == REFUSED and cause.details:
        return str(cause.details[0].get("kind", "unreadable"))
    return "unreadable"
