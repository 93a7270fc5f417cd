"""Why a run has failed, as commands about it say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecutionDescription

    from ..history.chain import Chain


async def failure_of(chain: Chain, described: WorkflowExecutionDescription | None = None) -> dict[str, str]:
    """The kind and the whole text of the error; empty for a run that has not failed.

    Raises `RPCError` when there is no such run, and `EncryptionError`.
    """
    from temporalio.client import WorkflowExecutionStatus

    from ..payloads.failures import text_of

    described = described or await chain.describe()
    if described.status is not WorkflowExecutionStatus.FAILED:
        return {}
    closing = await chain.closing(described.run_id)
    failure = closing.workflow_execution_failed_event_attributes.failure
    text = await text_of(chain.client.data_converter, failure)
    return {"kind": failure.application_failure_info.type or "failed", "message": text}
