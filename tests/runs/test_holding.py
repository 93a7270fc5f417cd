"""A run for which waiting may help is held instead of failing, and goes on where it stood,
repeating nothing.
"""

from __future__ import annotations

import asyncio
import time

import pytest
from temporalio.client import Client

from perdure import GoOnError
from perdure.client import RunHandle
from perdure.client.sessions.session import setup_of
from perdure.errors import RunCancelled
from perdure.protocol.names import GO_ON
from perdure.protocol.outcome import Held
from perdure.protocol.search_attributes import STATUS
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import clear_tools

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from ..support.waiting import wait_for

LIMITED = ScriptedReply(status=429, headers={"retry-after": "0"})
REVOKED = ScriptedReply(status=401)


class Diary:
    """What tools have done."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    def look(self, text: str = "") -> str:
        self.executed.append(text)
        return f"seen {text}"


async def held(run: RunHandle) -> list[Held]:
    async def why() -> list[Held]:
        return (await run.status()).held

    return await wait_for(why)


async def shown(client: Client, run: RunHandle) -> str | None:
    return (await client.get_workflow_handle(run.id).describe()).typed_search_attributes.get(STATUS)


async def test_the_time_for_which_a_run_is_held_does_not_count(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([[REVOKED, asks("look")], says("done")])
    async with stage.worker({"look": Diary().look}):
        agent = scripted_agent(model, ["look"])
        run = await stage.start(agent, on_failure="hold", max_seconds=4.0)
        [why] = await held(run)
        await asyncio.sleep(why.since + 4.5 - time.time())
        await run.go_on()
        assert (await run.result()).output == "done"


async def test_a_failed_call_is_made_again_where_it_stood(stage: Stage, scripted: Scripted) -> None:
    diary = Diary()
    model = scripted([asks("look", text="here"), [LIMITED, REVOKED, says("done")]])
    async with stage.worker({"look": diary.look}):
        run = await stage.start(
            scripted_agent(model, ["look"]), on_failure="hold", rate_limit_seconds=0.0
        )
        [why] = await held(run)
        assert (why.reason, why.option, why.run_id) == ("rate_limit", None, None)
        assert ((await run.status()).status, await shown(stage.client, run)) == ("held", "held")
    async with stage.worker({"look": diary.look}):  # It survives its worker.
        await run.go_on(by="ann")
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 3)
        await held(run)
        await stage.client.get_workflow_handle(run.id).signal(GO_ON, {"by": "bob"})
        result = await run.result()
    assert (result.output, result.iterations, diary.executed) == ("done", 2, ["here"])
    assert [request.step for request in model.requests] == [0, 1, 1, 1]
    assert await shown(stage.client, run) == "done"
    events = [
        (event.type, event.data)
        for event in await run.events()
        if event.type in ("held", "went_on")
    ]
    assert [type for type, _ in events] == ["held", "went_on"] * 2
    assert [data["by"] for type, data in events if type == "went_on"] == ["ann", "bob"]


async def test_a_budget_is_raised(stage: Stage, scripted: Scripted, cli: Cli, address: str) -> None:
    diary, model = Diary(), scripted([asks("look"), asks("look"), says("done")])
    async with stage.worker({"look": diary.look}):
        run = await stage.start(
            scripted_agent(model, ["look"]), on_failure="hold", max_iterations=2
        )
        [why] = await held(run)
        assert (why.reason, why.kind, why.option) == ("budget", "max_iterations", "max_iterations")
        told = await cli("--address", address, "status", run.id)
        assert f"continue it: perdure go-on {run.id} --max-iterations …" in told.stdout
        for options, kind in (
            ({}, "budget"),
            ({"max_iterations": 2}, "budget"),
            ({"raw": True}, "options"),
        ):
            with pytest.raises(GoOnError) as refused:
                await run.go_on(options=options)
            assert refused.value.kind == kind
        await run.steer("be quick")
        await run.go_on(options={"max_iterations": 3})
        assert (await run.result()).output == "done"
        with pytest.raises(GoOnError) as refused:
            await run.go_on()
    assert refused.value.kind == "ended"
    assert [message.text for message in model.requests[-1].messages if message.role == "user"][
        -1
    ] == "be quick"


async def test_a_conversation_that_can_not_be_cut_further(stage: Stage, scripted: Scripted) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        results = [message for message in request.messages if message.role == "tool"]
        if len(results) > 1:
            return ScriptedReply(
                status=400, error={"error": {"message": "Input is too long for requested model."}}
            )
        return (
            says("done")
            if "c2" in str(request.body)
            else asks(call("look", f"c{len(results) + 1}"))
        )

    model = scripted(script)
    async with stage.worker({"look": Diary().look}):
        run = await stage.start(scripted_agent(model, ["look"]), on_failure="hold", keep_messages=5)
        [why] = await held(run)
        assert (why.reason, why.kind) == ("context", "execute")
        assert "its last 5 messages are always sent" in why.why
        await run.go_on(options={"keep_messages": 2})
        assert (await run.result()).output == "done"


async def test_only_the_call_whose_tool_is_missing_waits_for_it(
    stage: Stage, scripted: Scripted
) -> None:
    first, diary = Diary(), Diary()
    model = scripted(
        [[REVOKED, asks(call("look", text="a"), call("find", text="b"))], says("done")]
    )
    clear_tools()
    both = {"look": diary.look, "find": diary.look}
    async with stage.worker({"look": first.look}):
        run = await stage.start(
            scripted_agent(model, ["look", "find"]),
            **{"on_failure": "hold", "missing_tool_grace": 0.0, "parallel_tool_calls": True},
        )
        assert [each.reason for each in await held(run)] == ["tool"]
    async with stage.worker(both):
        await run.go_on()
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
        assert [each.reason for each in await held(run)] == ["credentials"]
    async with stage.worker({"look": first.look}):
        await run.go_on()
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 2)
        [why] = await held(run)
        assert (why.reason, why.kind) == ("tool", "tool_not_registered")
    async with stage.worker(both):
        await run.go_on()
        assert (await run.result()).output == "done"
    assert (first.executed, diary.executed, len(model.requests)) == (["a"], ["b"], 3)


async def test_a_held_run_can_be_cancelled(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([REVOKED])), on_failure="hold")
        await held(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert (await run.status()).held == []
    assert await shown(stage.client, run) == "cancelled"


async def test_another_model_is_called_where_the_workers_owner_holds_runs(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([[REVOKED, asks("look")], says("done")])
    async with stage.worker({"look": Diary().look}, on_failure="hold"):
        run = await stage.start(scripted_agent(model, ["look"]))
        await held(run)
        await run.go_on(model="other")
        assert (await run.result()).output == "done"
    assert [request.body["model"] for request in model.requests] == ["scripted", "other", "other"]
    [went_on] = [event.data for event in await run.events() if event.type == "went_on"]
    assert went_on["model"] == "openai/other"
    settings = [line["settings"] async for line in run.export() if "settings" in line]
    assert [each["model"] for each in settings] == ["scripted", "other", "other"]


def test_runs_that_nobody_waits_for_are_held(scripted: Scripted) -> None:
    said = scripted_agent(scripted([]), metadata={"perdure": {"onFailure": "fail"}})
    plain = scripted_agent(scripted([]))
    assert [setup_of(agent, None, None).options.on_failure for agent in (plain, said)] == [
        "hold",
        "fail",
    ]
    assert setup_of(plain, None, {"on_failure": "fail"}).options.on_failure == "fail"
