"""One attempt of a model call: the state that it takes from earlier attempts and leaves to later
ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.service import RPCError

from ..errors import ModelError
from ..messages import Message, ModelReply, Usage
from ..protocol.activities import CallSoFar, ModelInput, StreamedText
from ..protocol.outcome import HeldUp
from ..redaction import get_logger
from ..text import one_line
from ..trimming import estimate_chars
from .failures import PreviousAttempt
from .heartbeat import Heartbeat

_log = get_logger("perdure.runs")

CHARS_PER_TOKEN = 4
"""A rough estimate for the text of a lost attempt, whose token count the provider never
reported."""


class ModelAttempt:
    """The state of one attempt, kept in heartbeat details, where the next attempt finds it.

    From the start, each heartbeat contains the state of earlier attempts, so that none can erase
    it.
    """

    def __init__(self, heart: Heartbeat, input: ModelInput) -> None:
        self._heart = heart
        self._input = input
        self._streamed_before = _last_text(activity.info().heartbeat_details)
        self.so_far = _earlier_state(self._streamed_before, input.before)
        """The state left by the call's earlier attempts."""
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.run = activity.info().workflow_id or ""
        self.thoughts: list[str] = []
        """The pieces of the model's thinking so far."""
        if self._streamed_before:
            heart.begin_with(self._streamed_before)

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Leave the state to the next attempt, also if that is another activity."""
        try:
            yield
        except ModelError as error:
            error.so_far = self.so_far if self.so_far.lost else None
            raise

    def begin(self, seen: PreviousAttempt, *, speaks: bool) -> None:
        """Begin the model call once the fate of the previous attempt is known; `speaks` if the
        output is streamed.
        """
        attempt, so_far, before = activity.info().attempt, self.so_far, self._streamed_before
        if seen.was_lost:
            since = attempt - so_far.attempt if self._input.offer is None else 1
            so_far = so_far.with_lost(since, before.chars if before else 0)
        self.so_far = so_far.model_copy(update={"attempt": attempt})
        if speaks or self.so_far.lost:
            self._heart.speak(self._input.iteration, attempt)
        if self.so_far.lost:
            self._keep(self.so_far)

    def _keep(self, so_far: CallSoFar) -> None:
        if self._heart.streamed is None:
            self._heart.speak(self._input.iteration, activity.info().attempt)
        assert self._heart.streamed is not None
        self.so_far = self._heart.streamed.so_far = so_far

    async def wait_for_server(self, kind: str, why: str, until: float) -> None:
        """Record and stream that the call waits, with others, until the provider answers again."""
        await self._on_own_loop(self._wait, HeldUp(kind=kind, why=one_line(why, 300), until=until))

    async def _wait(self, held_up: HeldUp) -> None:
        self._keep(self.so_far)
        assert self._heart.streamed is not None
        self._heart.streamed.held_up = held_up
        try:
            await self._heart.record()
        except (AsyncActivityCancelledError, RPCError) as error:
            _log.debug("a later heartbeat will report that a call waits: %s", error)

    def go_on_after_wait(self) -> None:
        """Record that the call no longer waits."""
        if self._heart.streamed is not None:
            self._heart.streamed.held_up = None

    async def _on_own_loop(self, function: Any, *arguments: Any) -> Any:
        """Run the coroutine function on this activity's loop, in its context, and return its
        result: the model call itself may run on the loop of the user's functions.
        """
        if asyncio.get_running_loop() is self._loop:
            return await self._loop.create_task(function(*arguments), context=self._context)
        called = self._context.run(
            asyncio.run_coroutine_threadsafe, function(*arguments), self._loop
        )
        return await asyncio.wrap_future(called)

    def count_lost(self, reply: ModelReply, messages: Sequence[Message]) -> None:
        """Add the usage of lost attempts to the reply's: for each, the same input tokens and an
        estimate of its text.
        """
        if not self.so_far.lost:
            return
        asked = reply.usage.input_tokens or estimate_chars(messages) // CHARS_PER_TOKEN
        input_tokens = self.so_far.lost * asked
        output_tokens = self.so_far.lost_chars // CHARS_PER_TOKEN
        lost = input_tokens + output_tokens
        reply.usage += Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=lost,
            lost_tokens=lost,
        )
        reply.lost_attempts = self.so_far.lost


def _last_text(details: Sequence[Any]) -> StreamedText | None:
    """Return the last text in an attempt's heartbeat details."""
    try:
        return StreamedText.model_validate(details[0]) if details else None
    except ValidationError:
        return None


def _earlier_state(streamed: StreamedText | None, before: CallSoFar | None) -> CallSoFar:
    return (
        (streamed and streamed.so_far)
        or (before and before.model_copy(update={"attempt": 1}))
        or CallSoFar()
    )
