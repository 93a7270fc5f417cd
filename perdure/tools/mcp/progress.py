"""Passes on an MCP server's messages, with a limited number of progress reports.

The SDK takes a third of a millisecond for each report: a server that reports in a loop would keep a
worker's event loop busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from ...json_types import JsonObject
from ...redaction import get_logger

REPORT_SECONDS = 0.1
"""Seconds between two reports of one call that are passed on; in between, only the last one is
kept."""
MAX_HELD = 50
"""Maximum number of calls with waiting reports, since a server may invent tokens."""

LATEST = "2026-07-28"
"""The protocol's newer form, in which each result names its kind."""
_log = get_logger("perdure.tools.mcp")

UNTIL_THE_END = suppress(anyio.BrokenResourceError, anyio.ClosedResourceError)
"""Messages to or from an ended session or server are dropped."""
Incoming = MemoryObjectSendStream[SessionMessage | Exception]


SessionStreams = tuple[Incoming, MemoryObjectReceiveStream[SessionMessage | Exception]]


def session_streams() -> SessionStreams:
    """Return a session's streams: one to send it messages, one where it receives them."""
    return anyio.create_memory_object_stream[SessionMessage | Exception](0)


@asynccontextmanager
async def with_few_reports(
    transport: AbstractAsyncContextManager[TransportStreams],
    to_session: Incoming,
    incoming: MemoryObjectReceiveStream[SessionMessage | Exception],
    on_end: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    """Connect by this transport while the block runs. Calls `on_end` when the server stops
    sending.
    """
    async with to_session, incoming, transport as (received, sent):
        passing = asyncio.create_task(_Passing(to_session, on_end).pass_on(received))
        try:
            yield incoming, sent
        finally:
            passing.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([passing])


class _Passing:
    def __init__(self, to_session: Incoming, on_end: Callable[[], None]) -> None:
        self._to_session = to_session
        self._on_end = on_end
        self._held: dict[str | int, SessionMessage | None] = {}
        """By token, the last report since one was passed on; None without a further one."""
        self._telling: asyncio.Task[None] | None = None
        self._is_modern = self._has_warned = False

    async def pass_on(self, received: ReadStream[SessionMessage | Exception]) -> None:
        """Pass on all messages until the server stops sending; then end the session's stream."""
        try:
            with UNTIL_THE_END:
                await self._take_all(received)
        finally:
            if self._telling is not None:
                self._telling.cancel()
            self._on_end()
            self._to_session.close()

    async def _take_all(self, received: ReadStream[SessionMessage | Exception]) -> None:
        async with received:
            async for item in received:
                await self._take(item)

    async def _take(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage):
            match item.message:
                case types.JSONRPCNotification(
                    method="notifications/progress",
                    params={"progressToken": str() | int() as token},
                ):
                    return await self._report(token, item)
                case types.JSONRPCResponse(id=id, result=result):
                    self._complete(result)
                    if (last := self._held.pop(id, None)) is not None:
                        await self._to_session.send(last)
        await self._to_session.send(item)

    def _complete(self, result: JsonObject) -> None:
        """Add parts of a result that the SDK requires: its kind, in the protocol's newer form, or
        the content of a task's.
        """
        versions = result.get("supportedVersions")
        self._is_modern = self._is_modern or (isinstance(versions, list) and LATEST in versions)
        if self._is_modern and "resultType" not in result:
            if not self._has_warned:
                _log.warning(
                    "An MCP server leaves out resultType, which %s demands: its results count as "
                    "whole",
                    LATEST,
                )
            self._has_warned = True
            result["resultType"] = "complete"
        if isinstance(task := result.get("task"), dict) and "content" not in result:
            result |= {"content": [], "_meta": {"task": task.get("taskId")}}

    async def _report(self, token: str | int, item: SessionMessage) -> None:
        if token in self._held or len(self._held) >= MAX_HELD:
            if token in self._held:
                self._held[token] = item
            await asyncio.sleep(0)  # Yield to other tasks during endless input.
            return
        self._held[token] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_held())
        await self._to_session.send(item)

    async def _tell_held(self) -> None:
        with UNTIL_THE_END:
            while self._held:
                await asyncio.sleep(REPORT_SECONDS)
                due = {token: last for token, last in self._held.items() if last is not None}
                self._held = dict.fromkeys(due)
                for last in due.values():
                    await self._to_session.send(last)
