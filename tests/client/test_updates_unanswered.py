"""A decision that can't be taken is refused or unconfirmed with what stands in the way; the call
goes on waiting.
"""

from __future__ import annotations

import pytest

from perdure import GuardrailResult, Guardrails
from perdure.client.updates import decide
from perdure.history.chain import Chain
from perdure.json_types import JsonObject
from perdure.protocol.names import APPROVAL
from perdure.protocol.run import CallApproval
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for
from .test_updates import PAY, paid, pay, refused, waiting

EDITED = CallApproval(call_id="call_pay", approved=True, arguments={"amount": 5}, id="edited")


def cap(name: str, arguments: JsonObject) -> GuardrailResult:
    return GuardrailResult(allowed=True)


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def test_edited_arguments_that_no_worker_can_judge(
    stage: Stage,
    scripted: Scripted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def dropped() -> bool:
        return "an approval was dropped" in caplog.text

    hooks = {"cap": Guardrails(tool=cap)}
    model = scripted([asks(call("pay", amount=7)), says("done")])
    async with stage.worker([pay], guardrails=hooks):
        run = await stage.start(
            scripted_agent(model, [PAY]), guardrails="cap", missing_tool_grace=0.2
        )
        pending = await waiting(run)
    async with stage.worker([pay]):
        text = await refused(run.approve("call_pay", arguments={"amount": 5}), "guardrail")
        assert "can't be asked: no guardrails named 'cap'" in text
        await stage.client.get_workflow_handle(run.id).signal(APPROVAL, EDITED)
        await wait_for(dropped)
        assert (await waiting(run)).digest == pending.digest
    async with stage.worker([pay], guardrails=hooks):
        await run.approve("call_pay", arguments={"amount": 5})
        assert (await run.result()).output == "done"
    assert paid == [5]


async def test_an_unconfirmed_decision_says_what_the_run_waits_for(
    stage: Stage, scripted: Scripted
) -> None:
    hooks = {"cap": Guardrails(tool=cap)}
    model = scripted([asks(call("pay", amount=7)), says("done")])
    async with stage.worker([pay], guardrails=hooks):
        run = await stage.start(scripted_agent(model, [PAY]), guardrails="cap")
        await waiting(run)
    chain = Chain(stage.client, run.id)
    async with stage.worker([pay]):
        text = await refused(decide(chain, EDITED, patience=1), "unconfirmed")
        assert (
            f"still waits for a worker of the task queue {stage.task_queue!r} that has guardrails "
            "'cap'" in text
        )
        async with stage.another_worker([pay], guardrails=hooks):
            await decide(chain, EDITED)
            await run.result()
    assert paid == [5]
