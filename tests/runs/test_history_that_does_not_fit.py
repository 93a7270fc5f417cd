"""A call whose conversation the history does not show holds its run, whatever `on_failure` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.conversation import DigestMismatchError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.protocol.activities import CALL_MODEL, JUDGE
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from .test_holding import held


class Misfits(Interceptor):
    """What an activity is answered with after its last attempt, as long as the history does not fit."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_broken = True

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        misfits = self

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                if misfits.is_broken and activity.info().activity_type == misfits.kind:
                    raise ApplicationError("it does not fit", type=DigestMismatchError.__name__, non_retryable=True)
                return await super().execute_activity(input)

        return Inbound(next)


async def allow(messages: list[Message]) -> GuardrailResult:
    return GuardrailResult(allowed=True)


@pytest.mark.parametrize("kind", [CALL_MODEL, JUDGE])
async def test_it_is_held_and_goes_on(stage: Stage, scripted: Callable[[Script], ScriptedModel], kind: str) -> None:
    misfits, model = Misfits(kind), scripted([says("done")])
    async with stage.worker(interceptors=[misfits], guardrails={"slow": Guardrails(input=allow)}):
        run = await stage.start(scripted_agent(model), guardrails="slow", on_failure="fail")
        [why] = await held(run)
        assert (why.reason, why.kind, why.why) == ("server", "history", "it does not fit")
        misfits.is_broken = False
        await run.go_on()
        assert (await run.result()).output == "done"
    assert len(model.requests) == 1
