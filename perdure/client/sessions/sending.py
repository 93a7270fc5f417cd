"""Starts sessions by their first message, and sends them messages."""

from __future__ import annotations

import asyncio
import time
import uuid
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, get_args
from weakref import WeakKeyDictionary, WeakValueDictionary

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...errors import RunNotFound, SessionError
from ...history.chain import Chain
from ...json_types import JsonObject, JsonView
from ...payloads.failures import require_sendable, size_of
from ...protocol.descriptions import details_of, shown_name
from ...protocol.names import CLOSE, NOT_TAKEN, SEND, SESSION_WORKFLOW, STATUS
from ...protocol.run import RunInput
from ...protocol.search_attributes import MAX_KEYWORD_CHARS, SESSION
from ...protocol.search_attributes import STATUS as STATUS_ATTRIBUTE
from ...protocol.session import SessionInput, SessionMessage, SessionStatus, Taken, WhileBusy
from ...redaction import Redactor
from ...signatures import Voucher
from ...workflows.policies import WORKFLOW_TASK_TIMEOUT
from ...workflows.session.messages import MAX_ID_CHARS
from ...workflows.session.turns import read_message
from ..reading.log import ask
from ..starting import (
    StartOptions,
    own_attributes,
    require_no_secret,
    send_with_attributes,
    start_arguments,
)
from ..updates import PAUSE_SECONDS, Link, Update, refusal_kind, refusal_text
from .reading import SEPARATOR


def require_id(id: str, what: str) -> None:
    """Raises ValueError for what can't be the id of a session, or of a message."""
    if (
        not isinstance(id, str)
        or not 0 < len(id) <= MAX_ID_CHARS
        or not id.isprintable()
        or id.strip() != id
    ):
        raise ValueError(
            f"{what} {id!r:.300}: expected 1 to {MAX_ID_CHARS} printable characters, without "
            "blanks at its ends"
        )


def require_session_id(id: str) -> None:
    """Raises ValueError for what can't be the id of a session."""
    require_id(id, "session id")
    if SEPARATOR in id:
        raise ValueError(
            f"session id {id!r}: a {SEPARATOR!r} separates a session's id from the number of its "
            "run; write, for "
            f"example, {id.replace(SEPARATOR, '-')!r}"
        )


def require_while_busy(value: str | None) -> None:
    """Raises ValueError for what a message can't become while a run is under way; None says nothing
    about it.
    """
    if value is not None and value not in get_args(WhileBusy):
        raise ValueError(
            f"while_busy={value!r:.80}: expected {', '.join(map(repr, get_args(WhileBusy)))}"
        )


@dataclass(frozen=True)
class SessionRequest:
    """Everything that a session is started with, if there is none of its id."""

    input: SessionInput
    arguments: JsonObject
    """Arguments of `Client.start_workflow` beside the input and the search attributes."""
    start: StartOptions

    @property
    def attributes(self) -> dict[str, SearchAttributePair[Any]]:
        """Perdure's search attributes of the session, by name."""
        own = own_attributes(self.input.setup.agent, self.start)
        # A session is no run: what asks for running ones must not find it.
        own[STATUS_ATTRIBUTE.name] = SearchAttributePair(STATUS_ATTRIBUTE, "session")
        own[SESSION.name] = SearchAttributePair(SESSION, self.arguments["id"])
        return own

    def operation(
        self, names: list[str], attributes: TypedSearchAttributes
    ) -> WithStartWorkflowOperation[Any, Any]:
        """Return the operation that starts the session unless it is under way; Temporal takes each
        such object once.
        """
        input = self.input.model_copy(update={"search_attributes": names})
        return WithStartWorkflowOperation(
            SESSION_WORKFLOW,
            input,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **self.arguments,
        )


async def start_session(client: Client, request: SessionRequest) -> None:
    """Start the session without a message, unless it is under way. Raises `RPCError`."""

    async def start(names: list[str], attributes: TypedSearchAttributes) -> None:
        await client.start_workflow(
            SESSION_WORKFLOW,
            request.input.model_copy(update={"search_attributes": names}),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **request.arguments,
        )

    await send_with_attributes(client, request.attributes, request.start, start)


async def session_request(
    client: Client,
    input: SessionInput,
    start: StartOptions,
    known: Redactor,
    *,
    id: str,
    task_queue: str,
) -> SessionRequest:
    """Return the request for a session. Raises what `session` and `Session.send` raise, unless the
    server does.
    """
    require_no_secret(known, start, id=id, task_queue=task_queue, user=input.user or "")
    await require_sendable(
        client, input, "The session's setup", lambda: "Give a smaller agent or inputs"
    )
    described = _ui_arguments(input, known.encoded(start.get("memo") or {}))
    return SessionRequest(
        input, {"id": id, "task_queue": task_queue, **described, **start_arguments(start)}, start
    )


