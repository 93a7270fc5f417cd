"""Sends an update to a run or a session until it is answered, whatever happens on the way; it
counts once.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from temporalio.client import (
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..arguments import deeper_than
from ..errors import ApprovalError, GoOnError
from ..history.chain import Chain
from ..json_types import JsonView
from ..payloads.failures import require_sendable
from ..protocol.names import (
    APPROVAL,
    COMPLETION_REFUSED,
    GO_ON,
    GO_ON_REFUSED,
    NOT_TAKEN,
    REFUSED,
    STATUS,
)
from ..protocol.outcome import RunStatus
from ..protocol.run import CallApproval, GoOn, OtherModel
from ..redaction import redactor
from ..signatures import Voucher
from ..text import valid_json, valid_text
from .listing import listed_status
from .reading.log import ask

PATIENCE_SECONDS = 10.0
"""An update that no worker has answered within these seconds is unconfirmed."""
ATTEMPT_SECONDS = 1.0
"""After these it is sent again: one that comes as its link ends may never be answered. Then after
twice, …"""
PAUSE_SECONDS = 0.1
"""Before an update is sent again that found its workflow between two links, or too busy."""
MAX_LEVELS = 100
"""Of nesting, in edited arguments: JSON that is twice as deep can't be recorded."""

_PASSING = (
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.ABORTED,
    # Such as "Workflow Task in failed state": passes when a worker comes that can replay the
    # workflow.
    RPCStatusCode.FAILED_PRECONDITION,
)
_BETWEEN_LINKS = "AcceptedUpdateCompletedWorkflow"
"""The SDK's error type for an update whose history has ended before the update did."""

_REFUSALS = (REFUSED, NOT_TAKEN, GO_ON_REFUSED, COMPLETION_REFUSED)
T = TypeVar("T")
Link = WorkflowHandle[Any, Any]


class NoAnswer(Exception):
    """An attempt has brought no answer; another one may."""


class Update(ABC, Generic[T]):
    """One update, with an id: sending it again changes nothing."""

    _retry = PATIENCE_SECONDS
    _obstacle = ""
    """The server's reason for not having delivered the update, the last time that it gave one."""
    is_crowded = False
    """Whether the last answer was that there is too much else to read."""

    async def send(self, patience: float = PATIENCE_SECONDS) -> T:
        """Return the workflow's answer, after as many attempts as that takes.

        Raises the error of a refusal, that of an unconfirmed update after `patience` seconds, and
        `RPCError`.
        """
        self._retry = patience
        try:
            async with asyncio.timeout(patience):
                return await self._send_until_answered()
        except TimeoutError:
            raise await self._unconfirmed_error() from None

    async def _send_until_answered(self) -> T:
        seconds = ATTEMPT_SECONDS
        while True:
            try:
                return await self._attempt(await self._link(), seconds)
            except NoAnswer:
                await asyncio.sleep(PAUSE_SECONDS * (1 + random.random()))
                seconds *= 2

    async def _attempt(self, link: Link, seconds: float) -> T:
        """Send it to that link. Raises `NoAnswer` when it is to be sent once more."""
        attempt = asyncio.ensure_future(self._request(link))
        attempt.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # It may end unheard.
        try:
            await asyncio.wait([attempt], timeout=seconds)
            if not attempt.done():
                raise NoAnswer
            return attempt.result()
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise NoAnswer from None
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == _BETWEEN_LINKS:
                raise NoAnswer from error
            self.is_crowded = any(
                refusal_kind(error.cause, type) == "crowded" for type in _REFUSALS
            )
            if self.is_crowded:
                raise NoAnswer from error
            return await self._read_refusal(error.cause, link)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                await self._require_successor(link, error)
            elif error.status not in _PASSING:
                raise
            self._obstacle = error.message
            raise NoAnswer from error
        finally:
            attempt.cancel()

    @abstractmethod
    async def _link(self) -> Link:
        """Return the link to which the next attempt goes."""

    @abstractmethod
    async def _request(self, link: Link) -> T:
        """Send the update once, and return the answer."""

    @abstractmethod
    async def _read_refusal(self, cause: BaseException, link: Link) -> T:
        """Return the answer that a refusal amounts to. Raises its error, or `NoAnswer`."""

    @abstractmethod
    async def _require_successor(self, link: Link, error: RPCError) -> None:
        """Raises an error where no other link follows the one that was not found."""

    @abstractmethod
    async def _unconfirmed_error(self) -> Exception:
        """Return the error of an update without an answer, which says what stands in the way."""

    def _silence(self, task_queue: str) -> str:
        if self.is_crowded:
            return f"for {self._retry:g} s there was too much else to read, which others have sent"
        silence = (
            f"no worker of the task queue {task_queue!r} has answered within {self._retry:g} s"
        )
        return f"{silence} ({self._obstacle})" if self._obstacle else silence


def refusal_kind(cause: BaseException, error_type: str) -> str:
    """Return the kind of a refusal that has this error type; "" for another error."""
    if isinstance(cause, ApplicationError) and cause.type == error_type and cause.details:
        return str(cause.details[0].get("kind", ""))
    return ""


def refusal_text(cause: BaseException) -> str:
    """Return the reason of a refusal."""
    return cause.message if isinstance(cause, ApplicationError) else str(cause)


