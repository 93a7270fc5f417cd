"""Tells Temporal that an activity is alive, and watchers what a model is saying."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pydantic import BaseModel
from temporalio import activity

HEARTBEAT_SECONDS = 1.0
"""Also the time after which an activity learns that it was cancelled."""
STREAM_SECONDS = 0.1
"""While text is streaming: about the delay with which a watcher sees it."""


class StreamedText(BaseModel):
    """The heartbeat details of a streaming model call: everything that this attempt has said so far."""

    iteration: int
    attempt: int
    text: str = ""
    thinking: str = ""


class Heart:
    """Beats by itself; beats faster while there is something new to say."""

    def __init__(self, said: StreamedText | None) -> None:
        self.said = said
        self._news = asyncio.Event()

    def add(self, kind: str, text: str) -> None:
        """Take up a piece of streamed text."""
        assert self.said is not None
        if kind == "text":
            self.said.text += text
        else:
            self.said.thinking += text
        self._news.set()

    async def beat(self) -> None:
        while True:
            activity.heartbeat(*([self.said] if self.said else []))
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), HEARTBEAT_SECONDS)
                await asyncio.sleep(STREAM_SECONDS)


@asynccontextmanager
async def heartbeats(said: StreamedText | None = None) -> AsyncIterator[Heart]:
    """Heartbeat for as long as the block runs."""
    heart = Heart(said)
    beating = asyncio.create_task(heart.beat())
    try:
        yield heart
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
