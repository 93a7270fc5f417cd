"""Follows the runs of a session as they begin: its histories tell, and tell it at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHandle
from temporalio.service import RPCError

from ...history.chain import Chain
from ...history.decode import decode
from ...history.link import read_start
from ...protocol.session import SessionInput
from ..reading.patience import RETRY_SECONDS, is_away
from .error import SessionError

SEPARATOR = "/"
"""Between the id of a session and the number of its turn: together, the id of the turn's run."""


@dataclass(frozen=True)
class Turn:
    """A run of a session that has begun."""

    run_id: str
    """The id of the run, not of a link of it."""
    first_run_id: str

    @property
    def number(self) -> int:
        """From 1."""
        return int(self.run_id.rpartition(SEPARATOR)[2])


async def turns(client: Client, session: str, link: str, *, wait: bool) -> AsyncIterator[Turn]:
    """The runs that began in this link of the session, and in those after it.

    With `wait`, those to come too, until the session ends, whether or not the server answers all the while. Raises
    `RPCError` when there is no such link.
    """
    following: str | None = link
    while following:
        async for event in _events(client, session, following, wait=wait):
            if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                run = event.child_workflow_execution_started_event_attributes.workflow_execution
                yield Turn(run.workflow_id, run.run_id)
            following = event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id or None


async def _events(client: Client, session: str, link: str, *, wait: bool) -> AsyncIterator[HistoryEvent]:
    """All events of one link; with `wait`, until it ends."""
    seen = 0
    while True:
        try:
            async for event in _unseen(client.get_workflow_handle(session, run_id=link), seen, wait=wait):
                seen = event.event_id
                yield event
            return
        except RPCError as error:
            if not wait or not is_away(error):
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def _unseen(link: WorkflowHandle[Any, Any], seen: int, *, wait: bool) -> AsyncIterator[HistoryEvent]:
    async for event in link.fetch_history_events(wait_new_event=wait):
        if event.event_id > seen:
            yield event


class PromisedChain(Chain):
    """The links of a run that a session has promised, and may not have begun yet: every question waits until it has.

    Raises `SessionError` when the session ends before, and when the run has begun under another id.
    """

    def __init__(self, client: Client, run_id: str, session: str, link: str, place: int) -> None:
        """`place` is that of `Taken`."""
        super().__init__(client, run_id)
        self._session = session
        self._place = max(1, place)
        self._link = link
        """Of the session: the one that has said so."""
        self._has_begun = False
        self._waiting = asyncio.Lock()

    async def describe(self) -> WorkflowExecutionDescription:
        await self._begun()
        return await super().describe()

    async def known(self) -> str:
        await self._begun()
        return await super().known()

    async def _begun(self) -> None:
        async with self._waiting:
            if not self._has_begun:
                self._origin = self._known = await self._first_run_id()
                self._has_begun = True

    async def _first_run_id(self) -> str | None:
        """None for a run that began in a link of the session that is not kept any more: then it is the latest."""
        last = Turn(self.workflow_id, "").number - self._place
        first = await Chain(self.client, self._session).oldest_before(self._link)
        started = await read_start(self.client, self._session, first)
        carried = (await decode(self.client, started.input.payloads, SessionInput)).carried
        begun = max(0, carried.turn - last) if carried else 0
        if begun >= self._place:
            return None
        async for turn in turns(self.client, self._session, first, wait=True):
            begun += turn.number > last
            if begun == self._place:
                return self._require_promised(turn).first_run_id
        raise SessionError(
            f"session {self._session!r} has ended before its run {self.workflow_id!r} began: what was to open it has "
            "not been read. Send it again, to a new session of that id",
            kind="ended",
        )

    def _require_promised(self, turn: Turn) -> Turn:
        if turn.run_id != self.workflow_id:
            raise SessionError(
                f"session {self._session!r}: the run of this message is {turn.run_id!r}, because there is another "
                f"workflow {self.workflow_id!r}: get_run(client, {turn.run_id!r})",
                kind="renumbered",
            )
        return turn
