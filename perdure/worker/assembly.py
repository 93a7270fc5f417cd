"""Builds the worker that runs agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from ..activities.heartbeat import STREAM_SECONDS
from ..activities.run_cache import DEFAULT_CACHE_BYTES
from ..guardrails import Compactor, Guardrails
from ..payloads.converter import with_converter
from .plugin import PerdurePlugin
from .workflow_memory import DEFAULT_WORKFLOW_BYTES

WORKER_DEFAULTS: dict[str, Any] = {
    # A run whose worker was lost goes on elsewhere this soon (10 s by default).
    "sticky_queue_schedule_to_start_timeout": timedelta(seconds=2),
    # Also how soon a watcher sees streamed text, and an activity its cancellation.
    "max_heartbeat_throttle_interval": timedelta(seconds=STREAM_SECONDS),
    "graceful_shutdown_timeout": timedelta(seconds=30),
    "max_cached_workflows": 500,
}


def create_worker(
    client: Client,
    *,
    task_queue: str = "perdure",
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] = (),
    guardrails: Mapping[str, Guardrails] | None = None,
    compactors: Mapping[str, Compactor] | None = None,
    prompt_root: str | PathLike[str] | None = None,
    conversation_cache_bytes: int = DEFAULT_CACHE_BYTES,
    workflow_cache_bytes: int = DEFAULT_WORKFLOW_BYTES,
    **worker_options: Any,
) -> Worker:
    """A worker that runs agents with the given tools, guardrails and compactors.

    `worker_options` go to `temporalio.worker.Worker` and win over perdure's defaults. Use
    one client for each worker: two workers on one client and task queue can hang when the first one stops.
    """
    plugin = PerdurePlugin(
        tools=tools,
        guardrails=guardrails,
        compactors=compactors,
        prompt_root=prompt_root,
        conversation_cache_bytes=conversation_cache_bytes,
        workflow_cache_bytes=workflow_cache_bytes,
    )
    options = WORKER_DEFAULTS | worker_options
    options["plugins"] = [*options.get("plugins", ()), plugin]
    return Worker(with_converter(client), task_queue=task_queue, **options)
