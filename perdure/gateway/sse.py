"""Server-sent events: their bytes, and streams that live through proxies."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from cachetools import LRUCache
from starlette.responses import Response, StreamingResponse

from ..events import RunEvent, as_changes
from .ending import GatewayEnds
from .problems import problem_of

T = TypeVar("T")
KEEPALIVE_SECONDS = 15.0
"""After so long without an event a comment is sent: proxies cut what is silent for a minute."""
STREAM_SECONDS = 280.0
"""After so long a stream that can be resumed ends by itself: proxies cut requests of five minutes."""
MAX_AHEAD_BYTES = 64 * 1024
"""So much is read before a slow client has taken it."""
MAX_WRITTEN_BYTES = 8 * 1024 * 1024
"""Of events that are kept as they were written, for the other readers of their run."""
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def frame(data: str, *, event: str = "", id: str = "") -> bytes:
    """Return one event. Neither `event` nor `id` may have line breaks; in `data` they are kept."""
    lines = [f"id: {id}"] if id else []
    lines += [f"event: {event}"] if event else []
    lines += [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


COMMENT = b": \n\n"
"""Which readers of streams ignore."""


async def with_keepalives(
    frames: AsyncGenerator[bytes, None],
    *,
    seconds: float | None = None,
    farewell: Callable[[], bytes] | None = None,
    silence: float = KEEPALIVE_SECONDS,
) -> AsyncGenerator[bytes, None]:
    """Yield the frames, those that are there together, and a comment after so many seconds of `silence`.

    After `seconds` the stream ends with what `farewell` returns, which counts all frames before it; None means never.
    """
    clock = asyncio.get_running_loop().time
    end = math.inf if seconds is None else clock() + seconds
    ahead = _Ahead(frames)
    try:
        while not ahead.is_over and clock() < end:
            await ahead.wait(min(silence, end - clock()))
            if (taken := ahead.take()) or not ahead.is_over:
                yield taken or COMMENT
        is_over = ahead.is_over
        await ahead.close()
        if is_over:
            ahead.raise_error()
        elif farewell is not None:
            yield ahead.take() + farewell()
    finally:
        await ahead.close()


async def until_cut(events: AsyncGenerator[T, None], seconds: float) -> AsyncGenerator[T | None, None]:
    """Yield the events; after so many seconds, or when the gateway ends, None, which is the last.

    The events are closed then.
    """
    end = asyncio.get_running_loop().time() + seconds
    async with aclosing(events):
        while found := await _next(events, end):
            yield found[0]
            if found[0] is None:
                return


async def _next(events: AsyncGenerator[T, None], end: float) -> list[T | None]:
    """Return the next event, None once the time is `end`; nothing after the last."""
    try:
        async with asyncio.timeout_at(end) as timer:
            return [await anext(events)]
    except StopAsyncIteration:
        return []
    except GatewayEnds:
        return [None]
    except TimeoutError:
        if not timer.expired():
            raise
        return [None]


class _Ahead:
    """Reads frames before the client takes them, up to `MAX_AHEAD_BYTES`."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self._frames = frames
        self._ready: list[bytes] = []
        self._bytes = 0
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda task: self._news.set())

    @property
    def is_over(self) -> bool:
        """Whether there are no more, and all are taken."""
        return self._reading.done() and not self._ready

    async def _read(self) -> None:
        async with aclosing(self._frames) as frames:
            async for each in frames:
                self._ready.append(each)
                self._bytes += len(each)
                self._news.set()
                if self._bytes > MAX_AHEAD_BYTES:
                    self._room.clear()
                    await self._room.wait()

    async def wait(self, seconds: float) -> None:
        """Return when there is something to take, or the end, at most after so many seconds."""
        timer = asyncio.get_running_loop().call_later(seconds, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def take(self) -> bytes:
        """Return what is there."""
        taken, self._ready, self._bytes = b"".join(self._ready), [], 0
        self._room.set()
        if not self._reading.done():
            self._news.clear()
        return taken

    async def close(self) -> None:
        """Read no further."""
        self._reading.cancel()
        await asyncio.wait([self._reading])

    def raise_error(self) -> None:
        """Raise what has ended the frames, if they did not end by themselves."""
        self._reading.result()


def event_stream(frames: AsyncIterator[bytes], *, headers: dict[str, str] | None = None) -> StreamingResponse:
    """Return the answer that sends these bytes."""
    return StreamingResponse(frames, media_type="text/event-stream", headers={**HEADERS, **(headers or {})})


_written: LRUCache[int, tuple[RunEvent, bytes]] = LRUCache(MAX_WRITTEN_BYTES, getsizeof=lambda one: len(one[1]) + 500)
"""By the event's identity, for readers of one run share its events."""


def _event_frame(event: RunEvent) -> bytes:
    known = _written.get(id(event))
    if known is not None and known[0] is event:
        return known[1]
    written = frame(json.dumps(as_changes(event), ensure_ascii=False), event=event.type, id=event.position)
    with suppress(ValueError):  # cachetools: "value too large"
        _written[id(event)] = (event, written)
    return written


class Resumable:
    """A stream of events whose frames have positions as ids. It ends after the run, or says where to go on."""

    def __init__(
        self, events: AsyncGenerator[RunEvent, None], after: str, is_end: Callable[[RunEvent], bool], seconds: float
    ) -> None:
        self._events = events
        self._position = after
        self._is_end = is_end
        self._seconds = seconds

    def answer(self) -> Response:
        """Return the answer that sends it."""
        return event_stream(with_keepalives(self._frames(), seconds=self._seconds, farewell=self._farewell))

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._until_end()) as events:
                async for event in events:
                    self._position = event.position or self._position
                    yield _event_frame(event)
        except GatewayEnds:
            yield self._farewell()
        except Exception as error:
            if (problem := problem_of(error)) is None:
                raise
            yield frame(problem.body.model_dump_json(), event="problem")

    async def _until_end(self) -> AsyncGenerator[RunEvent, None]:
        async with aclosing(self._events) as events:
            async for event in events:
                yield event
                if self._is_end(event):
                    return

    def _farewell(self) -> bytes:
        return frame(json.dumps({"after": self._position}), event="resume")
