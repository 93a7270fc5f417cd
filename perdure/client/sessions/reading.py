"""Reads a session, open or closed: its runs, its conversation and its status."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from ...conversation import Append, Operation, Rewrite, count_of_instructions
from ...errors import RunNotFound, SessionError
from ...events import CONVERSATION_EVENTS, RunEvent
from ...history.chain import Chain
from ...history.session import SessionLink, read_session_link
from ...history.transcript import unknown_messages
from ...json_types import JsonObject
from ...messages import Message
from ...protocol.names import SESSION_WORKFLOW, STATUS
from ...protocol.session import SessionStatus
from ...trimming import is_summary
from ..family import description_of, first_run_id
from ..handle import RunHandle
from ..listing import listed_status
from ..reading.log import ask
from ..reading.watch import RETRY_SECONDS, ServerRetry, is_away

SEPARATOR = "/"
"""Between the id of a session and the number of its turn: together, the id of the turn's run."""


@dataclass(frozen=True)
class SessionRun:
    """A run of a session that has begun."""

    run_id: str
    """The id of the run, not of a link of it."""
    first_run_id: str

    @property
    def number(self) -> int:
        """From 1."""
        return int(self.run_id.rpartition(SEPARATOR)[2])


async def turns(
    client: Client, session: str, link: str, *, wait: bool
) -> AsyncIterator[SessionRun]:
    """Yield the runs that began in this link of the session, and in those after it.

    With `wait`, also yield later runs until the session ends, and wait for an unreachable server.
    Raises `RPCError` when there is no such link.
    """
    following: str | None = link
    while following:
        async for event in _events(client, session, following, wait=wait):
            if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                run = event.child_workflow_execution_started_event_attributes.workflow_execution
                yield SessionRun(run.workflow_id, run.run_id)
            following = (
                event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
                or None
            )


async def _events(
    client: Client, session: str, link: str, *, wait: bool
) -> AsyncIterator[HistoryEvent]:
    """Yield the events of one link; with `wait`, until it ends."""
    seen = 0
    while True:
        try:
            async for event in _new_events(
                client.get_workflow_handle(session, run_id=link), seen, wait=wait
            ):
                seen = event.event_id
                yield event
            return
        except RPCError as error:
            if not wait or not is_away(error):
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def _new_events(
    link: WorkflowHandle[Any, Any], seen: int, *, wait: bool
) -> AsyncIterator[HistoryEvent]:
    async for event in link.fetch_history_events(wait_new_event=wait):
        if event.event_id > seen:
            yield event


class PromisedChain(Chain):
    """The links of a run that a session has promised: every request waits until the run has begun.

    Raises `SessionError` when the session ends before, and while another workflow has the run's id.
    """

    def __init__(self, client: Client, run_id: str, session: str, link: str) -> None:
        """`link` is the link of the session that has promised the run."""
        super().__init__(client, run_id)
        self._session = session
        self._link = link
        self._has_begun = False
        self._waiting = asyncio.Lock()

    async def describe(self) -> WorkflowExecutionDescription:
        await self._wait_for_start()
        return await super().describe()

    async def known_run_id(self) -> str:
        await self._wait_for_start()
        return await super().known_run_id()

    async def _wait_for_start(self) -> None:
        async with self._waiting:
            if not self._has_begun:
                self._origin = self._known = await self._first_run_id()
                self._has_begun = True

    async def _first_run_id(self) -> str:
        promised = await description_of(self.client, self._session, self._link)
        origin = first_run_id(promised) if promised else None
        session = Chain(self.client, self._session, origin)
        while True:
            is_open = (await session.describe()).status == WorkflowExecutionStatus.RUNNING
            run = await description_of(self.client, self.workflow_id, None)
            if run is not None:
                # A session that has begun anew uses the ids of its earlier turns again.
                is_new = promised is None or run.start_time >= promised.start_time
                if is_new and run.parent_id == self._session:
                    return first_run_id(run)
                if run.status == WorkflowExecutionStatus.RUNNING:
                    raise self._error(
                        f"another workflow has the id {self.workflow_id!r} of this message's run: "
                        "Session.runs() has the run under its own id",
                        "renumbered",
                    )
            if not is_open:
                raise self._error(
                    f"it has ended before its run {self.workflow_id!r} began, so nothing has read "
                    "the message. Send it again, to a new session of that id",
                    "ended",
                )
            await asyncio.sleep(RETRY_SECONDS)

    def _error(self, text: str, kind: str) -> SessionError:
        return SessionError(f"session {self._session!r}: {text}", kind=kind)


