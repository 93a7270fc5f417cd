"""Sends an update to a session until it is answered, whatever happens to the request on the way; it counts once."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...errors import RunNotFound, SessionError
from ...payloads.failures import require_sendable
from ...protocol.descriptions import details_of, shown_name
from ...protocol.names import NOT_TAKEN, SEND, SESSION_WORKFLOW, STATUS
from ...protocol.run import RunInput
from ...protocol.search_attributes import MAX_KEYWORD_CHARS, SESSION
from ...protocol.search_attributes import STATUS as STATUS_ATTRIBUTE
from ...protocol.session import SessionInput, SessionMessage, SessionStatus, Taken, WhileBusy
from ...redaction import Redactor
from ...workflows.policies import WORKFLOW_TASK_TIMEOUT
from ...workflows.session.turns import read_message
from ..reading.log import ask
from ..starting import StartOptions, own_attributes, require_no_secret, start_arguments, with_registered
from .reading import SEPARATOR

MAX_ID_CHARS = 200
"""Of a session: its runs, and the runs that they call, have longer ids. Of a message, too."""


def require_id(id: str, what: str) -> None:
    """Raises ValueError for what can't be the id of a session, or of a message."""
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_CHARS or not id.isprintable() or id.strip() != id:
        raise ValueError(
            f"{what} {id!r:.300}: expected 1 to {MAX_ID_CHARS} printable characters, without blanks at its ends"
        )


def require_session_id(id: str) -> None:
    """Raises ValueError for what can't be the id of a session."""
    require_id(id, "session id")
    if SEPARATOR in id:
        raise ValueError(
            f"session id {id!r}: a {SEPARATOR!r} separates a session's id from the number of its run; write, for "
            f"example, {id.replace(SEPARATOR, '-')!r}"
        )


def require_while_busy(value: str | None) -> None:
    """Raises ValueError for what a message can't become while a run is under way; None says nothing about it."""
    if value is not None and value not in get_args(WhileBusy):
        raise ValueError(f"while_busy={value!r:.80}: expected {', '.join(map(repr, get_args(WhileBusy)))}")


@dataclass(frozen=True)
class Opening:
    """With what a session begins, if there is none of its id."""

    input: SessionInput
    arguments: dict[str, Any]
    """What Temporal is told of it, beside its input and search attributes."""
    start: StartOptions

    @property
    def attributes(self) -> dict[str, SearchAttributePair[Any]]:
        """Perdure's search attributes of the session, by name."""
        own = own_attributes(self.input.setup.agent, self.start)
        # A session is no run: what asks for running ones must not find it.
        own[STATUS_ATTRIBUTE.name] = SearchAttributePair(STATUS_ATTRIBUTE, "session")
        own[SESSION.name] = SearchAttributePair(SESSION, self.arguments["id"])
        return own

    def operation(self, names: list[str], attributes: TypedSearchAttributes) -> WithStartWorkflowOperation[Any, Any]:
        """What begins the session where it is not under way; Temporal takes each such object once."""
        input = self.input.model_copy(update={"search_attributes": names})
        return WithStartWorkflowOperation(
            SESSION_WORKFLOW,
            input,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **self.arguments,
        )


async def begin(client: Client, opening: Opening) -> None:
    """Begin the session without a message, unless it is under way. Raises `RPCError`."""

    async def start(names: list[str], attributes: TypedSearchAttributes) -> None:
        await client.start_workflow(
            SESSION_WORKFLOW,
            opening.input.model_copy(update={"search_attributes": names}),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **opening.arguments,
        )

    await with_registered(client, opening.attributes, opening.start, start)


async def opening_of(
    client: Client, input: SessionInput, start: StartOptions, known: Redactor, *, id: str, task_queue: str
) -> Opening:
    """With what the session begins. Raises what `session` and `Session.send` raise, unless the server does."""
    require_no_secret(known, start, id=id, task_queue=task_queue, user=input.user or "")
    await require_sendable(client, input, "What the session is begun with", lambda: "Give a smaller agent or inputs")
    described = _described(input, known.encoded(start.get("memo") or {}))
    return Opening(input, {"id": id, "task_queue": task_queue, **described, **start_arguments(start)}, start)


