"""Reads a session: its runs, its conversation and where it stands, while it is open and afterwards."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ...errors import RunNotFound
from ...events import RunEvent
from ...history.chain import Chain
from ...history.session_link import read_session_link
from ...history.session_record import SessionLink
from ...history.transcript import Transcript, beyond
from ...messages import Message
from ...protocol.names import SESSION_WORKFLOW, STATUS
from ...protocol.session import SessionStatus
from ..handle import RunHandle
from ..reading.query import ask
from .news import News, news_after
from .turns import Turn, turns

logger = logging.getLogger("perdure")

_POSITION = re.compile(r"(\d{1,9}):(.*)", re.DOTALL)


class Reader:
    """Reads the latest session of one id."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self._id = id

    async def describe(self) -> WorkflowExecutionDescription:
        """The link that the session is at, or ended with. Raises `RunNotFound`."""
        try:
            described = await Chain(self._client, self._id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise RunNotFound(
                f"there is no session {self._id!r} in the namespace {self._client.namespace!r} of the server at "
                f"{self._client.service_client.config.target_host}: its first message begins it"
            ) from error
        if described.workflow_type != SESSION_WORKFLOW:
            raise RunNotFound(f"{self._id!r} is the id of a {described.workflow_type}, not of a session")
        return described

    async def turns(self) -> list[Turn]:
        """The runs that have begun, as far as the histories are kept."""
        return [turn async for turn in turns(self._client, self._id, await self._first_kept(), wait=False)]

    async def links(self) -> AsyncIterator[SessionLink]:
        """All that the histories record of the session, link by link. Raises as `read_session_link` does."""
        transcript, following = Transcript(()), await self._first_kept()
        while following:
            link = await read_session_link(self._client, self._id, following, transcript=transcript)
            yield link
            following = link.next_run_id or ""

    async def messages(self) -> list[Message]:
        """The complete conversation, as far as histories are kept. Raises as `links` does."""
        last = [link async for link in self.links()][-1]
        turn = last.turns[-1] if last.turns else None
        if turn is None or turn.ended is not None:
            return last.transcript
        of_run = await RunHandle(self._client, turn.run_id, origin=turn.first_run_id).messages()
        return [*last.transcript, *beyond(last.conversation.messages, of_run)]

    async def status(self) -> SessionStatus:
        """The workflow's own answer or, when no worker gives one, what the histories say."""
        described = await self.describe()
        is_open = described.status == WorkflowExecutionStatus.RUNNING
        if is_open:
            handle = self._client.get_workflow_handle(self._id, run_id=described.run_id)
            if (answer := await ask(handle, STATUS, answer=SessionStatus)) is not None:
                return await self._with_pending(answer)
        return await self._with_pending(
            recorded_status(await read_session_link(self._client, self._id, described.run_id), is_open=is_open)
        )

    async def _with_pending(self, status: SessionStatus) -> SessionStatus:
        """With what waits for a person in the run under way, as that run says it."""
        if status.run_id is None:
            return status
        try:
            found = await RunHandle(self._client, status.run_id, origin=status.first_run_id).status()
        except RunNotFound:
            return status
        pending = [each.model_copy(update={"run_id": each.run_id or status.run_id}) for each in found.pending_approvals]
        word = "waiting" if pending and status.status == "running" else status.status
        return status.model_copy(update={"status": word, "pending_approvals": pending})

    async def _first_kept(self) -> str:
        latest = (await self.describe()).run_id
        return await Chain(self._client, self._id).oldest_before(latest)

    async def stream(self, after: str, run_of: Callable[[Turn], RunHandle]) -> AsyncIterator[RunEvent]:
        """The events of all runs from that position on. Raises ValueError for what is none."""
        number, position = _parsed(after)
        before: RunHandle | None = None
        news = None if after else News()
        async for turn in turns(self._client, self._id, await self._first_kept(), wait=True):
            run = run_of(turn)
            if turn.number < number:
                before = run
                continue
            at = position if turn.number == number else 0
            news = news or await news_after(run, before, at, is_first=turn.number == 1)
            try:
                async for event in run.stream(at):
                    named = {"run_id": event.run_id or turn.run_id, "position": f"{turn.number}:{event.position}"}
                    yield news.of(event, turn.run_id).model_copy(update=named)
            except RunNotFound as error:
                logger.warning("a run of session %s is left out: %s", self._id, error)


def recorded_status(link: SessionLink, *, is_open: bool) -> SessionStatus:
    """Where the session stands at the end of this link's history, as far as that says it."""
    carried = link.input.carried
    last = link.turns[-1] if link.turns else None
    number = last.number if last else carried.turn if carried else 0
    waiting = [carried.turn + place for place, _ in enumerate(carried.queued, 1)] if carried else []
    waiting += [each.taken.turn for each in link.messages if each.taken and each.taken.became == "queued"]
    running = last if is_open and last and last.ended is None else None
    return SessionStatus(
        status="running" if running else "idle" if is_open else "closed",
        turn=number,
        run_id=running.run_id if running else None,
        first_run_id=running.first_run_id if running else None,
        queued=sum(turn > number for turn in waiting),
    )


def _parsed(after: str) -> tuple[int, int | str]:
    if not after:
        return 0, 0
    if (match := _POSITION.fullmatch(after)) is None:
        raise ValueError(f"{after!r} is no position in a session, expected the `position` of one of its events")
    return int(match[1]), match[2]
