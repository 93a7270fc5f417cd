"""Holds a run at a chosen moment, so that a test can do something just then."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from perdure.testing import ScriptedReply, ScriptedRequest


class Gate:
    """A tool, guardrail or compactor that waits until it is let through, and counts."""

    def __init__(self, gives: Any = "through") -> None:
        self.gives = gives
        self.entered = 0
        self.left = 0
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, *subject: Any, text: str = "") -> Any:
        self.entered += 1
        self.reached.set()
        await self.open.wait()
        self.left += 1
        return self.gives


class GatedReplies:
    """A script whose reply of that number, from 1, waits until it is let through."""

    def __init__(self, *replies: ScriptedReply, held: int = 1) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._replies = replies
        self._held = held
        self._asked = 0

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        self._asked += 1
        number = self._asked
        if number == self._held:
            self.reached.set()
            self.open.wait(60)
        return self._replies[number - 1]


async def seconds_until(event: asyncio.Event, timeout: float = 10.0) -> float:
    """How long the event took from now."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.wait_for(event.wait(), timeout)
    return loop.time() - started
