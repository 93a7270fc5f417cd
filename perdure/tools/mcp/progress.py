"""Passes on an MCP server's messages, with a limited number of progress reports.

The SDK takes a third of a millisecond for each report: a server that reports in a loop would keep a
worker's event loop busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from cachetools import TTLCache
from mcp import types
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from ...json_types import JsonObject
from ...redaction import get_logger

REPORT_SECONDS = 0.1
"""Seconds between two reports of one call that are passed on; those in between are dropped."""
MAX_REPORTING = 50
"""Maximum number of calls with reports, since a server may invent tokens."""
FORGOTTEN_SECONDS = 60.0
"""A call without a report for so long makes room for others: some calls never have a response."""
LATEST = "2026-07-28"
"""The protocol's newer form, in which each result names its kind."""
_log = get_logger("perdure.tools.mcp")


@asynccontextmanager
async def with_few_reports(
    transport: AbstractAsyncContextManager[TransportStreams], on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Connect by this transport while the block runs. Calls `on_end` when the server stops
    sending, or the block ends.
    """
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with to_session, incoming, transport as (received, sent):
        passing = asyncio.create_task(_Passing(to_session, on_end).pass_on(received))
        try:
            yield incoming, sent
        finally:
            passing.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([passing])


class _Passing:
    def __init__(
        self,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
        on_end: Callable[[], None],
    ) -> None:
        self._to_session = to_session
        self._on_end = on_end
        self._reported = TTLCache[str | int, float](MAX_REPORTING, FORGOTTEN_SECONDS)
        """When the last report of a call was passed on, by its token."""
        self._is_modern = self._has_warned = False

    async def pass_on(self, received: ReadStream[SessionMessage | Exception]) -> None:
        """Pass on all messages but frequent reports until the server stops sending; then end the
        session's stream.
        """
        try:
            async with received:
                async for item in received:
                    await self._forward(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # The session or the server has ended.
        finally:
            self._on_end()
            self._to_session.close()

    async def _forward(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage):
            match item.message:
                case types.JSONRPCNotification(
                    method="notifications/progress",
                    params={"progressToken": str() | int() as token},
                ) if not self._is_due(token):
                    return await asyncio.sleep(0)  # Yield to other tasks during endless input.
                case types.JSONRPCResponse(id=id, result=result):
                    self._complete(result)
                    self._reported.pop(id, None)
                case types.JSONRPCError(id=str() | int() as id):
                    self._reported.pop(id, None)
        await self._to_session.send(item)

    def _is_due(self, token: str | int) -> bool:
        now, last = time.monotonic(), self._reported.get(token)
        if now - (last or 0) < REPORT_SECONDS or (
            last is None and len(self._reported) >= MAX_REPORTING
        ):
            return False
        self._reported[token] = now
        return True

    def _complete(self, result: JsonObject) -> None:
        """Add the fields that the SDK requires and some servers omit: `resultType` in the
        protocol's newer form, and the content of a task's result.
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
