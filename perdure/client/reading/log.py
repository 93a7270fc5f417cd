"""A reader's copy of a run's events, link after link, kept up to date on demand."""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from ...events import TERMINAL_EVENTS, EventPage, EventReader, RunEvent
from ...history.chain import first_run_id, is_running
from ...history.link import RecordedLink, read_link
from ...history.transcript import Transcript
from ...protocol.names import EVENTS
from .query import ask
from .replay import replay


class RunLog:
    """Everything that a run has said so far.

    Open links answer a query, which costs no history; closed ones, and open ones without a worker,
    are replayed here.
    """

    def __init__(self, client: Client, workflow_id: str) -> None:
        self._client = client
        self._id = workflow_id
        self._link: RecordedLink | None = None
        self._reader = EventReader([])
        self._refreshing = asyncio.Lock()
        self.events: list[RunEvent] = []
        self.transcript = Transcript([])
        """Every message up to the last event, trimmed ones too."""

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    @property
    def ended(self) -> bool:
        """Whether the terminal event was read: nothing comes after it."""
        return bool(self.events) and self.events[-1].type in TERMINAL_EVENTS

    @property
    def run_id(self) -> str | None:
        """The link that was read last."""
        return self._link.run_id if self._link else None

    @property
    def link(self) -> RecordedLink | None:
        return self._link

    async def refresh(self) -> None:
        """Read what is new. Raises `RPCError` when there is no such run."""
        async with self._refreshing:
            if not self.ended:
                await self._refresh()

    async def _refresh(self) -> None:
        link = self._link or await self._open(await first_run_id(self._client, self._id))
        while True:
            is_open = await is_running(self._client, self._id, link.run_id)
            if is_open and await self._query(link):
                return
            link = await self._replay(link)
            if link.next_run_id is None:
                return
            link = await self._open(link.next_run_id)

    async def _open(self, run_id: str) -> RecordedLink:
        link = await read_link(self._client, self._id, run_id)
        carried, seed = link.input.carried, link.seed
        self._reader = EventReader(seed, version=carried.version if carried else 0)
        if self._link is None:
            self.transcript = Transcript(seed)
        else:
            self.transcript.begin_link(seed)
        self._link = link
        return link

    async def _query(self, link: RecordedLink) -> bool:
        """Ask the workflow for what is new; False when nobody could answer in time."""
        handle = self._client.get_workflow_handle(self._id, run_id=link.run_id)
        while True:
            page = await ask(handle, EVENTS, self.last_seq, answer=EventPage)
            if page is None:
                return False
            self._take(page)
            if not page.more:
                break
        if self.ended and await is_running(self._client, self._id, link.run_id):
            # Not recorded yet: the run takes its end back when a message has come meanwhile.
            self.events.pop()
        return True

    async def _replay(self, link: RecordedLink) -> RecordedLink:
        """Read what is new by replaying the link's history as it is now."""
        if link.is_open:
            link = self._link = await read_link(self._client, self._id, link.run_id)
        run = await replay(self._id, link.history, self._client.data_converter)
        while True:
            page = run.events(self.last_seq)
            self._take(page)
            if not page.more:
                break
        if not link.is_open and not link.next_run_id and not self.ended:
            self.events.append(_ended_from_outside(link, self.last_seq + 1))
        return link

    def _take(self, page: EventPage) -> None:
        self.events += self._reader.read(page)
        self.transcript.follow(page.operations)


def _ended_from_outside(link: RecordedLink, seq: int) -> RunEvent:
    """The terminal event of a run that was ended without being asked: terminated, or timed out by Temporal."""
    closing = link.closing
    assert closing is not None
    kind = EventType.Name(closing.event_type).removeprefix("EVENT_TYPE_WORKFLOW_EXECUTION_").lower()
    return RunEvent(
        seq=seq,
        type="failed",
        iteration=0,
        data={"kind": kind, "message": f"the run was {kind.replace('_', ' ')} from outside"},
        time=closing.event_time.ToSeconds(),
    )
