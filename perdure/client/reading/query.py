"""Asks a run's workflow by query, which adds nothing to its history but needs a worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

QUERY_SECONDS = 2.0
"""When no worker has answered within these seconds, the reader replays the history instead."""
_NO_ANSWER = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.CANCELLED)

Answer = TypeVar("Answer")


async def ask(handle: WorkflowHandle[Any, Any], query: str, *arguments: Any, answer: type[Answer]) -> Answer | None:
    """The workflow's answer, or None when no worker gives one in time. Raises `RPCError` when there is no such run."""
    limit = timedelta(seconds=QUERY_SECONDS)
    try:
        # `rpc_timeout` limits one attempt; the SDK makes several.
        async with asyncio.timeout(1.25 * QUERY_SECONDS):
            given: Answer = await handle.query(query, args=arguments, result_type=answer, rpc_timeout=limit)
            return given
    except (TimeoutError, WorkflowQueryFailedError):
        return None
    except RPCError as error:
        if error.status not in _NO_ANSWER:
            raise
        return None