def _described(input: SessionInput, memo: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workflow task's time-out, and what the Temporal UI shows of the session."""
    setup = input.setup
    run = RunInput(agent=setup.agent, messages=[], options=setup.options)
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": f"{shown_name(setup.agent)}: a session",
        "static_details": details_of(run),
        "memo": {**memo, "agent": shown_name(setup.agent)} | ({"user": input.user} if input.user else {}),
    }


assert MAX_ID_CHARS <= MAX_KEYWORD_CHARS

ATTEMPT_SECONDS = 1.0
"""After these a request is sent again: one that comes as its link ends may never be answered. Then after twice, …"""
PAUSE_SECONDS = 0.1
"""Before a request is sent again that found the session between two links, or too busy."""
CLOSING_SECONDS = 1.0
"""A session that takes no more messages may be about to end: then the message begins a new one."""

PASSING_KINDS = ("busy", "closing", "too_large")
"""Of refusals that another time there may be none of."""
_PASSING = (
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.ABORTED,
    # Such as "Workflow Task in failed state": passes when a worker comes that can replay the session.
    RPCStatusCode.FAILED_PRECONDITION,
)
_BETWEEN_LINKS = "AcceptedUpdateCompletedWorkflow"
"""The SDK's error type for an update whose history has ended before the update did."""

Request = Callable[[], Awaitable[WorkflowUpdateHandle[Any]]]


@dataclass(frozen=True)
class Answer:
    """What a session has answered."""

    value: Any
    link: str
    """The run id of the session's link that was asked."""


def require_readable(message: SessionMessage) -> None:
    """Raises `SessionError` for a message that every session refuses: it must not begin one."""
    try:
        read_message([message])
    except ApplicationError as error:
        raise SessionError(error.message, kind=error.details[0]["kind"], message_id=message.id) from error


