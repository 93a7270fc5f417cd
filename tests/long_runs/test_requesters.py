"""Who has asked for a run is known in each of its links, and for no other chain of links."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from temporalio.client import Client

from perdure import ApprovalError
from perdure.client import RunHandle, get_run, start_run
from perdure.protocol.names import WORKFLOW
from perdure.protocol.run import RunInput
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.tools import tool
from perdure.vouching import Voucher

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
KEYS = f"k1:{'A' * 43}="
ROUNDS = 8


@tool
def look(text: str) -> str:
    """Look."""
    return text


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def person(name: str) -> Voucher:
    return Voucher(name, roles={"finance"})


async def last_input(client: Client, id: str) -> RunInput:
    async for event in client.get_workflow_handle(id).fetch_history_events():
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        [input] = await client.data_converter.decode(payloads, [RunInput])
        return input
    raise AssertionError(id)


async def refusal_of(client: Client, id: str, who: str) -> str:
    run = get_run(client, id, voucher=person(who))
    [pending] = (await run.status()).pending_approvals
    try:
        await run.approve("p1", digest=pending.digest)
    except ApprovalError as error:
        return error.kind
    return ""


async def waits(run: RunHandle) -> bool:
    return bool((await run.status()).pending_approvals)


async def test_requesters_of_a_long_run(stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_VOUCH_KEY", KEYS)
    declared = {
        "name": "pay",
        "kind": "function",
        "parameters": [{"name": "euros", "kind": "integer", "required": True}],
        "perdure": {"approval": {"by": ["finance"], "notRequester": True}},
    }
    steps = [asks(call("look", f"c{number}", text="x" * 400)) for number in range(ROUNDS)]
    script = [*steps, asks(call("pay", "p1", euros=3)), says("Paid.")]
    agent = scripted_agent(scripted(script), ["look", declared])
    async with stage.worker([look, pay]):
        run = await start_run(stage.client, agent, task_queue=stage.task_queue, voucher=person("ann"))
        await wait_for(lambda: waits(run))
        input = await last_input(stage.client, run.id)
        assert input.carried is not None
        assert input.carried.links > 1, "it goes on in a later link"

        assert await refusal_of(stage.client, run.id, "ann") == "not_entitled"

        # A run of somebody who may start workflows, with the state of that link and what it has signed.
        stolen = f"stolen-{uuid.uuid4()}"
        forged = input.model_copy(update={"search_attributes": []})
        await stage.client.start_workflow(WORKFLOW, forged, id=stolen, task_queue=stage.task_queue)
        theirs = get_run(stage.client, stolen)
        await wait_for(lambda: waits(theirs))
        assert await refusal_of(stage.client, stolen, "fay") == "not_entitled"
        await theirs.cancel()

        assert await refusal_of(stage.client, run.id, "fay") == ""
        assert (await run.result()).output == "Paid."
