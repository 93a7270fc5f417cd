"""Background responses of a provider: a later attempt takes the response that an earlier one began.

https://platform.openai.com/docs/guides/background
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from ..errors import ModelError
from ..json_types import JsonObject, JsonView
from ..loop.failed_calls import may_pass
from ..redaction import get_logger
from .base import BackgroundRecord, Delta, StreamAssembler
from .errors import error_from_http, short_word
from .sdk_call import SdkCall, StreamReader, is_whole

_log = get_logger("perdure.runs")

END_SECONDS = 5.0
"""The time limit for a request to end a response."""
FAILURES = 8
"""More failures in a row than this fail the call; a retry resumes the response."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds before a response is requested again, doubled each time."""

SILENT_SHARE, LONGEST_SILENCE = 0.1, 60.0
"""A share of the call's timeout, and seconds: after this much silence, a stream counts as
lost."""

BEGINNINGS = 3
"""The most times that the model is called if the provider does not know the response it began."""

_MENDABLE = frozenset({"authentication", "permission", "configuration"})
"""Kinds of errors after which another key may still fetch the same response."""
_NAMES_IT = re.compile(r"\b(?:background|store)\b", re.IGNORECASE)
_FORMING = ("queued", "in_progress")
_in_foreground: WeakSet[Any] = WeakSet()
"""The clients of connections that refuse background responses, or must not store any."""


def is_possible(client: Any) -> bool:
    """Return whether background responses may work through this client: no refusal is known."""
    return client not in _in_foreground


class NoBackgroundError(Exception):
    """The provider does not make background responses."""


class _Reader(StreamReader):
    """Reads the stream of a response; records its id before it reads on."""

    def __init__(
        self,
        assembler: StreamAssembler,
        on_delta: Callable[[Delta], None],
        response: BackgroundResponse,
    ) -> None:
        super().__init__(assembler, on_delta, response.call.max_bytes)
        self._response = response
        self._silence = asyncio.timeout(None)

    async def read(self, response: Any) -> None:
        """Read to the end, or until the stream is silent for too long, as after a connection was
        lost silently.
        """
        try:
            async with asyncio.timeout(None) as self._silence:
                await super().read(response)
        except TimeoutError:
            if not self._silence.expired():
                raise

    def take(self, event: JsonObject) -> None:
        self._response.hear(event)
        super().take(event)

    def end(self) -> None:
        if not self._response.is_kept:  # Otherwise an event, or the provider, reports the end.
            super().end()

    async def between(self) -> None:
        await self._response.settle()
        if self._response.is_kept:
            seconds = min(SILENT_SHARE * self._response.call.timeout, LONGEST_SILENCE)
            self._silence.reschedule(asyncio.get_running_loop().time() + seconds)
        await super().between()


