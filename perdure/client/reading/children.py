"""Reads a run together with its child runs, and theirs in turn, and where a reader stands in
them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ...errors import RunNotFound
from ...events import TERMINAL_EVENTS, RunEvent
from ...protocol.outcome import RunStatus

_BRANCH = re.compile(r"\d{1,18}-\d{1,18}")


@dataclass
class TreePosition:
    """The position of a reader in a run, and in the child runs that are open at that position."""

    own: str = "0"
    called: dict[str, str] = field(default_factory=dict)
    """The end of the run's id, such as `3-0` → the reader's position in it, which may be one of
    several runs too."""

    @classmethod
    def at(cls, after: int | str) -> TreePosition:
        """Parse a position. Raises ValueError for faulty brackets or child positions; `own` is
        checked by its user.
        """
        own, bracket, rest = str(after).partition("(")
        if bracket and not rest.endswith(")"):
            raise ValueError(
                f"{after!r} is not a position in a run, expected the `position` of one of its "
                "events"
            )
        branches = dict(_branches(rest[:-1])) if bracket else {}
        return cls(own, branches)

    def __str__(self) -> str:
        called = ",".join(f"{key}={position}" for key, position in sorted(self.called.items()))
        return f"{self.own}({called})" if called else self.own

    def begin(self, runs: Iterable[str]) -> None:
        """Set the open child runs: keep their positions, and drop those of other runs."""
        self.called = {branch_of(run): self.called.get(branch_of(run), "0") for run in runs}

    def advance(self, event: RunEvent, run: str) -> RunEvent:
        """Move on to an event of a child; return it with the position after it."""
        self.called[branch_of(run)] = event.position
        return event.model_copy(update={"position": str(self), "run_id": event.run_id or run})

    def follow(self, event: RunEvent, run: str | None) -> RunEvent:
        """Move on to an event of the run itself, which begins or ends that child, if any; return it
        with the position after it.
        """
        self.own = event.position
        if run is not None and event.type == "child_started":
            self.called[branch_of(run)] = "0"
        elif run is not None:
            self.called.pop(branch_of(run), None)
        return event.model_copy(update={"position": str(self)})


def _branches(text: str) -> Iterator[tuple[str, str]]:
    """Yield the child and the position of each part of `1-0=5,1-1=7(2-0=3)`. Raises ValueError."""
    start = depth = 0
    for end, character in enumerate(f"{text},"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            key, equals, position = text[start:end].partition("=")
            if not equals or not _BRANCH.fullmatch(key):
                raise ValueError(
                    f"{text!r} is not a position in child runs, expected the `position` of an event"
                )
            yield key, position
            start = end + 1
    if depth:
        raise ValueError(f"{text!r} is not a position in child runs: its brackets do not match")


def branch_of(run: str) -> str:
    """Return the end of a child run's id, which distinguishes it from the other children of its
    parent.
    """
    return run.rpartition("/")[2]


logger = logging.getLogger("perdure")

LATE_SECONDS = 5.0
"""A called run that has ended is read to its end in this time, or is heard from."""
AHEAD = 1000
"""So many events are read before they are asked for."""


class Readable(Protocol):
    """The part of a run's handle that readers of its children need."""

    id: str

    def called(self, id: str, first_run_id: str | None = None) -> Readable:
        """Return the handle on a run that this one has called."""

    async def events(self, after: int | str = 0) -> list[RunEvent]: ...

    def stream(self, after: int | str = 0) -> AsyncIterator[RunEvent]: ...

    async def status(self) -> RunStatus: ...


class OpenChildren:
    """The child runs that have started and not ended, according to the events of their parent."""

    def __init__(self) -> None:
        self._runs: list[tuple[tuple[int, str | None], str]] = []
        self.origins: dict[str, str] = {}
        """Run → its first link."""

    def __iter__(self) -> Iterator[str]:
        return iter([run for _, run in self._runs])

    def follow(self, event: RunEvent) -> str | None:
        """Take note of an event of the caller; returns the run that it begins or ends, if any."""
        call = (event.iteration, event.call_id)
        if event.type == "child_started":
            self._runs.append((call, event.data["run_id"]))
            self.origins[event.data["run_id"]] = event.data["first_run_id"]
            return self._runs[-1][1]
        if event.type == "tool_result":
            for number, (of, run) in enumerate(self._runs):
                if of == call:
                    del self._runs[number]
                    return run
        return None


async def _open_at(handle: Readable, place: TreePosition) -> OpenChildren:
    """Return the child runs that are under way at that position of their parent."""
    open = OpenChildren()
    seq = int(re.match(r"\d{0,18}", place.own)[0] or 0)  # type: ignore[index]
    for event in await handle.events() if seq else []:
        if event.seq <= seq:
            open.follow(event)
    return open


