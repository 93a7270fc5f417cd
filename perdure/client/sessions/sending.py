"""Starts sessions by their first message, and sends them messages."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, get_args
from weakref import WeakKeyDictionary, WeakValueDictionary

from temporalio.client import (
    Client,
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
from ...protocol.names import CLOSE, SEND, SESSION_WORKFLOW
from ...protocol.run import RunInput
from ...protocol.search_attributes import MAX_KEYWORD_CHARS, SESSION
from ...protocol.search_attributes import STATUS as STATUS_ATTRIBUTE
from ...protocol.session import SessionInput, SessionMessage, Taken, WhileBusy
from ...protocol.signatures import Voucher
from ...redaction import Redactor
from ...workflows.policies import WORKFLOW_TASK_TIMEOUT
from ...workflows.session.messages import MAX_ID_CHARS
from ...workflows.session.turns import read_message
from ..starting import (
    StartOptions,
    own_attributes,
    require_no_secret,
    send_with_attributes,
    start_arguments,
)
from ..updates import PAUSE_SECONDS, Link, RefusedUpdate, until_answered
from .reading import SEPARATOR


def require_id(id: str, what: str) -> None:
    """Raises ValueError for an invalid id of a session or a message."""
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
    """Raises ValueError for an invalid id of a session."""
    require_id(id, "session id")
    if SEPARATOR in id:
        raise ValueError(
            f"session id {id!r}: a {SEPARATOR!r} separates a session's id from the number of its "
            f"run; write, for example, {id.replace(SEPARATOR, '-')!r}"
        )


def require_while_busy(value: str | None) -> None:
    """Raises ValueError for an unknown policy; None is none."""
    if value is not None and value not in get_args(WhileBusy):
        raise ValueError(
            f"while_busy={value!r:.80}: expected {', '.join(map(repr, get_args(WhileBusy)))}"
        )


@dataclass(frozen=True)
class SessionRequest:
    """The request to start a session."""

    input: SessionInput
    arguments: JsonObject
    """Arguments of `Client.start_workflow` beside the input and the search attributes."""
    start: StartOptions

    @property
    def attributes(self) -> dict[str, SearchAttributePair[Any]]:
        """Perdure's search attributes of the session, by name."""
        own = own_attributes(self.input.setup.agent, self.start)
        # Queries for running runs must not find sessions.
        own[STATUS_ATTRIBUTE.name] = SearchAttributePair(STATUS_ATTRIBUTE, "session")
        own[SESSION.name] = SearchAttributePair(SESSION, self.arguments["id"])
        return own


async def start_session(client: Client, request: SessionRequest) -> None:
    """Start the session without a message, unless it is open. Raises `RPCError`."""

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
    """Return the request for a session. Raises the errors of `session` and `Session.send` that are
    not the server's.
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

CLOSING_SECONDS = 1.0
"""A closing session may end within this time: then the message begins a new one."""
PASSING_KINDS = ("busy", "closing", "too_large", "setup")
"""Refusals that may pass."""


@dataclass(frozen=True)
class SessionAnswer:
    """The answer of a session to an update."""

    value: Any
    link: str
    """The run id of the session's link that was asked."""


def require_readable(message: SessionMessage) -> None:
    """Raises `SessionError` for a message that every session refuses."""
    try:
        read_message([message])
    except ApplicationError as error:
        raise SessionError(
            error.message, kind=error.details[0]["kind"], message_id=message.id
        ) from error


async def send_update(
    client: Client,
    session: str,
    start: Callable[[Link], Awaitable[WorkflowUpdateHandle[Any]]],
    *,
    patience: float,
    message_id: str = "",
) -> SessionAnswer:
    """Call `start`, which sends an update of the session, until the update is answered.

    Raises `SessionError`, `RunNotFound` where `start` begins no session and there is none, and
    `RPCError`.
    """
    link = client.get_workflow_handle(session)

    async def request() -> SessionAnswer:
        update = await start(link)
        return SessionAnswer(await update.result(), update.workflow_run_id or "")

    async def task_queue() -> str:
        try:
            return (await link.describe()).task_queue
        except RPCError:  # The server has not started the session.
            return ""

    async def is_passing(kind: str) -> bool:
        return False

    try:
        return await until_answered(request, task_queue, is_passing=is_passing, patience=patience)
    except RefusedUpdate as refusal:
        kind, text, reason = refusal.kind or "refused", str(refusal), ""
        if kind == "crowded":
            kind, reason, text = "busy", text, f"it takes no message now, because {text}"
        elif kind == "unconfirmed":
            again = ", and send it again with the same message_id: it counts once"
            reason = text
            text = (
                f"this is unconfirmed, because {text}. The server may still deliver it: start a "
                f"worker{again if message_id else ''}"
            )
        elif not refusal.kind and not await _is_session(link):
            text = "that is the id of another workflow, not of a session"
        raise SessionError(
            f"session {session!r}: {text}", kind=kind, message_id=message_id, reason=reason
        ) from refusal


