"""What a further attempt of an activity has to know before it starts."""

from __future__ import annotations

from temporalio import activity

from .run_cache import current_run


async def cancelled_meanwhile() -> bool:
    """Whether the run was cancelled after this activity's worker was lost: then nothing may be started any more.

    The workflow would say so too, but it may have had no worker either.
    """
    if activity.info().attempt == 1:
        return False
    workflow_id, run_id = current_run()
    description = await activity.client().get_workflow_handle(workflow_id, run_id=run_id).describe()
    return description.raw_description.workflow_extended_info.cancel_requested
