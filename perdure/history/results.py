"""Complete results of a run's tool calls, from the histories of its links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..conversation import Operation
from ..errors import UnknownCallError
from ..messages import ToolResult
from ..tool_results import CallPlace, choose
from .calls import CallOutcome, CallReader, ToResult
from .link import RecordedLink, read_link

LastOperations = Callable[[RecordedLink, int], Awaitable[Sequence[Operation]]]
"""Returns the changes of the conversation at a link's end since a version."""


async def read_result(
    client: Client,
    workflow_id: str,
    run_id: str,
    call_id: str,
    *,
    iteration: int | None,
    to_result: ToResult,
    ignored: Sequence[str] = (),
    last_operations: LastOperations | None = None,
) -> ToolResult:
    """Read the result of a call from this link of the run, or from the latest earlier link that has
    it; of several calls with the id, that in the given iteration, or the last.

    Ignores calls of the tools in `ignored`. `last_operations` reads the results in this link that
    no model call has received. Raises `UnknownCallError` if no remaining history has such a result,
    and like `read_link`.
    """
    known: dict[CallPlace, ToolResult] = {}
    current: str | None = run_id
    while current:
        try:
            link = await read_link(client, workflow_id, current)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or current == run_id:
                raise
            break  # older than the retention period
        reader = CallReader(client, workflow_id, to_result)
        calls = [call async for call in reader.read(link)]
        is_newest = current == run_id and last_operations is not None
        calls += await reader.end(
            await last_operations(link, reader.version) if is_newest and last_operations else ()
        )
        for call in calls:
            if isinstance(call, CallOutcome) and call.result and call.call.name not in ignored:
                known[CallPlace(call.iteration, call.index, call.call.id, call.call.name)] = (
                    call.result
                )
        with suppress(UnknownCallError):
            return known[choose(known, call_id, iteration)]
        start = link.history[0].workflow_execution_started_event_attributes
        current = start.continued_execution_run_id
    return known[choose(known, call_id, iteration)]
