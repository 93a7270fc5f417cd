"""The activity at hand: which run it belongs to, and whether a further attempt may start at all."""

from __future__ import annotations

from temporalio import activity

RunKey = tuple[str, str]
"""Workflow id and run id."""


def current_run() -> RunKey:
    """Workflow id and run id of the run that the current activity belongs to."""
    info = activity.info()
    assert info.workflow_id is not None
    assert info.workflow_run_id is not None
    return info.workflow_id, info.workflow_run_id


async def cancelled_meanwhile() -> bool:
    """Whether the run was cancelled after this activity's worker was lost: then nothing may be started any more.

    The workflow would say so too, but it may have had no worker either.
    """
    if activity.info().attempt == 1:
        return False
    workflow_id, run_id = current_run()
    description = await activity.client().get_workflow_handle(workflow_id, run_id=run_id).describe()
    return description.raw_description.workflow_extended_info.cancel_requested
