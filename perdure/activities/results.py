"""How large the results of tool activities may be, and how tools find those of earlier calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from temporalio import activity

from ..history.results import read_result
from ..kept_results import KeptResults
from ..messages import TextPart, ToolResult
from ..payloads.limits import MAX_PAYLOAD_BYTES, size_of
from ..result_sizes import SHOWN_BYTES, STORED, SizeLimits
from ..tool_calls import ToolRequest
from ..tools.results import to_result
from .run_cache import current_link

MOST_PER_CHARACTER = 6
"""Bytes of JSON, as for a control character."""


def result_limits(request: ToolRequest) -> SizeLimits:
    """How large the result of the current activity may be: as much as can be kept.

    The history does not say which call the result of a local activity belongs to: it keeps what the model is shown.
    """
    limits = (STORED if _is_stored() else SizeLimits()).for_one_of(request.calls)
    return replace(limits, text_bytes=min(limits.text_bytes, SHOWN_BYTES)) if activity.info().is_local else limits


def recordable(result: ToolResult, limits: SizeLimits) -> ToolResult:
    """The result, certain to fit into one payload even if it can't be compressed.

    As JSON, text may take several times its bytes: then less of it is kept.
    """
    if _is_stored() or _length(result) * MOST_PER_CHARACTER <= MAX_PAYLOAD_BYTES:
        return result
    while size_of(result) > MAX_PAYLOAD_BYTES and limits.text_bytes > SHOWN_BYTES:
        limits = replace(limits, text_bytes=max(limits.text_bytes // 2, SHOWN_BYTES))
        result = to_result(result, limits)
    return result


def run_results() -> KeptResults:
    """Finds the results of the run that the current activity belongs to; may be awaited on any event loop."""
    client, link, loop = activity.client(), current_link(), asyncio.get_running_loop()

    async def find(call_id: str, iteration: int | None, ignored: Sequence[str] = ()) -> ToolResult:
        found = read_result(
            client, *link, call_id, iteration=iteration, to_result=partial(to_result, limits=STORED), ignored=ignored
        )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(found, loop))

    return find


def _is_stored() -> bool:
    return activity.client().data_converter.external_storage is not None


def _length(result: ToolResult) -> int:
    return sum(len(part.value if isinstance(part, TextPart) else part.source) for part in result.parts)