async def _is_session(link: Link) -> bool:
    return (await link.describe()).workflow_type == SESSION_WORKFLOW


def no_session(client: Client, session: str) -> RunNotFound:
    """Return the error for a session that is not open."""
    return RunNotFound(
        f"there is no open session {session!r} in the namespace {client.namespace!r}: give the "
        f"agent that it is to begin with, session(client, agent, {session!r})"
    )


async def close_session(client: Client, session: str, patience: float) -> None:
    """Ask the session to take no more messages. Raises as `send_update` does."""
    id = uuid.uuid4().hex

    async def start(link: Link) -> WorkflowUpdateHandle[Any]:
        try:
            return await link.start_update(
                CLOSE, id=id, wait_for_stage=WorkflowUpdateStage.ACCEPTED
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise no_session(client, session) from error

    await send_update(client, session, start, patience=patience)


LARGE_BYTES = 256 * 1024
"""A process sends larger messages to a session one by one: Temporal ends a workflow whose worker
answers with more than 4 MiB, and the answer to an update repeats it."""
_Locks = WeakValueDictionary[tuple[str, str], asyncio.Lock]
_large_messages: WeakKeyDictionary[asyncio.AbstractEventLoop, _Locks] = WeakKeyDictionary()


def place_for(
    client: Client, session: str, message: SessionMessage
) -> AbstractAsyncContextManager[None]:
    """Return the lock for sending a large message to the session; others need none."""
    if size_of(message) <= LARGE_BYTES:
        return nullcontext()
    turns = _large_messages.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    return turns.setdefault((client.namespace, session), asyncio.Lock())


@dataclass
class Delivery:
    """One message to a session."""

    client: Client
    session: str
    message: SessionMessage
    request: SessionRequest | None
    """Starts the session where there is none; its setup is sent where the session has another one.
    None for a message that must not start a session."""
    voucher: Voucher | None = None
    """Signs the message."""

    def __post_init__(self) -> None:
        self._update_id = self.message.id

    async def deliver(self, patience: float) -> SessionAnswer:
        """Send the message until it is answered; the answer's value is a `Taken`.

        A refused message is sent once more under another update id: a link answers each id only
        once. Raises `SessionError`, `RunNotFound` for a session that this message may not begin,
        and `RPCError`.
        """
        since = time.monotonic()
        while True:
            try:
                answer = await send_update(
                    self.client,
                    self.session,
                    self._start,
                    patience=patience,
                    message_id=self.message.id,
                )
                return self._require_same(answer)
            except SessionError as error:
                if error.kind == "setup" and self.request and not self.message.setup:
                    setup = self.request.input.setup
                    self.message = self.message.model_copy(update={"setup": setup})
                elif (
                    self._update_id == self.message.id
                    and error.kind in PASSING_KINDS
                    and not error.reason
                ):
                    self._update_id = uuid.uuid4().hex
                elif (
                    error.kind == "closing"
                    and self.request
                    and time.monotonic() - since < CLOSING_SECONDS
                ):
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    raise

    def _error(self, text: str, kind: str) -> SessionError:
        return SessionError(
            f"session {self.session!r}: {text}", kind=kind, message_id=self.message.id
        )

    def _require_same(self, answer: SessionAnswer) -> SessionAnswer:
        digest = answer.value.text_digest
        if digest and digest != self.message.text_digest:
            raise self._error(
                f"another message has the id {self.message.id!r} already: send this one under an "
                "id of its own",
                "refused",
            )
        return answer

    async def _start(self, link: Link) -> WorkflowUpdateHandle[Any]:
        """Send the message alone first: the request that starts a session is large, and one
        sender's is enough.
        """
        try:
            return await self._start_update(link)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            if self.request is None:
                raise no_session(self.client, self.session) from error
            await start_session(self.client, self.request)
            return await self._start_update(link)

    async def _start_update(self, link: Link) -> WorkflowUpdateHandle[Any]:
        message = self.message
        if self.voucher:
            origin = await Chain(self.client, self.session).origin()
            by = self.voucher.request(self.session, message.content(origin))
            message = message.model_copy(update={"requested_by": by})
        return await link.start_update(
            SEND,
            message,
            id=self._update_id,
            result_type=Taken,
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
        )