def _ui_arguments(input: SessionInput, memo: JsonView) -> JsonView:
    """Arguments of `Client.start_workflow`: the workflow task's time-out, and the texts that the
    Temporal UI shows.
    """
    setup = input.setup
    run = RunInput(agent=setup.agent, messages=[], options=setup.options)
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": f"{shown_name(setup.agent)}: a session",
        "static_details": details_of(run),
        "memo": {**memo, "agent": shown_name(setup.agent)}
        | ({"user": input.user} if input.user else {}),
    }


assert MAX_ID_CHARS <= MAX_KEYWORD_CHARS

TOO_LARGE = "GrpcMessageTooLarge"
"""The server's reason for terminating a workflow."""
CLOSING_SECONDS = 1.0
"""A session that takes no more messages may be about to end: then the message begins a new one."""
PASSING_KINDS = ("busy", "closing", "too_large", "setup")
"""Of refusals that another time there may be none of."""


@dataclass(frozen=True)
class SessionAnswer:
    """The answer of a session to an update."""

    value: Any
    link: str
    """The run id of the session's link that was asked."""


def require_readable(message: SessionMessage) -> None:
    """Raises `SessionError` for a message that every session refuses: it must not begin one."""
    try:
        read_message([message])
    except ApplicationError as error:
        raise SessionError(
            error.message, kind=error.details[0]["kind"], message_id=message.id
        ) from error


class SessionUpdate(Update[SessionAnswer]):
    """One update of a session. `send` raises `SessionError`, `RunNotFound` and `RPCError`."""

    def __init__(
        self, client: Client, session: str, message_id: str = "", *, starts_session: bool = False
    ) -> None:
        """With `starts_session`, the update starts the session where there is none."""
        self._client = client
        self._session = session
        self._message_id = message_id
        self._starts_session = starts_session

    @abstractmethod
    async def _start(self, link: Link) -> WorkflowUpdateHandle[Any]:
        """Send the update once, and return the handle on its answer."""

    async def _link(self) -> Link:
        return self._client.get_workflow_handle(self._session)

    async def _request(self, link: Link) -> SessionAnswer:
        update = await self._start(link)
        return SessionAnswer(await update.result(), update.workflow_run_id or "")

    async def _require_successor(self, link: Link, error: RPCError) -> None:
        if not self._starts_session:
            raise RunNotFound(
                f"there is no open session {self._session!r} in the namespace "
                f"{self._client.namespace!r}: "
                "give the agent that it is to begin with, session(client, agent, "
                f"{self._session!r})"
            ) from error

    async def _read_refusal(self, cause: BaseException, link: Link) -> SessionAnswer:
        kind, text = refusal_kind(cause, NOT_TAKEN), refusal_text(cause)
        if not kind and (described := await link.describe()).workflow_type != SESSION_WORKFLOW:
            text = f"that is the id of a {described.workflow_type}, not of a session"
        raise self._error(text, kind or "refused") from cause

    async def _unconfirmed_error(self) -> SessionError:
        if self.is_crowded:
            return self._error(f"it takes no message now, because {self._silence('')}", "busy")
        again = (
            ", and send it again with the same message_id: it counts once"
            if self._message_id
            else ""
        )
        reason = await self._hindrance()
        text = (
            f"this is unconfirmed, because {reason}. The server may still deliver it: start a "
            f"worker{again}"
        )
        return self._error(text, "unconfirmed", reason)

    def _error(self, text: str, kind: str, reason: str = "") -> SessionError:
        message = f"session {self._session!r}: {text}"
        return SessionError(message, kind=kind, message_id=self._message_id, reason=reason)

    async def _hindrance(self) -> str:
        try:
            described = await (await self._link()).describe()
        except RPCError as error:
            return f"the server has not started the session: {self._obstacle or error.message}"
        return await self._taken_id() or self._silence(described.task_queue)

    async def _taken_id(self) -> str | None:
        """Return why the session's next run can't begin, if another workflow is under way by its
        id.
        """
        status = await ask(await self._link(), STATUS, answer=SessionStatus)
        id = f"{self._session}/{status.turn + 1}" if status else ""
        try:
            other = (
                await self._client.get_workflow_handle(id).describe()
                if status and not status.run_id
                else None
            )
        except RPCError:
            return None
        if other is None or other.close_time is not None or other.parent_id == self._session:
            return None
        return (
            f"the id of its next run, {id!r}, is that of a workflow under way, of the type "
            f"{other.workflow_type!r}, "
            "which is not a run of the session: end that workflow, or wait; after a minute, the "
            "run takes the next "
            "number"
        )


class Close(SessionUpdate):
    """The request to take no more messages."""

    def __init__(self, client: Client, session: str) -> None:
        super().__init__(client, session)
        self._id = uuid.uuid4().hex

    async def _start(self, link: Link) -> WorkflowUpdateHandle[Any]:
        return await link.start_update(
            CLOSE, id=self._id, wait_for_stage=WorkflowUpdateStage.ACCEPTED
        )


