"""Sends an update to a run or a session until a workflow answers it; it counts once."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
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
from ..protocol.signatures import Voucher
from ..redaction import redactor
from ..text import valid_json, valid_text
from .listing import listed_status
from .reading.log import ask

PATIENCE_SECONDS = 10.0
"""An update without an answer after these seconds is unconfirmed."""
ATTEMPT_SECONDS = 1.0
"""The pause before the first repetition, which then doubles: an update that arrives as its link
ends may never be answered."""
PAUSE_SECONDS = 0.1
"""The pause after a link that has ended, or had too much to read."""
MAX_LEVELS = 100
"""The levels of nesting in edited arguments; Temporal can't record JSON that is twice as deep."""

_PASSING = (
    RPCStatusCode.NOT_FOUND,  # The request raises `RefusedUpdate` where no other link follows.
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.ABORTED,
    RPCStatusCode.FAILED_PRECONDITION,  # A worker that can replay the workflow ends this.
)
_BETWEEN_LINKS = "AcceptedUpdateCompletedWorkflow"
"""The SDK's error type for an update whose history has ended before the update did."""
_REFUSALS = (REFUSED, NOT_TAKEN, GO_ON_REFUSED, COMPLETION_REFUSED)

T = TypeVar("T")
Link = WorkflowHandle[Any, Any]
IsPassing = Callable[[str], Awaitable[bool]]
"""Returns whether a refusal of this kind may not be repeated when the update is sent again."""


class RefusedUpdate(Exception):
    """An update was refused.

    `kind` is the workflow's word, "" for an error that is not a refusal; `ended` for a run that is
    over, `crowded` and `unconfirmed` after the patience.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def refusal_of(cause: BaseException) -> RefusedUpdate:
    """Return the refusal that an update's error stands for."""
    if not isinstance(cause, ApplicationError):
        return RefusedUpdate("", str(cause))
    is_known = cause.type in _REFUSALS and cause.details
    return RefusedUpdate(str(cause.details[0].get("kind", "")) if is_known else "", cause.message)


async def until_answered(
    request: Callable[[], Awaitable[T]],
    task_queue: Callable[[], Awaitable[str]],
    *,
    is_passing: IsPassing,
    patience: float,
) -> T:
    """Call `request`, which sends an update by one id, until the workflow answers; return the
    answer.

    Raises `RefusedUpdate` and `RPCError`.
    """
    sending = _Sending(request, is_passing)
    try:
        async with asyncio.timeout(patience):
            return await sending.until_answered()
    except TimeoutError:
        if sending.is_crowded:
            text = f"for {patience:g} s there was too much else to read, sent by others"
            raise RefusedUpdate("crowded", text) from None
        silence = f"no worker of the task queue {await task_queue()!r} has answered within"
        text = f"{silence} {patience:g} s{sending.obstacle}"
        raise RefusedUpdate("unconfirmed", text) from None


class _Sending(Generic[T]):
    """The attempts of one update."""

    def __init__(self, request: Callable[[], Awaitable[T]], is_passing: IsPassing) -> None:
        self._request, self._is_passing = request, is_passing
        self.obstacle, self.is_crowded = "", False

    async def until_answered(self) -> T:
        seconds = ATTEMPT_SECONDS
        while True:
            try:
                return await _attempt(self._request, seconds)
            except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
                pass
            except WorkflowUpdateFailedError as error:
                await self._take_refusal(error.cause)
            except RPCError as error:
                if error.status not in _PASSING:
                    raise
                self.obstacle = f" ({error.message})"
            await asyncio.sleep(PAUSE_SECONDS * (1 + random.random()))
            seconds *= 2

    async def _take_refusal(self, cause: BaseException) -> None:
        refusal = refusal_of(cause)
        self.is_crowded = refusal.kind == "crowded"
        is_between = getattr(cause, "type", "") == _BETWEEN_LINKS
        if not (self.is_crowded or is_between or await self._is_passing(refusal.kind)):
            raise refusal from cause


