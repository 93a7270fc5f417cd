"""Server-sent events: their bytes, and streams that survive proxies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from starlette.responses import StreamingResponse

from ..events import RunEvent, as_changes
from .ending import GatewayEnds
from .problems import problem_of

KEEPALIVE_SECONDS = 15.0
"""Seconds without an event after which a comment is sent: proxies cut connections idle for a
minute."""
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
    frames: AsyncGenerator[bytes, None], *, silence: float = KEEPALIVE_SECONDS
) -> AsyncGenerator[bytes, None]:
    """Yield the frames, and a comment after every `silence` seconds without a frame."""
    coming = asyncio.ensure_future(anext(frames, None))
    try:
        while True:
            await asyncio.wait({coming}, timeout=silence)
            if not coming.done():
                yield COMMENT
            elif (each := coming.result()) is None:
                return
            else:
                coming = asyncio.ensure_future(anext(frames, None))
                yield each
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


def resumable(
    events: AsyncGenerator[RunEvent, None], after: str, is_end: Callable[[RunEvent], bool]
) -> StreamingResponse:
    """Return the HTTP response that sends these events, with their positions as ids, up to the one
    that is the end. A gateway that stops names the position to resume from.
    """

    async def frames() -> AsyncGenerator[bytes, None]:
        position = after
        try:
            async with aclosing(events):
                async for event in events:
                    position = event.position or position
                    written = json.dumps(as_changes(event), ensure_ascii=False)
                    yield frame(written, event=event.type, id=event.position)
                    if is_end(event):
                        return
        except GatewayEnds:
            yield frame(json.dumps({"after": position}), event="resume")
        except Exception as error:
            if (problem := problem_of(error)) is None:
                raise
            yield frame(problem.body.model_dump_json(), event="problem")

    return event_stream(with_keepalives(frames()))
