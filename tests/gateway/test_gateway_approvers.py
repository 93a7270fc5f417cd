"""Who may decide: what a gateway vouches for counts, and nothing else; every attempt without the
right fails.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from perdure.client import get_run
from perdure.errors import ApprovalError
from perdure.gateway.identity import TokenFile
from perdure.json_types import JsonObject, JsonView
from perdure.prompty.load import load
from perdure.protocol.names import APPROVAL, STEER, WORKFLOW
from perdure.protocol.run import CallApproval, RunInput
from perdure.protocol.search_attributes import TENANT
from perdure.protocol.signatures import VouchKeys
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import POLICY, Waits, declared, token, waiting_call, waiting_run
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage, replay_runs
from .conftest import Serve
from .test_own import pay

KEYS = VouchKeys.parse(f"k1:{'A' * 43}=")
OTHER_KEYS = VouchKeys.parse(f"k1:{'B' * 43}=")


@dataclass
class Forged:
    """A decision with a signature that does not hold."""

    name: str = "fay"
    tenant: str | None = "acme"
    roles: list[str] = field(default_factory=lambda: ["finance"])
    keys: VouchKeys = KEYS
    signed: JsonView = field(default_factory=dict)
    """Fields of the decision that was signed."""
    run: str = ""
    sent: JsonView = field(default_factory=dict)
    """Fields of the decision that is sent."""
    vouch: JsonView = field(default_factory=dict)
    """What is changed in the signature."""
    expected: str = "vouch"

    def decision(self, waits: Waits) -> CallApproval:
        signed = waits.decision(**self.signed)
        vouch = self.keys.sign_decision(
            self.name, self.tenant, self.roles, signed.subject(self.run or waits.origin)
        )
        return signed.model_copy(
            update={**self.sent, "vouch": vouch.model_copy(update=dict(self.vouch))}
        )


BY_GATEWAY: list[tuple[str, str, JsonObject, str]] = [
    ("ann", "approve", {}, "approval_not_entitled"),  # has started it
    ("ann", "approve", {"arguments": {"euros": 1}}, "approval_not_entitled"),
    ("ann", "deny", {"reason": "x"}, "approval_not_entitled"),
    ("erin", "approve", {}, "approval_not_entitled"),  # has said something to it
    ("erin", "deny", {"reason": "x"}, "approval_not_entitled"),
    ("bob", "approve", {}, "approval_not_entitled"),  # has another role
    ("bob", "deny", {"reason": "x"}, "approval_not_entitled"),
    ("carl", "approve", {}, "approval_not_entitled"),  # has none
    ("hal", "approve", {}, "approval_not_entitled"),  # reaches all runs, and has another role
    ("dora", "approve", {}, "not_found"),  # is of another tenant
    ("dora", "deny", {"reason": "x"}, "not_found"),
    ("fay", "approve", {"digest": "0" * 16}, "approval_stale"),
    ("fay", "approve", {"callId": "another"}, "approval_unknown"),
    ("fay", "answer", {"text": "yes"}, "approval_approval"),
    ("fay", "approve", {"by": "gus"}, "invalid"),
    ("fay", "approve", {"vouch": {"name": "gus"}}, "invalid"),
    ("nobody", "approve", {}, "unauthenticated"),
]
BY_HAND: list[Forged] = [
    Forged(keys=OTHER_KEYS),  # signed with another key of that id
    Forged(run="11111111-2222-3333-4444-555555555555"),  # signed for another run
    Forged(signed={"digest": "0" * 16}, expected="stale"),
    Forged(signed={"arguments": {"euros": 1}}, sent={"arguments": {"euros": 2}}),
    Forged(vouch={"name": "gus"}),
    Forged(name="dora", tenant="bolt", expected="not_entitled"),  # by another tenant's gateway
    Forged(name="ann", expected="not_entitled"),
    Forged(name="erin", expected="not_entitled"),
    Forged(roles=["Finance", "financ", "finance "], expected="not_entitled"),
]
CLAIMS: list[JsonObject] = [
    {"by": "fay"},
    {"by": "fay", "vouch": None},
    {"by": "fay", "vouched_by": [{"name": "gus"}], "approvers": [{"name": "gus"}]},
    {"by": "fay", "digest": None},
    {"approved": False, "reason": "x", "by": "fay"},
    {"arguments": {"euros": 1}, "by": "fay"},
]


async def test_nobody_decides_without_the_right(waits: Waits) -> None:
    handle = waits.client.get_workflow_handle(waits.run)
    attempts = 0
    for who, path, body, expected in BY_GATEWAY:
        attempts += 1
        assert (who, path, body, await waits.ask(who, path, **body)) == (who, path, body, expected)
    for forged in BY_HAND:
        attempts += 2
        decision = forged.decision(waits)
        assert (forged, await waits.update(decision)) == (forged, forged.expected)
        await handle.signal(APPROVAL, decision)
    for claim in CLAIMS:
        attempts += 2
        decision = {**waits.decision().model_dump(mode="json"), **claim}
        assert (claim, await waits.update(decision)) == (claim, "unvouched")
        await handle.signal(APPROVAL, decision)
    with pytest.raises(ApprovalError, match="could not be verified"):
        await get_run(waits.client, waits.run).approve(waits.pending.call_id, by="fay")
    [pending] = (await get_run(waits.client, waits.run).status()).pending_approvals
    assert pending == waits.pending
    assert attempts >= 35

    # One of two decides: again, and by what was recorded of it, she is still one.
    assert await waits.ask("fay") == ""
    assert await waits.ask("fay") == ""
    taken = [each async for each in recorded_decisions(waits)]
    assert len(taken) == 2
    assert await waits.update(taken[0]) == ""
    await handle.signal(APPROVAL, taken[1])
    [pending] = (await get_run(waits.client, waits.run).status()).pending_approvals
    assert [each.name for each in pending.votes] == ["fay"]
    assert await waits.ask("gus") == ""
    result = await get_run(waits.client, waits.run).result()
    assert result.output == "Paid."
    events = await get_run(waits.client, waits.run).events()
    [decided] = [each.data for each in events if each.type == "permission_completed"]
    assert [(each["name"], each["tenant"], each["key_id"]) for each in decided["vouched"]] == [
        ("fay", "acme", "k1"),
        ("gus", "acme", "k1"),
    ]
    assert decided["by"] == "fay, gus"
    votes = [each.data for each in events if each.type == "permission_vote"]
    assert [(each["vote"]["name"], each["votes"], each["count"]) for each in votes] == [
        ("fay", 1, 2)
    ]
    await replay_runs(waits.client, waits.run)


async def recorded_decisions(waits: Waits) -> AsyncIterator[CallApproval]:
    """The decisions that the history has, as anybody can read them who reads the history."""
    converter = waits.client.data_converter
    async for event in waits.client.get_workflow_handle(waits.run).fetch_history_events():
        request = event.workflow_execution_update_accepted_event_attributes.accepted_request
        for payload in request.input.args.payloads:
            [value] = await converter.decode([payload], [CallApproval])
            yield value


async def test_what_one_has_started_another_way_nobody_decides(
    scripted: Scripted, serve_agents: Serve, people: TokenFile, stage: Stage
) -> None:
    agent = scripted_agent(
        scripted([asks(call("pay", euros=3)), says("Not paid.")]), [declared(notRequester=True)]
    )
    async with serve_agents(agent, known=[people], tools={"pay": pay}) as served:
        run = await stage.start(agent, tenant="acme")
        async with served.asking(token("fay")) as http:
            await waiting_call(http, run.id)
        described = await stage.client.get_workflow_handle(run.id).describe()
        [pending] = (await run.status()).pending_approvals
        waits = Waits(served, stage.client, run.id, described.run_id, pending)
        assert await waits.ask("fay") == "approval_not_entitled"
        await run.cancel()
        told = [each.data["message"] for each in await run.events() if each.type == "status"]
    assert any("no gateway has verified its requesters" in text for text in told)


async def test_one_who_is_unknown_makes_all_unknown(waits: Waits) -> None:
    await waits.client.get_workflow_handle(waits.run).signal(STEER, {"text": "Pay.", "by": "fay"})
    assert await waits.ask("gus") == "approval_not_entitled"


async def test_in_a_session_and_in_a_called_run_the_same_have_asked(
    scripted: Scripted, serve_agents: Serve, people: TokenFile, stage: Stage, tmp_path: Path
) -> None:
    replies = {
        "desk": [says("Hello."), asks(call("clerk")), says("Done.")],
        "clerk": [asks(call("pay", euros=3)), says("Paid.")],
    }
    model = scripted(family_script(replies))
    write_agent(tmp_path, "clerk.prompty", model, tools=[declared(notRequester=True)])
    desk = load(write_agent(tmp_path, "desk.prompty", model, tools=[calls("clerk.prompty")]))
    async with serve_agents(desk, known=[people], tools={"pay": pay}) as served:
        session = f"acme:{served.gateway.task_queue}"
        for who, number in (("erin", 1), ("ann", 2)):
            async with served.asking(token(who)) as http:
                said = await http.post(
                    f"/sessions/{session}/messages", json={"text": "Pay it.", "agent": "desk"}
                )
                assert said.json()["run"] == f"{session}/{number}", said.text
                if who == "erin":
                    await http.get(f"/runs/{session}/1/result", params={"wait": 30})
        child = f"{session}/2/1-0"
        async with served.asking(token("fay")) as http:
            await waiting_call(http, child)
        described = await stage.client.get_workflow_handle(child).describe()
        [pending] = (await get_run(stage.client, child).status()).pending_approvals
        waits = Waits(served, stage.client, child, described.run_id, pending)
        assert await waits.ask("ann") == "approval_not_entitled"
        assert await waits.ask("erin") == "approval_not_entitled"
        # A run of one's own with the requesters of that one: its signature is of another run.
        stolen = await started_with_requesters_of(waits, stage)
        assert await stolen.ask("fay") == "approval_not_entitled"
        assert await waits.ask("fay") == ""
        assert (await get_run(stage.client, f"{session}/2").result()).output == "Done."
        await get_run(stage.client, stolen.run).cancel()
        await replay_runs(stage.client, f"{session}/2", child)


async def started_with_requesters_of(waits: Waits, stage: Stage) -> Waits:
    """A run that somebody has started by hand, as if those had asked for it who have asked for the
    other one.
    """
    input = await recorded_input(stage.client, waits.run)
    assert input.requested_by is not None
    assert input.requested_by.names == ["ann", "erin"]
    id = f"stolen-{uuid.uuid4()}"
    handle = await stage.client.start_workflow(
        WORKFLOW,
        input.model_copy(update={"lineage": None, "search_attributes": []}),
        id=id,
        task_queue=stage.task_queue,
        search_attributes=TypedSearchAttributes([SearchAttributePair(TENANT, "acme")]),
    )
    while not (pending := (await get_run(stage.client, id).status()).pending_approvals):
        await asyncio.sleep(0.05)
    return Waits(waits.served, stage.client, id, handle.first_execution_run_id or "", pending[0])


async def recorded_input(client: Client, run: str) -> RunInput:
    async for event in client.get_workflow_handle(run).fetch_history_events():
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        [input] = await client.data_converter.decode(payloads, [RunInput])
        return input
    raise AssertionError(run)


async def test_votes_outlive_worker_and_gateway(
    scripted: Scripted, serve_agents: Serve, people: TokenFile, stage: Stage
) -> None:
    agent = scripted_agent(
        scripted([asks(call("pay", euros=3)), says("Paid.")]), [declared(**POLICY)]
    )
    async with serve_agents(agent, known=[people], tools={"pay": pay}) as served:
        waits = await waiting_run(served, stage.client)
        assert await waits.ask("fay", arguments={"euros": 2}) == ""
    async with serve_agents(agent, known=[people], tools={"pay": pay}) as served:
        waits.served = served
        assert await waits.ask("fay", arguments={"euros": 2}) == ""
        assert await waits.ask("ann") == "approval_not_entitled"
        assert await waits.ask("gus") == ""  # approves other arguments than fay
        [pending] = (await get_run(stage.client, waits.run).status()).pending_approvals
        assert [(each.name, each.arguments) for each in pending.votes] == [
            ("fay", {"euros": 2}),
            ("gus", None),
        ]
        assert await waits.ask("gus", arguments={"euros": 2}) == ""
        assert (await get_run(stage.client, waits.run).result()).output == "Paid."
        [done] = [
            each.data
            for each in await get_run(stage.client, waits.run).events()
            if each.type == "tool_result"
        ]
    assert done["result"].endswith("\npaid 2")
    await replay_runs(stage.client, waits.run)
