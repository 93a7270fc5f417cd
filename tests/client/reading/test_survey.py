"""What `perdure show` tells of a run, put together from its histories alone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from temporalio.client import Client

from perdure import load
from perdure.cli.console import describe_seconds
from perdure.cli.server_connection import ServerConnection
from perdure.cli.show import in_lines, summary
from perdure.client import RunHandle
from perdure.client.reading.survey import survey
from perdure.history.chain import Chain
from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says
from perdure.text import count_of
from perdure.tool_calls import PendingApproval
from perdure.tools import clear_tools, tool
from tests.support.agents import Scripted, scripted_agent
from tests.support.families import calls, family_script, takes, write_agent
from tests.support.stage import Stage
from tests.support.waiting import asked, wait_for


def note(text: str = "") -> str:
    if text == "bad":
        raise ValueError("no such thing")
    return f"noted {text}"


@tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


async def lines_of(client: Client, run: RunHandle) -> list[str]:
    return list(in_lines(await summary(ServerConnection(client, None), run)))


async def test_what_workers_refuse_is_no_attempt_and_a_hold_is_no_activity(
    stage: Stage, scripted: Scripted
) -> None:
    """In `show`, and in the trace."""
    model = scripted([asks(call("pay", amount=7)), [ScriptedReply(status=401), says("all done")]])
    agent = scripted_agent(
        model,
        [
            {
                "name": "pay",
                "kind": "function",
                "parameters": [{"name": "amount", "kind": "integer"}],
            }
        ],
    )
    clear_tools()
    async with stage.worker([pay]):
        run = await stage.start(agent, on_failure="hold")
        [pending] = await wait_for(lambda: waiting(run))
    async with stage.worker():
        await run.approve(pending.call_id, digest=pending.digest)
        await wait_for(lambda: lacks_a_tool(run))
        async with stage.another_worker([pay]):
            await wait_for(lambda: is_held(run))
            await run.go_on()
            await run.result()
    found = await survey(Chain(stage.client, run.id))
    [paid] = found.iterations[0].tools
    assert (paid.attempts, paid.refusals > 0, paid.outcome) == (1, True, "success")
    held = found.iterations[1].held
    assert 0 < held < sum(until - since for since, until in found.waits)
    lines = await lines_of(stage.client, run)
    assert any(
        f"{count_of(paid.refusals, 'refusal')} by workers without it" in line for line in lines
    ), lines
    assert any(f"held {describe_seconds(held)}" in line for line in lines), lines
    spans = {span.name: span for span in await run.trace()}
    attributes = spans["execute_tool pay"].attributes or {}
    assert "perdure.attempt" not in attributes
    assert attributes["perdure.refusals"]
    assert [event.name for event in spans["execute_tool pay"].events] == ["refused"]
    assert (spans["wait held"].attributes or {})["perdure.wait.reason"] == "credentials"


async def waiting(run: RunHandle) -> list[PendingApproval]:
    return (await run.status()).pending_approvals


async def lacks_a_tool(run: RunHandle) -> bool:
    return (await run.status()).missing is not None


async def is_held(run: RunHandle) -> bool:
    return (await run.status()).status == "held"


async def test_tools_tries_and_what_persons_decide(stage: Stage, scripted: Scripted) -> None:
    def script(request: object) -> ScriptedReply:
        step, attempt = request.step, request.attempt  # type: ignore[attr-defined]
        if step == 0:
            return asks(call("note", "a", text="good"), call("note", "b", text="bad"))
        if step == 1:
            return asks(call("pay", "c", amount=7), call("pay", "d", amount=8))
        return ScriptedReply(status=503) if attempt == 1 else says("all done")

    tools = [
        "note",
        {"name": "pay", "kind": "function", "parameters": [{"name": "amount", "kind": "integer"}]},
    ]
    async with stage.worker([note, pay]):
        run = await stage.start(scripted_agent(scripted(script), tools), parallel_tool_calls=True)

        async def both() -> bool:
            return len((await run.status()).pending_approvals) == 2

        await wait_for(both)
        waiting = await lines_of(stage.client, run)
        await run.steer("be quick")
        await run.approve("c", by="ann")
        await run.deny("d", "too much", by="bo")
        await run.result()
    assert waiting[-1].endswith(
        "… pay(amount=7) waits for a person; … pay(amount=8) waits for a person"
    )

    second_json = (await summary(ServerConnection(stage.client, None), run))["iterations"][1]
    assert [tool["arguments"] for tool in second_json["tools"]] == [{"amount": 7}, {"amount": 8}]
    assert datetime.fromisoformat(second_json["started"]).tzinfo
    lines = await lines_of(stage.client, run)
    first, second, third = (
        next(line for line in lines if line.startswith(f"  {n}  scripted")) for n in (1, 2, 3)
    )
    assert '✓ note(text="good")' in first
    assert '; ✗ note(text="bad") failed' in first
    assert "approved by ann (claimed) after" in second
    assert "✗ pay(amount=8) denied by bo (claimed): too much after" in second
    assert "2 tries (overloaded: " in third
    assert "1 steering message read" in third
    assert lines[-1] == third


async def test_called_agents(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    replies = {
        "chief": [asks(call("clerk", "c1", topic="bees")), says("so be it")],
        "clerk": [asks(call("note", "n1", text="wax")), says("wax it is")],
    }
    model = scripted(family_script(replies))
    inner = {"name": "note", "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}
    write_agent(
        tmp_path,
        "clerk.prompty",
        model,
        tools=[inner],
        inputs=takes("topic"),
        prompt="user:\n{{topic}}",
    )
    chief = load(
        write_agent(
            tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")], prompt="user:\nGo."
        )
    )
    async with stage.worker([note]):
        run = await stage.start(chief, [Message.user("Go.")])
        await run.result()
    [first, _] = (await lines_of(stage.client, run))[-2:]
    assert '✓ clerk(topic="bees")' in first
    assert f"run {run.id}/1-0 (2 iterations, " in first


async def test_nothing_is_under_way_in_a_run_that_was_terminated(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(
        [asks(call("note", "a", text="good"), call("pay", "b", amount=7)), says("never")]
    )
    async with stage.worker({"note": note, "pay": pay}):
        declared = {
            "name": "pay",
            "kind": "function",
            "parameters": [{"name": "amount", "kind": "integer"}],
        }
        run = await stage.start(scripted_agent(model, ["note", declared]))

        await asked(run)
        assert any("waits for a person" in line for line in await lines_of(stage.client, run))
        await stage.client.get_workflow_handle(run.id).terminate("enough")
        lines = await lines_of(stage.client, run)
    assert not (await run.status()).pending_approvals
    assert not any(line.startswith("waits") for line in lines)
    assert "✗ pay(amount=7) never executed" in lines[-1]