class _NotTakenError(Exception):
    """A session has refused an update."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Delivery:
    """One message to a session. Sending it again, with the same id, changes nothing."""

    client: Client
    session: str
    message: SessionMessage
    opening: Opening | None
    """None for a message that begins no session. Its setup is sent where the session has another one."""
    patience: float
    _update_id: str = field(default="", init=False)

    async def taken(self) -> Answer:
        """What has become of it, as a `Taken`.

        A refusal is asked for twice, since a link always answers the update of one id as it did the first time.
        Raises `SessionError`, `RunNotFound` for a session that this message may not begin, and `RPCError`.
        """
        asked = Asked(self.client, self.session, self.patience, self.message.id, begins=self.opening is not None)
        since = time.monotonic()
        while True:
            try:
                return self._require_same(await asked.answer(self._request))
            except _NotTakenError as error:
                if error.kind == "setup" and self.opening and not self.message.setup:
                    self.message = self.message.model_copy(update={"setup": self.opening.input.setup})
                    continue
                if not self._update_id and error.kind in PASSING_KINDS:
                    self._update_id = uuid.uuid4().hex
                    continue
                if error.kind == "closing" and self.opening and time.monotonic() - since < CLOSING_SECONDS:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                raise SessionError(
                    f"session {self.session!r}: {error}", kind=error.kind, message_id=self.message.id
                ) from error

    def _require_same(self, answer: Answer) -> Answer:
        said = answer.value.text_digest
        if said and said != self.message.text_digest:
            raise SessionError(
                f"session {self.session!r}: another message has the id {self.message.id!r} already: send this one "
                "under an id of its own",
                kind="refused",
                message_id=self.message.id,
            )
        return answer

    async def _request(self) -> WorkflowUpdateHandle[Any]:
        """To a session that is there, the message alone: what would begin it is large, and only one can send it."""
        try:
            return await self.client.get_workflow_handle(self.session).start_update(
                SEND,
                self.message,
                id=self._update_id or self.message.id,
                result_type=Taken,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or self.opening is None:
                raise
            return await self._begin(self.opening)

    async def _begin(self, opening: Opening) -> WorkflowUpdateHandle[Any]:
        async def begin(names: list[str], attributes: TypedSearchAttributes) -> WorkflowUpdateHandle[Any]:
            operation = opening.operation(names, attributes)
            try:
                return await self.client.start_update_with_start_workflow(
                    SEND,
                    self.message,
                    id=self._update_id or self.message.id,
                    result_type=Taken,
                    wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                    start_workflow_operation=operation,
                )
            finally:
                # It has an error of its own, which somebody must look at.
                with suppress(Exception):
                    await operation.workflow_handle()

        return await with_registered(self.client, opening.attributes, opening.start, begin)


@dataclass
class Asked:
    """One update of a session, and what stands in its way."""

    client: Client
    session: str
    patience: float
    """Seconds without an answer after which it is unconfirmed."""
    message_id: str = ""
    begins: bool = False
    """Whether the update begins the session where there is none: then there is one sooner or later."""
    _obstacle: str = field(default="", init=False)

    async def answer(self, request: Request) -> Answer:
        """What the session answers to the update that `request` sends, which may be called several times.

        Raises `SessionError` after `patience` seconds without an answer, `_NotTakenError`, `RunNotFound`, `RPCError`.
        """
        try:
            async with asyncio.timeout(self.patience):
                return await self._answer(request)
        except TimeoutError:
            raise await self._unconfirmed() from None

    async def _answer(self, request: Request) -> Answer:
        seconds = ATTEMPT_SECONDS
        while (answer := await self._attempt(request, seconds)) is None:
            await asyncio.sleep(PAUSE_SECONDS * (1 + random.random()))
            seconds *= 2
        return answer

    async def _attempt(self, request: Request, seconds: float) -> Answer | None:
        """None when it is to be sent once more."""

        async def ask() -> Answer:
            update = await request()
            return Answer(await update.result(), update.workflow_run_id or "")

        attempt = asyncio.ensure_future(ask())
        attempt.add_done_callback(lambda done: done.cancelled() or done.exception())  # It may end unheard.
        try:
            await asyncio.wait([attempt], timeout=seconds)
            return attempt.result() if attempt.done() else None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            return None
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == _BETWEEN_LINKS:
                return None
            raise await self._refused(error.cause) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and not self.begins:
                raise RunNotFound(
                    f"there is no open session {self.session!r} in the namespace {self.client.namespace!r}: "
                    f"give the agent that it is to begin with, session(client, agent, {self.session!r})"
                ) from error
            if error.status not in (*_PASSING, RPCStatusCode.NOT_FOUND):
                raise
            self._obstacle = error.message
            return None
        finally:
            attempt.cancel()

    async def _unconfirmed(self) -> SessionError:
        again = ", and send it again with the same message_id: it counts once" if self.message_id else ""
        return SessionError(
            f"session {self.session!r}: this is unconfirmed, because {await self._hindrance()}. The server may still "
            f"deliver it: start a worker{again}",
            kind="unconfirmed",
            message_id=self.message_id,
        )

    async def _hindrance(self) -> str:
        try:
            described = await self.client.get_workflow_handle(self.session).describe()
        except RPCError as error:
            return f"the server has not begun the session: {self._obstacle or error.message}"
        if taken := await self._taken_id():
            return taken
        silent = f"no worker of the task queue {described.task_queue!r} has answered within {self.patience:g} s"
        return f"{silent} ({self._obstacle})" if self._obstacle else silent

    async def _taken_id(self) -> str | None:
        """Why the session's next run can't begin, if another workflow is under way by its id."""
        status = await ask(self.client.get_workflow_handle(self.session), STATUS, answer=SessionStatus)
        id = f"{self.session}/{status.turn + 1}" if status else ""
        try:
            other = await self.client.get_workflow_handle(id).describe() if status and not status.run_id else None
        except RPCError:
            return None
        if other is None or other.close_time is not None or other.parent_id == self.session:
            return None
        return (
            f"the id of its next run, {id!r}, is that of a workflow under way, of the type {other.workflow_type!r}, "
            "which is no run of the session: end that one, or wait, the run takes the next number after a minute"
        )

    async def _refused(self, cause: BaseException) -> _NotTakenError:
        if isinstance(cause, ApplicationError) and cause.type == NOT_TAKEN and cause.details:
            return _NotTakenError(str(cause.details[0].get("kind", "refused")), cause.message)
        described = await self.client.get_workflow_handle(self.session).describe()
        if described.workflow_type != SESSION_WORKFLOW:
            return _NotTakenError("refused", f"that is the id of a {described.workflow_type}, not of a session")
        return _NotTakenError("refused", cause.message if isinstance(cause, ApplicationError) else str(cause))