async def _attempt(request: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return the answer of one request. Raises TimeoutError after the seconds."""
    # Not `asyncio.timeout`: the SDK answers a cancellation with an error of its own.
    attempt = asyncio.ensure_future(request())
    attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait([attempt], timeout=seconds)
        if not attempt.done():
            raise TimeoutError
        return attempt.result()
    finally:
        attempt.cancel()


async def send(
    chain: Chain,
    name: str,
    value: Any,
    id: str,
    *,
    is_passing: IsPassing,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Send an update to a run, whichever link it is at; a repeated one succeeds.

    Raises `RefusedUpdate`, and `RPCError` when there is no such run.
    """
    is_repeated = False

    async def request() -> None:
        nonlocal is_repeated
        try:
            now = (await chain.describe()).run_id if is_repeated else await chain.known_run_id()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise RefusedUpdate("no_run", error.message) from error
            raise
        is_repeated = True
        try:
            await chain.handle(now).execute_update(name, value, id=id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            if (last := await chain.describe()).run_id != now:
                raise
            word = listed_status(last).replace("_", " ")
            raise RefusedUpdate("ended", f"run {chain.workflow_id!r} is {word}") from error

    async def task_queue() -> str:
        return (await chain.describe()).task_queue

    try:
        await until_answered(request, task_queue, is_passing=is_passing, patience=patience)
    except RefusedUpdate as refusal:
        if refusal.kind == "no_run" and refusal.__cause__:
            raise refusal.__cause__ from None
        if refusal.kind != "repeated":
            raise


async def _status(chain: Chain) -> RunStatus | None:
    """Return the workflow's own answer; None when no worker gives one."""
    return await ask(chain.handle(await chain.known_run_id()), STATUS, answer=RunStatus)


async def send_decision(chain: Chain, decision: JsonView, voucher: Voucher | None = None) -> None:
    """Send a decision with these fields of `CallApproval`, made valid and without secrets, signed
    by the voucher.

    A decision with an `id` counts once. Raises as `decide` does, `ApprovalError` for arguments that
    are nested too deeply, and `PayloadTooLargeError` for a decision that does not fit into one
    message to Temporal.
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
    await decide(chain, approval)


async def decide(
    chain: Chain, approval: CallApproval, *, patience: float = PATIENCE_SECONDS
) -> None:
    """Send a decision until the run has accepted it.

    Raises `ApprovalError` when the run refuses it or is over, and when no worker answers;
    `RPCError` when there is no such run.
    """

    async def is_passing(kind: str) -> bool:
        if kind == "full":
            # A signal has room; the next attempt finds the decision accepted, or is refused again.
            await chain.at_current(lambda link: link.signal(APPROVAL, approval))
            return True
        if kind != "unknown":
            return False
        # A reader without a worker may know the call before the workflow does.
        status = await _status(chain)
        waiting = status.pending_approvals if status else ()
        return status is None or any(each.call_id == approval.call_id for each in waiting)

    try:
        await send(chain, APPROVAL, approval, approval.id, is_passing=is_passing, patience=patience)
    except RefusedUpdate as refusal:
        kind = refusal.kind or "unreadable"
        status = None if kind == "ended" else await _status(chain)
        pending = status.pending_approvals if status else ()
        text = f"run {chain.workflow_id!r}: {refusal}"
        if kind == "ended":
            text = f"{refusal}: no tool call waits for approval any longer"
        elif kind in ("unconfirmed", "crowded"):
            kind, why = "unconfirmed", str(refusal)
            if status and (missing := status.missing):
                why = (
                    f"the run still waits for a worker of the task queue {missing.task_queue!r} "
                    f"that has {', '.join(missing.what)}"
                )
            text = (
                f"run {chain.workflow_id!r}: the decision about tool call {approval.call_id!r} is "
                f"unconfirmed, because {why}. The server may still deliver it: start a worker and "
                "look at the run's status, or send the same decision again"
            )
        raise ApprovalError(text, kind=kind, pending=pending) from refusal


async def send_go_on(
    chain: Chain, options: JsonView, model: OtherModel | None, by: str | None
) -> None:
    """Resume a held run, with these options changed. Raises `GoOnError`, and `RPCError` when there
    is no such run.
    """
    go_on = redactor().value(
        GoOn(options=valid_json(dict(options)), model=model, by=by and valid_text(by))
    )
    go_on = go_on.model_copy(update={"id": uuid.uuid4().hex})

    async def is_passing(kind: str) -> bool:
        if kind != "not_held":
            return False
        # A reader without a worker may know of the hold before the workflow does.
        status = await _status(chain)
        return status is None or bool(status.held)

    try:
        await send(chain, GO_ON, go_on, go_on.id, is_passing=is_passing)
    except RefusedUpdate as refusal:
        text = f"run {chain.workflow_id!r}: {refusal}"
        if refusal.kind == "ended":
            text = f"{refusal}: it can't go on"
        elif refusal.kind == "unconfirmed":
            text = (
                f"run {chain.workflow_id!r}: going on is unconfirmed, because {refusal}. The "
                "server may still deliver the request: start a worker and look at the run's status"
            )
        raise GoOnError(text, kind=refusal.kind or "unreadable") from refusal
