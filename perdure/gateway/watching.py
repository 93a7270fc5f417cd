"""Readers of one run share what is read of it: one stream from the server, as many readers as there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import cast

from ..client import RunHandle
from ..events import RunEvent

Events = AsyncGenerator[RunEvent, None]

MAX_KEPT = 20_000
"""Events of one run; a reader that is further behind catches up by itself."""

RunKey = tuple[str, str, bool]
"""Workflow id, Temporal's id of the first link, and whether events of called runs are among them."""


class Watching:
    """The runs that are read in this process."""

    def __init__(self) -> None:
        self._shared: dict[RunKey, _SharedStream] = {}

    @property
    def runs(self) -> int:
        """How many are read."""
        return len(self._shared)

    async def stream(
        self, run: RunHandle, first_run_id: str, after: int | str = 0, *, children: bool = False
    ) -> Events:
        """Yield what `RunHandle.stream` yields, and raise what it raises."""
        key, reader = (run.id, first_run_id, children), _Position(str(after))
        while not reader.has_all:
            shared = self._shared.get(key)
            if shared is None or shared.is_over:
                shared = self._shared[key] = _SharedStream(run, reader.position, children=children)
            source = self._follow(key, shared, reader) if shared.has(reader.position) else _alone(run, shared, reader)
            async with aclosing(source) as events:
                async for event in events:
                    reader.position = event.position
                    yield event

    async def _follow(self, key: RunKey, shared: _SharedStream, reader: _Position) -> Events:
        """Yield what is shared, until the run ends or the reader has fallen behind what is kept."""
        shared.readers += 1
        try:
            async with aclosing(shared.events_after(reader.position)) as events:
                async for event in events:
                    yield event
            reader.has_all = shared.has_ended_after(reader.position)
        finally:
            shared.readers -= 1
            if not shared.readers:
                await self._leave(key, shared)

    async def _leave(self, key: RunKey, shared: _SharedStream) -> None:
        if self._shared.get(key) is shared:
            del self._shared[key]
        await shared.close()


@dataclass
class _Position:
    """How far one reader is."""

    position: str
    has_all: bool = False


async def _alone(run: RunHandle, shared: _SharedStream, reader: _Position) -> Events:
    """Yield what the reader lacks until it can go on with what is shared."""
    async with _events_of(run, reader.position, children=shared.children) as events:
        async for event in events:
            yield event
            if shared.has(event.position):
                return
    reader.has_all = True


class _SharedStream:
    """What is read of one run, from the position of its first reader on."""

    def __init__(self, run: RunHandle, after: str, *, children: bool) -> None:
        self.readers = 0
        self.children = children
        self._events: list[RunEvent] = []
        self._dropped = 0
        """How many events are not kept any more."""
        self._index: dict[str, int] = {after: 0}
        """By position: the number of the event that follows it."""
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self._reading = asyncio.create_task(self._read(run, after, children))

    @property
    def is_over(self) -> bool:
        """Whether it has failed: a later reader tries anew."""
        return self._error is not None

    def has(self, position: str) -> bool:
        """Return whether a reader can go on from there."""
        return self._index.get(position, -1) >= self._dropped

    def has_ended_after(self, position: str) -> bool:
        """Return whether nothing comes after that position."""
        return self._reading.done() and self._index.get(position) == self._dropped + len(self._events)

    async def events_after(self, position: str) -> Events:
        """Yield them until the run ends, or until the reader has fallen behind what is kept."""
        number = self._index[position]
        while True:
            changed = self._changed
            while self._dropped <= number < self._dropped + len(self._events):
                event = self._events[number - self._dropped]
                number += 1
                yield event
            if number < self._dropped:
                return
            if self._reading.done():
                if self._error is not None:
                    raise self._error
                return
            await changed.wait()

    async def _read(self, run: RunHandle, after: str, children: bool) -> None:
        try:
            async with _events_of(run, after, children=children) as events:
                async for event in events:
                    self._add(event)
        except Exception as error:  # Each reader raises it.
            self._error = error
        finally:
            # Readers see that this task is done only after it is: they are woken by the loop's next turn.
            asyncio.get_running_loop().call_soon(self._wake)

    def _add(self, event: RunEvent) -> None:
        self._events.append(event)
        self._index[event.position] = self._dropped + len(self._events)
        if len(self._events) > MAX_KEPT:
            del self._events[: MAX_KEPT // 2]
            self._dropped += MAX_KEPT // 2
            self._index = {position: at for position, at in self._index.items() if at >= self._dropped}
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def close(self) -> None:
        """Read no longer."""
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading


def _events_of(run: RunHandle, after: str, *, children: bool) -> AbstractAsyncContextManager[Events]:
    return aclosing(cast(Events, run.stream(after, children=children)))