LARGE_BYTES = 256 * 1024
"""Messages above this size go to a session one after the other, those of one process at least:
Temporal ends a workflow whose worker answers with more than 4 MiB, and the answer to an update
repeats the update."""
_Locks = WeakValueDictionary[tuple[str, str], asyncio.Lock]
_large_messages: WeakKeyDictionary[asyncio.AbstractEventLoop, _Locks] = WeakKeyDictionary()


def place_for(
    client: Client, session: str, message: SessionMessage
) -> AbstractAsyncContextManager[None]:
    """Return what a large message to the session has to enter while it is on its way; others need
    not wait.
    """
    if size_of(message) <= LARGE_BYTES:
        return nullcontext()
    turns = _large_messages.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    return turns.setdefault((client.namespace, session), asyncio.Lock())


class Delivery(SessionUpdate):
    """One message to a session."""

    def __init__(
        self,
        client: Client,
        session: str,
        message: SessionMessage,
        request: SessionRequest | None,
        voucher: Voucher | None = None,
    ) -> None:
        """`request` starts the session where there is none, and its setup is sent where the session
        has another one.

        It is None for a message that must not start a session. `voucher` signs the message.
        """
        super().__init__(client, session, message.id, starts_session=request is not None)
        self._message = message
        self._session_request = request
        self._voucher = voucher
        self._update_id = message.id
        self._since = time.time()

    async def deliver(self, patience: float) -> SessionAnswer:
        """Send the message until it is answered; the answer's value is a `Taken`.

        A refusal is asked for twice, since a link always answers the update of one id as it did the
        first time. Raises `SessionError`, `RunNotFound` for a session that this message may not
        begin, and `RPCError`.
        """
        since = time.monotonic()
        while True:
            try:
                return self._require_same(await self.send(patience))
            except SessionError as error:
                if error.kind == "setup" and self._session_request and not self._message.setup:
                    self._message = self._message.model_copy(
                        update={"setup": self._session_request.input.setup}
                    )
                elif (
                    self._update_id == self._message_id
                    and error.kind in PASSING_KINDS
                    and not self.is_crowded
                ):
                    self._update_id = uuid.uuid4().hex
                elif (
                    error.kind == "closing"
                    and self._session_request
                    and time.monotonic() - since < CLOSING_SECONDS
                ):
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    raise

    def _require_same(self, answer: SessionAnswer) -> SessionAnswer:
        digest = answer.value.text_digest
        if digest and digest != self._message.text_digest:
            raise self._error(
                f"another message has the id {self._message_id!r} already: send this one under an "
                "id of its own",
                "refused",
            )
        return answer

    async def _start(self, link: Link) -> WorkflowUpdateHandle[Any]:
        """Send the message alone first: the request that starts a session is large, and one
        sender's is enough.

        A signed message names the session's first link, which must be there before.
        """
        try:
            return await self._start_update(link)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or self._session_request is None:
                raise
            await self._require_not_flooded(link)
            if self._voucher is None:
                return await self._start_session(self._session_request)
            await start_session(self._client, self._session_request)
            return await self._start_update(link)

    async def _start_update(self, link: Link) -> WorkflowUpdateHandle[Any]:
        message = self._message
        if self._voucher:
            origin = await Chain(self._client, self._session).origin()
            by = self._voucher.request(self._session, message.content(origin))
            message = message.model_copy(update={"requested_by": by})
        return await link.start_update(
            SEND,
            message,
            id=self._update_id,
            result_type=Taken,
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
        )

    async def _require_not_flooded(self, link: Link) -> None:
        """Raises `SessionError` where the server has ended the session just now because of what was
        sent at once: another one would know nothing of its conversation.
        """
        try:
            described = await link.describe()
        except RPCError:
            return  # There was none.
        is_terminated = described.status == WorkflowExecutionStatus.TERMINATED
        if (
            not is_terminated
            or not described.close_time
            or described.close_time.timestamp() < self._since
        ):
            return
        async for event in link.fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        ):
            if event.workflow_execution_terminated_event_attributes.reason == TOO_LARGE:
                raise self._error(
                    "Temporal has ended it, because it was sent more at once than the server takes "
                    "as one answer (4 "
                    "MiB). Its messages can be read; to send this one again begins another "
                    "session. Send large "
                    "messages one after the other, or set history.maxInFlightUpdatePayloads "
                    "(`perdure docs sessions`)",
                    "ended",
                )

    async def _start_session(self, request: SessionRequest) -> WorkflowUpdateHandle[Any]:
        async def start(
            names: list[str], attributes: TypedSearchAttributes
        ) -> WorkflowUpdateHandle[Any]:
            operation = request.operation(names, attributes)
            try:
                return await self._client.start_update_with_start_workflow(
                    SEND,
                    self._message,
                    id=self._update_id,
                    result_type=Taken,
                    wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                    start_workflow_operation=operation,
                )
            finally:
                # It has an error of its own, which somebody must look at.
                with suppress(Exception):
                    await operation.workflow_handle()

        return await send_with_attributes(self._client, request.attributes, request.start, start)
