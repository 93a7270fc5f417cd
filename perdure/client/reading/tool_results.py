"""Reads the result of one tool call of a run, whole."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from ...events import RunEvent
from ...history.chain import Chain
from ...history.results import read_result
from ...kept_results import CallPlace, UnknownCallError, chosen
from ...loop.tools import CANCELLED_TEXT
from ...messages import ToolResult
from ...result_sizes import STORED
from ...tools.results import to_result
from .log import RunLog


async def whole_result(chain: Chain, log: RunLog, call_id: str, iteration: int | None) -> ToolResult:
    """The result that the call's execution has left in the history; for a call without one, what the model was told.

    No execution was it that refused a call, and a lost worker has left none. Raises `UnknownCallError`, and what
    `RunLog.refresh` and `read_result` raise.
    """
    await log.refresh()
    told = dict(_results(log.events))
    try:
        place = chosen(told, call_id, iteration)
    except UnknownCallError as unknown:
        # Where a value can't be read, the events end there: then this raises what says so.
        with suppress(UnknownCallError):
            return await _kept(chain, call_id, iteration)
        raise unknown from None
    try:
        return await _kept(chain, call_id, place.iteration)
    except UnknownCallError:
        return _as_told(log.events, told[place])


async def _kept(chain: Chain, call_id: str, iteration: int | None) -> ToolResult:
    link = await chain.describe()
    as_result = partial(to_result, limits=STORED)
    return await read_result(
        chain.client, chain.workflow_id, link.run_id, call_id, iteration=iteration, to_result=as_result
    )


def _as_told(events: Iterable[RunEvent], told: RunEvent) -> ToolResult:
    text, call = told.data["result"], (told.iteration, told.call_id)
    if text == CANCELLED_TEXT:
        return ToolResult.failure(text, kind="cancelled", status="cancelled")
    if any(event.type == "error" and (event.iteration, event.call_id) == call for event in events):
        return ToolResult.failure(text, kind="error")
    return ToolResult.of_text(text)


def _results(events: Iterable[RunEvent]) -> Iterable[tuple[CallPlace, RunEvent]]:
    for event in events:
        if event.type == "tool_result" and event.call_id is not None:
            yield CallPlace(event.iteration, event.seq, event.call_id, event.data["name"]), event
