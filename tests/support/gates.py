"""Holds a run at a chosen moment, so that a test can do something just then."""

from __future__ import annotations

import asyncio
from typing import Any


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


async def seconds_until(event: asyncio.Event, timeout: float = 10.0) -> float:
    """How long the event took from now."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.wait_for(event.wait(), timeout)
    return loop.time() - started
