"""Server-sent events: their bytes, and streams that survive proxies."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from ..events import RunEvent, as_changes
from .ending import GatewayEnds
from .problems import problem_of

KEEPALIVE_SECONDS = 15.0
"""Seconds without an event after which a comment is sent: proxies cut connections idle for a
minute."""
STREAM_SECONDS = 280.0
"""Seconds after which a resumable stream ends by itself: proxies cut requests of five minutes."""
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def frame(data: str, *, event: str = "", id: str = "") -> bytes:
    """Return the bytes of one event. Neither `event` nor `id` may contain line breaks; in `data`
    they are kept.
    """
    lines = [f"id: {id}"] if id else []
    lines += [f"event: {event}"] if event else []
    lines += [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


COMMENT = b": \n\n"
"""A comment, which readers of streams ignore."""


async def with_keepalives(
    frames: AsyncGenerator[bytes, None],
    *,
    seconds: float = math.inf,
    farewell: Callable[[], bytes] | None = None,
    silence: float = KEEPALIVE_SECONDS,
) -> AsyncGenerator[bytes, None]:
    """Yield the frames, and a comment after every `silence` seconds without a frame.

    After `seconds` the stream ends with the result of `farewell`, which accounts for all frames
    before it.
    """
    clock, coming = asyncio.get_running_loop().time, asyncio.ensure_future(anext(frames, None))
    end = clock() + seconds
    try:
        while clock() < end:
            await asyncio.wait({coming}, timeout=min(silence, end - clock()))
            if not coming.done():
                yield COMMENT
            elif (each := coming.result()) is None:
                return
            else:
                coming = asyncio.ensure_future(anext(frames, None))
                yield each
        coming.cancel()
        await asyncio.wait({coming})
        last = b"" if coming.cancelled() else coming.result() or b""
        yield last + (farewell() if farewell else b"")
    finally:
        coming.cancel()
        await asyncio.wait({coming})
        await frames.aclose()


def event_stream(
    frames: AsyncIterator[bytes], *, headers: dict[str, str] | None = None
) -> StreamingResponse:
    """Return the HTTP response that sends these bytes."""
    return StreamingResponse(
        frames, media_type="text/event-stream", headers={**HEADERS, **(headers or {})}
    )


class Resumable:
    """A stream of events whose frames have positions as ids. It ends after the run, or names the
    position to resume from.
    """

    def __init__(
        self,
        events: AsyncGenerator[RunEvent, None],
        after: str,
        is_end: Callable[[RunEvent], bool],
        seconds: float,
    ) -> None:
        self._events = events
        self._position = after
        self._is_end = is_end
        self._seconds = seconds

    def answer(self) -> Response:
        """Return the HTTP response that sends it."""
        return event_stream(
            with_keepalives(self._frames(), seconds=self._seconds, farewell=self._farewell)
        )

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._until_end()) as events:
                async for event in events:
                    self._position = event.position or self._position
                    written = json.dumps(as_changes(event), ensure_ascii=False)
                    yield frame(written, event=event.type, id=event.position)
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
