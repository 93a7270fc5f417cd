"""A call whose conversation the history does not show holds its run, whatever `on_failure` says."""

from __future__ import annotations

import pytest

from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.protocol.activities import CALL_MODEL, JUDGE
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from ..support.misfits import Misfits
from ..support.stage import Stage
from .test_holding import held


async def allow(messages: list[Message]) -> GuardrailResult:
    return GuardrailResult(allowed=True)


@pytest.mark.parametrize("kind", [CALL_MODEL, JUDGE])
async def test_it_is_held_and_goes_on(stage: Stage, scripted: Scripted, kind: str) -> None:
    misfits, model = Misfits(kind), scripted([says("done")])
    async with stage.worker(interceptors=[misfits], guardrails={"slow": Guardrails(input=allow)}):
        run = await stage.start(scripted_agent(model), guardrails="slow", on_failure="fail")
        [why] = await held(run)
        assert (why.reason, why.kind, why.why) == ("server", "history", "it does not fit")
        misfits.is_broken = False
        await run.go_on()
        assert (await run.result()).output == "done"
    assert len(model.requests) == 1
