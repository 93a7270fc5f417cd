"""Starts the activity that summarises messages."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.workflow import ActivityHandle

from ..excerpt import counted
from ..protocol import activities
from .policies import COMPACTION_RETRIES, HEARTBEAT_TIMEOUT, MARGIN, OFFERED_RETRIES


def start_compaction(input: activities.CompactInput, place: str) -> ActivityHandle[str]:
    """Start the activity that asks the compactor. `place` is the iteration, for people."""
    return workflow.start_activity(
        activities.COMPACT,
        input,
        result_type=str,
        start_to_close_timeout=timedelta(seconds=activities.COMPACT_SECONDS) + MARGIN,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=OFFERED_RETRIES if input.offer else COMPACTION_RETRIES,
        summary=f"{place} · compact {counted(input.drop, 'message')}",
    )