@dataclass
class BackgroundResponse:
    """One call: begins a response, or takes one that another attempt began.

    The first stream is the only one: if it breaks off, the response is requested until it is whole.
    """

    call: SdkCall
    new_assembler: Callable[[], StreamAssembler]
    on_delta: Callable[[Delta], None]
    record: BackgroundRecord
    _status: str = ""
    _is_over: bool = False

    def __post_init__(self) -> None:
        self._id = self.record.response
        self._is_recorded = bool(self._id)

    @property
    def is_kept(self) -> bool:
        """Whether the provider has a response that can be requested again."""
        return bool(self._id)

    async def answer(self, request: JsonView) -> JsonObject:
        """Return the whole response. Raises ModelError for every failure, and NoBackgroundError
        before any answer.

        After a failure, the record keeps the response if it is worth resuming.
        """
        try:
            async with asyncio.timeout(self.call.timeout):
                return await self._answer(request)
        except TimeoutError as error:
            state = f"; the provider reports that {self._id} is {self._status}" if self._id else ""
            await self._end()
            text = f"No complete answer within {self.call.timeout:g} s{state}"
            raise self.call.error(text, "timeout") from error
        except asyncio.CancelledError:
            if self._id and not await self.record.is_handed_on():
                await self._end()
            raise
        except ModelError as error:
            if (
                self._is_over
                or error.usage is not None
                or not (may_pass(error.kind) or error.kind in _MENDABLE)
            ):
                await self._end()
            raise

    async def _answer(self, request: JsonView) -> JsonObject:
        for _ in range(BEGINNINGS):
            if not self._id and (made := await self._begin(request)):
                return made
            try:
                return await self._finished()
            except ModelError as error:
                if error.status != 404:
                    raise
                await self.record.forget()  # The provider does not know the response.
                self._id, self._is_recorded = "", False
        raise self.call.error(
            "The provider does not know the responses that it has just begun", "server"
        )

    async def _begin(self, request: JsonView) -> JsonObject | None:
        """Request a response and read it; return None for one that is not complete yet. Raises
        NoBackgroundError if the provider does not support this.
        """
        reader = _Reader(self.new_assembler(), self.on_delta, self)
        body = {**request, "background": True, "store": True}
        if "background_options" not in request:
            # A response that the provider may postpone is never streamed.
            body["stream"] = True
        try:
            async with self.call.response(body) as response:
                if is_whole(response):
                    return self._heard(await self.call.whole(response), "response.created")
                await reader.read(response)
        except ModelError as error:
            if error.status in (400, 422) and _NAMES_IT.search(error.message):
                self._give_up(f"the server refuses it: {error.message}")
                raise NoBackgroundError from error
            if not self._id or self._is_over or not may_pass(error.kind):
                raise
            return None
        if self._id and not reader.has_ended:
            return None
        self.call.require_end(reader)
        return self._checked(reader.response())

    async def _finished(self) -> JsonObject:
        """Request the response until it is complete. Raises ModelError, of status 404 for an
        unknown one.
        """
        failures, pause = 0, FIRST_PAUSE
        while True:
            await self.settle()
            try:
                async with self.call.response(None, below=f"/{self._id}") as got:
                    made = await self.call.whole(got)
                if whole := self._heard(made, f"response.{made.get('status')}"):
                    return whole
                failures = 0
            except ModelError as error:
                failures += 1
                if self._is_over or not may_pass(error.kind) or failures > FAILURES:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _heard(self, made: JsonObject, event: str) -> JsonObject | None:
        """Return the provider's response if it is complete. Raises ModelError if it has failed."""
        self.hear({"type": event, "response": made})
        return None if self._id and self._status in _FORMING else self._checked(made)

    def _checked(self, response: JsonObject) -> JsonObject:
        self.call.check(response)
        return response

    def hear(self, event: JsonView) -> None:
        """Read an event's state of the response itself. Raises ModelError when it has failed."""
        response = event.get("response")
        if not isinstance(response, dict):
            return
        self._status = short_word(response.get("status")) or self._status
        type = event.get("type")
        if type in ("response.failed", "response.cancelled"):
            self._is_over = True
            if self._status == "cancelled":
                raise self.call.error("The response was cancelled at the provider", "server")
            raise error_from_http(
                None, {}, response, provider=self.call.provider, fallback="The response failed"
            )
        if type == "response.created" and not self._id:
            is_background = response.get("background") is True
            if not is_background or response.get("store") is False:
                self._give_up(
                    "the server stores no response"
                    if is_background
                    else "the server does not know it"
                )
            self._id = (short_word(response.get("id")) or "") if is_background else ""

    def _give_up(self, why: str) -> None:
        """Request no further background response over this connection, and log why."""
        _in_foreground.add(self.call.client)
        url = str(self.call.client.base_url)
        _log.info(
            "No background responses from %s: %s (perdure docs background-responses)", url, why
        )

    async def settle(self) -> None:
        """Record the id, if it is not recorded yet."""
        if self._id and not self._is_recorded:
            self._is_recorded = True
            await self.record.record(self._id)

    async def _end(self) -> None:
        if self._id:
            await end_response(self.call, self._id)
            await self.record.end()


async def end_response(call: SdkCall, id: str) -> None:
    """Ask the provider to end the response; one that has ended already stays as it is. Never
    raises.
    """
    with suppress(ModelError, TimeoutError):
        async with asyncio.timeout(END_SECONDS), call.response({}, below=f"/{id}/cancel"):
            return
