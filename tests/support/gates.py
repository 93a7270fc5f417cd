"""Holds a run at a chosen moment, so that a test can do something just then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.testing import ScriptedReply, ScriptedRequest
from perdure.testing.script import choose_reply


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
    """A script whose reply of that number, from 1, waits until it is let through; a further attempt
    does not wait.
    """

    def __init__(self, *replies: ScriptedReply | Sequence[ScriptedReply], held: int = 1) -> None:
        self.open = threading.Event()
        self._reached = threading.Event()
        self._replies = replies
        self._held = held

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        if (request.step + 1, request.attempt) == (self._held, 1):
            self._reached.set()
            self.open.wait(60)
        return choose_reply(self._replies, request)

    async def wait_until_reached(self) -> None:
        """Fails the test when nobody has asked for that reply within a minute."""
        assert await asyncio.to_thread(self._reached.wait, 60), (
            f"reply {self._held} was not asked for within 60 s"
        )


class HeldActivities(Interceptor):
    """A worker's activities of one type wait at a gate before they begin."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.gate = Gate()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        held = self

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                if activity.info().activity_type == held.kind:
                    await held.gate()
                return await super().execute_activity(input)

        return Inbound(next)
