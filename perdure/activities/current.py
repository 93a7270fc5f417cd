"""The activity that is running: the run that it belongs to, and whether it may still do anything."""

from __future__ import annotations

from typing import NamedTuple

from temporalio import activity


class LinkKey(NamedTuple):
    """Identifies one link of a run."""

    workflow_id: str
    run_id: str


def current_link() -> LinkKey:
    """The link that the running activity belongs to."""
    info = activity.info()
    assert info.workflow_id is not None
    assert info.workflow_run_id is not None
    return LinkKey(info.workflow_id, info.workflow_run_id)


async def cancelled_meanwhile() -> bool:
    """Whether the run was cancelled since this activity's first attempt was lost: then nothing may start any more.

    Costs a request to the server on a further attempt, and nothing on the first. The server is asked because the
    workflow, which would cancel the activity, may have had no worker either. Raises RPCError.
    """
    if activity.info().attempt == 1:
        return False
    workflow_id, run_id = current_link()
    description = await activity.client().get_workflow_handle(workflow_id, run_id=run_id).describe()
    return description.raw_description.workflow_extended_info.cancel_requested