class News:
    """Follows the conversation of a session through the events of its turns, in order.

    `known` are the messages that the reader has; None sends the whole conversation again.
    """

    def __init__(self, known: Sequence[Message] | None) -> None:
        self._known = known
        self._turn = ""

    def of(self, event: RunEvent, turn: str) -> RunEvent:
        """Return an event of that turn with `operations` in place of `messages`. In the turn's
        first event, these are the changes since the turn before.
        """
        if event.type not in CONVERSATION_EVENTS:
            return event
        messages: list[Message] = event.data["messages"]
        operations = event.operations if turn == self._turn else _difference(self._known, messages)
        self._turn, self._known = turn, messages
        told = [each.model_dump(mode="json", by_alias=True) for each in operations]
        data = {name: value for name, value in event.data.items() if name != "messages"}
        return event.model_copy(
            update={"data": {**data, "operations": told}, "operations": operations}
        )


def _difference(known: Sequence[Message] | None, messages: list[Message]) -> list[Operation]:
    if known is None or messages[: len(known)] != list(known):
        return [Rewrite(messages=messages)]
    return [Append(messages=messages[len(known) :])] if len(messages) > len(known) else []


logger = logging.getLogger("perdure")

_POSITION = re.compile(r"(\d{1,9}):(.*)", re.DOTALL)