async def send_decision(chain: Chain, decision: JsonView, voucher: Voucher | None = None) -> None:
    """Send a decision with these fields of `CallApproval`, made valid and without secrets, signed
    by the voucher.

    One that has an `id` is taken once.

    Raises as `Decision` does, `ApprovalError` for arguments that are nested too deeply, and
    `PayloadTooLargeError` for a decision that does not fit into a message to Temporal.
    """
    if deeper_than(decision.get("arguments"), MAX_LEVELS):
        text = (
            f"the edited arguments of tool call {decision['call_id']!r} are nested more than "
            f"{MAX_LEVELS} levels deep"
        )
        raise ApprovalError(f"run {chain.workflow_id!r}: {text}", kind="arguments")
    approval = redactor().value(CallApproval(**valid_json(dict(decision))))
    await require_sendable(chain.client, approval, "The approval", lambda: "Give shorter arguments")
    approval = approval.model_copy(update={"id": approval.id or uuid.uuid4().hex})
    if voucher:
        approval.vouch = voucher.decision(approval.subject(await chain.origin()))
    await Decision(chain, approval).send()


class RunUpdate(Update[None]):
    """An update to one run, whichever link it is at. `send` raises `RPCError` when there is no such
    run.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._is_sent = False

    async def _link(self) -> Link:
        run_id = (
            (await self._chain.describe()).run_id
            if self._is_sent
            else await self._chain.known_run_id()
        )
        self._is_sent = True
        return self._chain.handle(run_id)

    async def _require_successor(self, link: Link, error: RPCError) -> None:
        now = await self._chain.describe()
        if now.run_id == link.run_id:
            word = listed_status(now).replace("_", " ")
            raise self._ended_error(f"run {self._chain.workflow_id!r} is {word}") from error

    async def _came_too_soon(self, shows: Callable[[RunStatus], bool]) -> bool:
        """Return whether the run, which has refused the update, shows by now what the update is
        about.

        A reader without a worker finds in the history what the workflow has not taken up yet. It
        takes an update first that comes together with that.
        """
        status = await self._status()
        return status is None or shows(status)

    async def _status(self) -> RunStatus | None:
        """Return the workflow's own answer; None when no worker gives one."""
        return await ask(
            self._chain.handle(await self._chain.known_run_id()), STATUS, answer=RunStatus
        )

    @abstractmethod
    def _ended_error(self, text: str) -> Exception:
        """Return the error of an update to a run that is over, as the text says."""


class GoOnRequest(RunUpdate):
    """Lets one held run go on. `send` raises `GoOnError` when it does not, and when no worker
    answers.
    """

    def __init__(
        self, chain: Chain, options: JsonView, model: OtherModel | None, by: str | None
    ) -> None:
        """What is given is made valid, and has no secrets."""
        super().__init__(chain)
        go_on = redactor().value(
            GoOn(options=valid_json(dict(options)), model=model, by=by and valid_text(by))
        )
        self._go_on = go_on.model_copy(update={"id": uuid.uuid4().hex})

    async def _request(self, link: Link) -> None:
        await link.execute_update(GO_ON, self._go_on, id=self._go_on.id)

    async def _read_refusal(self, cause: BaseException, link: Link) -> None:
        text = f"run {self._chain.workflow_id!r}: {refusal_text(cause)}"
        kind = refusal_kind(cause, GO_ON_REFUSED) or "unreadable"
        if kind == "not_held" and await self._came_too_soon(lambda status: bool(status.held)):
            raise NoAnswer from cause
        raise GoOnError(text, kind=kind) from cause

    def _ended_error(self, text: str) -> GoOnError:
        return GoOnError(f"{text}: nothing of it can go on", kind="ended")

    async def _unconfirmed_error(self) -> GoOnError:
        silence = self._silence((await self._chain.describe()).task_queue)
        return GoOnError(
            f"run {self._chain.workflow_id!r}: that it goes on is unconfirmed, because {silence}. "
            "The server may still "
            "deliver it: start a worker and look at the run's status",
            kind="unconfirmed",
        )


class Decision(RunUpdate):
    """One decision about a call of one run.

    `send` returns when the run has accepted it. Raises `ApprovalError` when the run refuses it or
    is over, and when no worker answers; `RPCError` when there is no such run.
    """

    def __init__(self, chain: Chain, approval: CallApproval) -> None:
        super().__init__(chain)
        self._approval = approval

    async def _request(self, link: Link) -> None:
        await link.execute_update(APPROVAL, self._approval, id=self._approval.id)

    async def _read_refusal(self, cause: BaseException, link: Link) -> None:
        match kind := refusal_kind(cause, REFUSED) or "unreadable":
            case "repeated":
                return
            case "full":
                # The next attempt finds it accepted, or is refused again: nobody answers a signal.
                await link.signal(APPROVAL, self._approval)
                raise NoAnswer
        if kind == "unknown" and await self._came_too_soon(self._is_awaited):
            raise NoAnswer from cause
        text = f"run {self._chain.workflow_id!r}: {refusal_text(cause)}"
        status = await self._status()
        raise ApprovalError(
            text, kind=kind, pending=status.pending_approvals if status else ()
        ) from cause

    def _is_awaited(self, status: RunStatus) -> bool:
        return any(each.call_id == self._approval.call_id for each in status.pending_approvals)

    def _ended_error(self, text: str) -> ApprovalError:
        return ApprovalError(f"{text}: no tool call waits for approval any longer", kind="ended")

    async def _unconfirmed_error(self) -> ApprovalError:
        return ApprovalError(
            f"run {self._chain.workflow_id!r}: the decision about tool call "
            f"{self._approval.call_id!r} is unconfirmed, "
            f"because {await self._hindrance()}. The server may still deliver it: start a worker "
            "and look at the run's "
            "status, or send the same decision again",
            kind="unconfirmed",
        )

    async def _hindrance(self) -> str:
        status = await self._status()
        if status and status.missing:
            missing = ", ".join(status.missing.what)
            return (
                f"the run still waits for a worker of the task queue {status.missing.task_queue!r} "
                f"that has {missing}"
            )
        return self._silence((await self._chain.describe()).task_queue)
