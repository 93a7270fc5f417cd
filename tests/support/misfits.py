"""Activities that find a history which does not fit together."""

from __future__ import annotations

from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.conversation import DigestMismatchError


class Misfits(Interceptor):
    """What an activity is answered with after its last attempt, as long as the history does not
    fit.
    """

    def __init__(self, kind: str, workflow_type: str = "") -> None:
        self.kind = kind
        self.workflow_type = workflow_type
        self.is_broken = True
        self.count = 0

    async def happen(self) -> int:
        return self.count

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        misfits = self

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                if misfits.is_broken and misfits.is_meant(activity.info()):
                    misfits.count += 1
                    raise ApplicationError(
                        "it does not fit", type=DigestMismatchError.__name__, non_retryable=True
                    )
                return await super().execute_activity(input)

        return Inbound(next)

    def is_meant(self, info: activity.Info) -> bool:
        return info.activity_type == self.kind and self.workflow_type in ("", info.workflow_type)