async def events_with_children(handle: Readable, after: int | str = 0) -> list[RunEvent]:
    """Return the events after that position, of the run and of the runs that it has called.

    The events of a called run stand before the `tool_result` of its call, those of several open
    ones at the end, in the order of their calls. Raises ValueError for an `after` that is not a
    position.
    """
    place = TreePosition.at(after)
    own = await handle.events(place.own)
    open = await _open_at(handle, place)
    place.begin(open)
    found: list[RunEvent] = []

    async def take(runs: Iterable[str]) -> None:
        for run in runs:
            called = handle.called(run, open.origins[run])
            events = await _called_events(called, place.called[branch_of(run)])
            found.extend([place.advance(event, run) for event in events])

    for event in own:
        run = open.follow(event)
        if event.type in TERMINAL_EVENTS:
            await take(open)
        elif run is not None and event.type == "tool_result":
            await take([run])
        found.append(place.follow(event, run))
    if not (own and own[-1].type in TERMINAL_EVENTS):
        await take(open)
    return found


async def _called_events(called: Readable, after: str) -> list[RunEvent]:
    try:
        return await events_with_children(called, after)
    except RunNotFound as error:
        logger.warning("the events of a called run can't be read: %s", error)
        return []


async def stream_with_children(
    handle: Readable, after: int | str = 0
) -> AsyncGenerator[RunEvent, None]:
    """Yield the same events as they come, until the terminal event of the run. Raises like
    `events_with_children`.
    """
    place = TreePosition.at(after)
    stream = _ChildrenStream(handle, place, await _open_at(handle, place))
    try:
        async for event in stream.events():
            yield event
    finally:
        await stream.close()


class _ChildrenStream:
    """One run and those that it has called, each followed by a task."""

    def __init__(self, handle: Readable, place: TreePosition, open: OpenChildren) -> None:
        self._handle = handle
        self._place = place
        self._open = open
        self._queue: asyncio.Queue[Callable[[], RunEvent] | None] = asyncio.Queue(AHEAD)
        """The next events; each call moves the position on. None at the end."""
        self._called: dict[str, asyncio.Task[None]] = {}
        self._own: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[RunEvent]:
        self._place.begin(self._open)
        for run in self._open:
            self._follow(run, self._place.called[branch_of(run)])
        self._own = asyncio.create_task(self._follow_own(self._place.own))
        while (take := await self._queue.get()) is not None:
            yield take()
        await self._own

    async def _follow_own(self, after: str) -> None:
        try:
            async with aclosing(self._handle.stream(after)) as events:  # type: ignore[type-var]
                async for event in events:
                    await self._follow_event(event)
        except Exception:
            await self._queue.put(None)
            raise
        await self._queue.put(None)

    async def _follow_event(self, event: RunEvent) -> None:
        run = self._open.follow(event)
        if run is not None and event.type == "tool_result":
            await self._end_of(run)
        await self._queue.put(partial(self._place.follow, event, run))
        if run is not None and event.type == "child_started":
            self._follow(run, "0")

    async def _end_of(self, run: str) -> None:
        """Wait until all events of a called run are given. One that its caller has given up on may
        never end.
        """
        task = self._called[run]
        while not task.done():
            await asyncio.wait([task], timeout=LATE_SECONDS)
            if not task.done() and self._queue.empty():
                logger.warning("the called run %s goes on, although its call has its result", run)
                task.cancel()
                return
        task.result()

    def _follow(self, run: str, after: str) -> None:
        self._called[run] = asyncio.create_task(self._follow_called(run, after))

    async def _follow_called(self, run: str, after: str) -> None:
        try:
            async with aclosing(
                stream_with_children(self._handle.called(run, self._open.origins[run]), after)
            ) as events:
                async for event in events:
                    await self._queue.put(partial(self._place.advance, event, run))
        except RunNotFound as error:
            logger.warning("the events of a called run can't be read: %s", error)

    async def close(self) -> None:
        """Follow nothing any longer."""
        tasks = [task for task in (self._own, *self._called.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def status_with_children(handle: Readable, status: RunStatus) -> RunStatus:
    """Return the status, with the pending approvals and the holds of the runs that this one has
    called; each names its run.
    """
    found = await asyncio.gather(*(_status_of(handle.called(run)) for run in status.children))
    together: dict[str, list[Any]] = {}
    for name in ("pending_approvals", "held", "awaited"):
        together[name] = [
            each.model_copy(update={"run_id": each.run_id or run})
            for run, of in zip(status.children, found, strict=True)
            for each in getattr(of, name)
        ]
    shown = status.status
    if together["held"] and shown in ("running", "waiting_for_approval"):
        shown = "held"
    elif together["pending_approvals"] and shown == "running":
        shown = "waiting_for_approval"
    own = {name: [*getattr(status, name), *found] for name, found in together.items()}
    return status.model_copy(update={"status": shown, **own})


async def _status_of(handle: Readable) -> RunStatus:
    try:
        return await handle.status()
    except RunNotFound:
        return RunStatus(status="running")
