"""Server-sent events: their bytes, and streams that live through proxies."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from ..events import RunEvent, as_changes
from .problems import problem_of

KEEPALIVE_SECONDS = 15.0
"""After so long without an event a comment is sent: proxies cut what is silent for a minute."""
STREAM_SECONDS = 280.0
"""After so long a stream that can be resumed ends by itself: proxies cut requests of five minutes."""
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
    frames: AsyncGenerator[bytes, None], *, seconds: float | None = None, farewell: Callable[[], bytes] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the frames, and comments while there are none.

    After `seconds` the stream ends with what `farewell` returns; None means never.
    """
    clock = asyncio.get_running_loop().time
    end = math.inf if seconds is None else clock() + seconds
    following = asyncio.ensure_future(anext(frames, None))
    try:
        while clock() < end:
            await asyncio.wait([following], timeout=min(KEEPALIVE_SECONDS, end - clock()))
            if not following.done():
                yield COMMENT
                continue
            if (news := following.result()) is None:
                return
            yield news
            following = asyncio.ensure_future(anext(frames, None))
        if farewell is not None:
            yield farewell()
    finally:
        following.cancel()
        await asyncio.wait([following])
        await frames.aclose()


def event_stream(frames: AsyncIterator[bytes], *, headers: dict[str, str] | None = None) -> StreamingResponse:
    """Return the answer that sends these bytes."""
    return StreamingResponse(frames, media_type="text/event-stream", headers={**HEADERS, **(headers or {})})


class Resumable:
    """A stream of events whose frames have positions as ids. It ends after the run, or says where to go on."""

    def __init__(self, events: AsyncGenerator[RunEvent, None], after: str, is_end: Callable[[RunEvent], bool]) -> None:
        self._events = events
        self._position = after
        self._is_end = is_end

    def answer(self) -> Response:
        """Return the answer that sends it."""
        return event_stream(with_keepalives(self._frames(), seconds=STREAM_SECONDS, farewell=self._farewell))

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._until_end()) as events:
                async for event in events:
                    self._position = event.position or self._position
                    yield frame(json.dumps(as_changes(event), ensure_ascii=False), event=event.type, id=event.position)
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