class Reader:
    """Reads the latest session of one id."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self._id = id

    async def describe(self) -> WorkflowExecutionDescription:
        """Return the session's current or last link. Raises `RunNotFound`."""
        if (described := await self._find()) is None:
            raise RunNotFound(
                f"there is no session {self._id!r} in the namespace {self._client.namespace!r} of "
                f"the server at {self._client.service_client.config.target_host}: its first "
                "message begins it"
            )
        return described

    async def _find(self) -> WorkflowExecutionDescription | None:
        """Return the session's current or last link; None before the first message. Raises
        `RunNotFound` for the id of another workflow.
        """
        try:
            described = await Chain(self._client, self._id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None
        if described.workflow_type != SESSION_WORKFLOW:
            raise RunNotFound(
                f"{self._id!r} is the id of a {described.workflow_type}, not of a session"
            )
        return described

    async def turns(self) -> list[SessionRun]:
        """Return the runs that have begun, from the session's histories that still exist."""
        if (described := await self._find()) is None:
            return []
        first = await self._first_kept(described)
        return [turn async for turn in turns(self._client, self._id, first, wait=False)]

    async def links(self) -> AsyncIterator[SessionLink]:
        """Yield the links of the session from its histories. Raises as `read_session_link` does."""
        following = await self._first_kept(await self.describe())
        while following:
            link = await read_session_link(self._client, self._id, following)
            yield link
            following = link.next_run_id or ""

    async def messages(self) -> list[Message]:
        """Return the complete conversation, with trimmed messages from those runs whose histories
        still exist. Raises as `read_session_link` does.
        """
        if (described := await self._find()) is None:
            return []
        link = await read_session_link(self._client, self._id, described.run_id)
        found = link.conversation.messages
        is_trimmed = any(map(is_summary, found))
        is_open = link.turns and link.turns[-1].ended is None
        turns = await self.turns() if is_trimmed or is_open else []
        for turn in reversed(turns if is_trimmed else turns[-1:]):
            try:
                run = RunHandle(self._client, turn.run_id, origin=turn.first_run_id)
                earlier = await run.messages()
            except RunNotFound:
                break
            found = _joined(earlier, found)
            if not any(map(is_summary, earlier)):
                break
        return found

    async def status(self) -> SessionStatus:
        """Return the status from the workflow or, when no worker answers, from the histories."""
        if (described := await self._find()) is None:
            return SessionStatus(status="new")
        is_open = described.status == WorkflowExecutionStatus.RUNNING
        if is_open:
            handle = self._client.get_workflow_handle(self._id, run_id=described.run_id)
            if (answer := await ask(handle, STATUS, answer=SessionStatus)) is not None:
                return await self._with_pending(answer)
        link, ended = await read_session_link(self._client, self._id, described.run_id), ""
        if not is_open:
            is_closed = described.status == WorkflowExecutionStatus.COMPLETED
            ended = "closed" if is_closed else listed_status(described)
        return await self._with_pending(recorded_status(link, ended=ended))

    async def _with_pending(self, status: SessionStatus) -> SessionStatus:
        """Return the status with the pending approvals and the holds of the open run."""
        if status.run_id is None:
            return status
        try:
            found = await RunHandle(
                self._client, status.run_id, origin=status.first_run_id
            ).status()
        except RunNotFound:
            return status
        pending, held = (
            [each.model_copy(update={"run_id": each.run_id or status.run_id}) for each in those]
            for those in (found.pending_approvals, found.held)
        )
        stands: JsonObject = {"pending_approvals": pending, "held": held}
        if held:
            stands |= {"status": "held", "reason": held[0].reason}
        elif pending:
            stands |= {"status": "waiting", "reason": pending[0].kind}
        return status.model_copy(update=stands)

    async def _first_kept(self, latest: WorkflowExecutionDescription) -> str:
        return await Chain(self._client, self._id).oldest_before(latest.run_id)

    async def stream(
        self, after: str, run_of: Callable[[SessionRun], RunHandle]
    ) -> AsyncIterator[RunEvent]:
        """Yield the events of all runs from that position on. Raises ValueError for an invalid
        one.
        """
        number, position = parse_position(after)
        ask = ServerRetry(self._client)
        while (described := await ask(self._find)) is None:
            await asyncio.sleep(RETRY_SECONDS)
        news = News(None if after else ())
        async for turn in turns(
            self._client, self._id, await self._first_kept(described), wait=True
        ):
            if turn.number < number:
                continue
            run, at = run_of(turn), position if turn.number == number else 0
            try:
                async for event in run.stream(at):
                    named = {
                        "run_id": event.run_id or turn.run_id,
                        "position": f"{turn.number}:{event.position}",
                    }
                    yield news.of(event, turn.run_id).model_copy(update=named)
            except RunNotFound as error:
                logger.warning("a run of session %s is left out: %s", self._id, error)


def _joined(earlier: list[Message], later: list[Message]) -> list[Message]:
    """Return the later conversation's instructions, the other messages of the run, and those of the
    later conversation that the run lacks.
    """
    begun = count_of_instructions(earlier)
    new = [each for each in unknown_messages(earlier, later) if not is_summary(each)]
    return [
        *later[: count_of_instructions(later)],
        *earlier[begun:],
        *new[count_of_instructions(new) :],
    ]


def recorded_status(link: SessionLink, *, ended: str = "") -> SessionStatus:
    """Return the session's status at the end of this link's history, without queued messages and
    usage, which only the session itself has.

    `ended` is the reason of the session's end; "" for an open one.
    """
    carried = link.input.carried
    last = link.turns[-1] if link.turns else None
    running = last if not ended and last and last.ended is None else None
    return SessionStatus(
        status="ended" if ended else "running" if running else "waiting",
        reason=ended or ("" if running else "message"),
        turn=last.number if last else carried.turn if carried else 0,
        run_id=running.run_id if running else None,
        first_run_id=running.first_run_id if running else None,
    )


def parse_position(after: str) -> tuple[int, int | str]:
    """Return the turn of a position in a session, and the position there; 0 for "". Raises
    ValueError.
    """
    if not after:
        return 0, 0
    if (match := _POSITION.fullmatch(after)) is None:
        raise ValueError(
            f"{after!r} is not a position in a session, expected the `position` of one of its "
            "events"
        )
    return int(match[1]), match[2]
