"""Other agents as tools, end to end: one call, two levels, many at once, and what goes wrong in
them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure import ApprovalError, RunCancelled, RunError
from perdure.agents import Agent
from perdure.client import RunHandle, RunOptions, get_run, start_run
from perdure.events import RunEvent
from perdure.history.link import read_input
from perdure.messages import Message
from perdure.prompty.load import load
from perdure.protocol.outcome import RunStatus
from perdure.protocol.search_attributes import ORIGIN
from perdure.testing import InProcessRun, ScriptedReply, asks, call, says

from ..support.agents import Scripted, tool_texts
from ..support.families import calls, family_script, takes, write_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT
from ..support.waiting import wait_for, wait_until


async def child_of(stage: Stage, run: RunHandle, place: str) -> RunHandle:
    child: RunHandle = get_run(stage.client, f"{run.id}/{place}")
    stage.runs.append(child)
    return child


async def origin(stage: Stage, run: RunHandle) -> str | None:
    described = await stage.client.get_workflow_handle(run.id).describe()
    return described.typed_search_attributes.get(ORIGIN)


async def test_two_levels_deep(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    model = scripted(
        family_script(
            {
                "chief": [asks(call("clerk", topic="ships")), says("Ships float.")],
                "clerk": [asks(call("reader", page=3)), says("They float, says page 3.")],
                "reader": [says("Page 3: wood floats.", input_tokens=5, output_tokens=2)],
            }
        )
    )
    chief = write_agent(
        tmp_path,
        "chief.prompty",
        model,
        tools=[calls("team/clerk.prompty", description="Asks a clerk.")],
    )
    write_agent(
        tmp_path,
        "team/clerk.prompty",
        model,
        tools=[{**calls("../books/reader.prompty"), "mode": "single"}],
        inputs=takes("topic"),
        prompt="system:\nYou are a clerk.\n\nuser:\nAbout {{topic}}.",
    )
    write_agent(
        tmp_path,
        "books/reader.prompty",
        model,
        tools=[calls("gone.prompty")],
        description="Reads a page.",
        inputs=[{"name": "page", "kind": "integer", "required": True}],
        prompt="user:\nRead page {{page}}.",
    )
    async with stage.worker():
        run = await stage.start(load(chief))
        result = await run.result()
    assert result.output == "Ships float."
    assert tool_texts(result.messages) == ["They float, says page 3."]
    clerk = await child_of(stage, run, "1-0")
    assert tool_texts(await clerk.messages()) == ["Page 3: wood floats."]
    assert [await origin(stage, each) for each in (run, clerk)] == ["direct", run.id]
    assert [message.text for message in await clerk.messages()][:2] == [
        "You are a clerk.",
        "About ships.",
    ]
    reader = await child_of(stage, clerk, "1-0")
    assert (await reader.messages())[0].text == "Read page 3."
    asked = {request.body["model"]: request.body for request in model.requests}
    assert asked["chief"]["tools"][0]["function"] == {
        "name": "clerk",
        "description": "Asks a clerk.",
        "parameters": {
            "type": "object",
            "properties": {"topic": {"type": "string"}},
            "required": ["topic"],
            "additionalProperties": False,
        },
    }
    assert asked["clerk"]["tools"][0]["function"]["description"] == "Reads a page."
    assert not asked["reader"].get("tools")


def shown(events: list[RunEvent], of: RunHandle) -> list[str]:
    """What happens where, without the clock."""
    return [f"{(event.run_id or of.id).removeprefix(of.id)} {event.type}" for event in events]


async def test_events_of_called_runs_are_read_through_their_caller(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    both = asks(call("clerk", "a", topic="x"), call("clerk", "b", topic="y"))
    model = scripted(
        family_script(
            {
                "chief": [both, asks(call("clerk", "a", topic="z")), says("done")],
                "clerk": [asks(call("reader")), says("read")],
                "reader": [says("a page")],
            }
        )
    )
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(
        tmp_path, "clerk.prompty", model, tools=[calls("reader.prompty")], inputs=takes("topic")
    )
    write_agent(tmp_path, "reader.prompty", model)
    async with stage.worker():
        run = await stage.start(load(chief), parallel_tool_calls=True)
        live = [event async for event in run.stream(children=True)]
        await run.result()
    events = await run.events(children=True)
    told = shown(events, run)
    assert sorted(told) == sorted(shown(live, run))
    assert [each for each in told if each.startswith(" ")] == shown(await run.events(), run)
    for place in ("/1-0", "/1-1", "/2-0", "/1-0/1-0", "/2-0/1-0"):
        own = [f"{place} {event.type}" for event in await run.called(f"{run.id}{place}").events()]
        assert [each for each in told if each.startswith(f"{place} ")] == own
        assert [each for each in shown(live, run) if each.startswith(f"{place} ")] == own
    assert (events[-1].type, live[-1].type) == ("done", "done")
    for number in range(3, len(events), 14):
        rest = await run.events(events[number].position, children=True)
        assert shown(rest, run) == told[number + 1 :], events[number].position
    for position in ("x", "3(", "3(1-0)", "3(x=1)", "3(1-0=(2)", "3(1-0=1,)", "3)1("):
        with pytest.raises(ValueError, match="position"):
            await run.events(position, children=True)
    for number in (17, len(live) - 1):
        rest = [each async for each in run.stream(live[number].position, children=True)]
        assert sorted(shown(rest, run)) == sorted(shown(live, run)[number + 1 :])


async def test_twenty_agents_share_one_budget(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    crowd = [call("clerk", f"c{n}", topic=str(n)) for n in range(20)]
    model = scripted(
        family_script(
            {
                "chief": [
                    asks(*crowd, input_tokens=100, output_tokens=0),
                    says("never", input_tokens=1, output_tokens=0),
                ],
                "clerk": lambda request: asks(call("look"), input_tokens=50, output_tokens=0),
            }
        )
    )
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    look = {"name": "look", "kind": "function", "parameters": []}
    write_agent(tmp_path, "clerk.prompty", model, tools=[look], inputs=takes("topic"))

    async def looked() -> str:
        return "nothing"

    async with stage.worker({"look": looked}):
        run = await stage.start(load(chief), parallel_tool_calls=True, max_total_tokens=2100)
        with pytest.raises(RunError, match=r"max_total_tokens \(2100\) reached") as failed:
            await run.result()
        status = await run.status()
    # Each of them had 100 tokens: two model calls.
    assert len([each for each in model.requests if each.body["model"] == "clerk"]) == 40
    assert status.usage.total_tokens == 2100
    assert len(tool_texts(failed.value.messages)) == 20
    for text in tool_texts(failed.value.messages):
        assert text.startswith(
            "Error: Tool 'clerk' failed: limit_exceeded: Budget exhausted: max_total_tokens (100)"
        )


async def test_what_goes_wrong_in_an_agent_is_an_error_result(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted(
        family_script(
            {
                "chief": [
                    asks(
                        call("clerk", "1", topic="x"),
                        call("clerk", "2", topic=5),
                        call("slow", "3"),
                        call("typed", "4"),
                    ),
                    says("done"),
                ],
                "clerk": [ScriptedReply(status=400, error={"error": {"message": "bad words"}})],
                "slow": [says("late", delay=30)],
                "typed": [says('{"n": 1}')],
            }
        )
    )
    tools = [
        calls("clerk.prompty"),
        calls("slow.prompty", perdure={"timeout": 0.3}),
        calls("typed.prompty"),
    ]
    chief = write_agent(tmp_path, "chief.prompty", model, tools=tools)
    write_agent(tmp_path, "clerk.prompty", model, inputs=takes("topic"))
    write_agent(tmp_path, "slow.prompty", model)
    write_agent(tmp_path, "typed.prompty", model, outputs=[{"name": "n", "kind": "integer"}])
    async with stage.worker(prices={"openai/*": {"input": 0, "output": 1}}):
        run = await stage.start(load(chief), parallel_tool_calls=True)
        result = await run.result()
        slow = await stage.client.get_workflow_handle(f"{run.id}/1-2").describe()
    failed, unfit, late, typed = tool_texts(result.messages)
    assert failed.startswith("Error: Tool 'clerk' failed: execute: ")
    assert "bad words" in failed
    assert unfit == "Error: Invalid arguments for tool 'clerk': 'topic' must be string, got 5"
    assert late == f"Error: Tool 'slow' failed: timed out after 0.3 seconds{FIND_OUT}"
    assert typed == '{"n":1}'
    assert slow.status == WorkflowExecutionStatus.CANCELED
    assert result.unpriced_calls == 1, "it has not told what it has cost"
    assert result.cost_usd
    assert [(await run.tool_result(each)).text for each in ("1", "2", "3", "4")] == [
        failed,
        unfit,
        late,
        typed,
    ]
    statuses = [
        message.metadata.get("status") for message in result.messages if message.role == "tool"
    ]
    assert statuses == ["error", "error", "timeout", None]


async def test_delegates_take_a_task(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    model = scripted(
        family_script(
            {
                "chief": [asks(call("delegate_to_clerk", task="Count ships.")), says("3")],
                "clerk": [says("three " * 50_000, delay=1.2)],
            }
        )
    )
    agents = [{"name": "clerk", "path": "clerk.prompty", "description": "Counts."}]
    chief = write_agent(tmp_path, "chief.prompty", model, metadata={"perdure": {"agents": agents}})
    write_agent(tmp_path, "clerk.prompty", model)
    async with stage.worker():
        # The time-out of functions is not for agents.
        options = RunOptions(tool_timeout=1.0)
        run = await start_run(stage.client, chief, task_queue=stage.task_queue, options=options)
        result = await run.result()
        clerk = await child_of(stage, run, "1-0")
        whole = await run.tool_result("call_delegate_to_clerk")
    [shown_text] = tool_texts(result.messages)
    assert (shown_text[:11], 64_000 < len(shown_text) < 67_000, len(whole.text)) == (
        "three three",
        True,
        300_000,
    )
    assert [(each.role, each.text) for each in (await clerk.messages())[:2]] == [
        ("system", "You are clerk."),
        ("user", "Count ships."),
    ]
    [offered] = model.requests[0].body["tools"]
    assert offered["function"]["description"] == "Counts."
    assert list(offered["function"]["parameters"]["properties"]) == ["task"]


async def test_an_approval_waits_in_the_called_run(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted(
        family_script(
            {
                "chief": [asks(call("clerk")), says("done")],
                "clerk": [asks(call("pay", amount=5)), says("paid")],
            }
        )
    )
    pay = {
        "name": "pay",
        "kind": "function",
        "parameters": [{"name": "amount", "kind": "integer"}],
        "perdure": {"approval": "always"},
    }
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model, tools=[pay])
    async with stage.worker({"pay": lambda amount=0: f"paid {amount}"}):
        run = await stage.start(load(chief))

        async def waiting() -> RunStatus | None:
            status = await run.status()
            return status if status.pending_approvals else None

        status = await wait_for(waiting)
        [pending] = status.pending_approvals
        assert status.status == "waiting_for_approval"
        assert pending.run_id == f"{run.id}/1-0"
        with pytest.raises(
            ApprovalError, match=f"waits in the run '{pending.run_id}', which this one has called"
        ) as no:
            await run.approve(pending.call_id)
        assert (
            f"perdure approve {pending.run_id} {pending.call_id} --digest {pending.digest}"
            in str(no.value)
        )
        assert no.value.pending == [pending]
        await run.called(pending.run_id).approve(pending.call_id, digest=pending.digest)
        assert (await run.result()).output == "done"
    assert (await run.status()).pending_approvals == []


async def test_a_file_that_only_the_worker_has_is_read_once(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted(
        family_script(
            {
                "chief": [asks(call("clerk", "1")), asks(call("clerk", "2")), says("done")],
                "clerk": [says("first")],
            }
        )
    )
    here, there = tmp_path / "here", tmp_path / "there"
    chief = write_agent(here, "chief.prompty", model, tools=[calls("team/clerk.prompty")])
    clerk = write_agent(there, "team/clerk.prompty", model, prompt="system:\nThe first edition.")

    async def edited() -> None:
        clerk.write_text("gone")

    async with stage.worker(prompt_root=there):
        run = await stage.start(load(chief))
        async for event in run.stream():
            if event.type == "llm_start":
                await edited()
        result = await run.result()
    assert tool_texts(result.messages) == ["first", "first"]
    assert (await (await child_of(stage, run, "2-0")).messages())[0].text == "The first edition."
    async with stage.worker(prompt_root=here):
        lost = await stage.start(load(chief), missing_tool_grace=0)
        with pytest.raises(
            RunError,
            match=r"'team/clerk\.prompty' was not there when the run was started, nor under",
        ):
            await lost.result()


async def test_a_called_agent_has_the_settings_of_its_own_file_and_ends_with_its_caller(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    """The caller leaves its tools no time after a cancellation, nor do those that it has called."""
    gate = Gate()
    model = scripted(family_script({"chief": [asks(call("clerk"))], "clerk": [asks(call("gate"))]}))
    chief = write_agent(
        tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")], metadata={"octopus": {}}
    )
    own = {"perdure": {"maxIterations": 4, "cancelGrace": 60}}
    write_agent(
        tmp_path, "clerk.prompty", model, tools=[{"name": "gate", "kind": "function"}], metadata=own
    )
    async with stage.worker({"gate": gate}):
        run = await stage.start(load(chief))
        await gate.reached.wait()
        await run.cancel()
        with pytest.raises(RunCancelled) as cancelled:
            await asyncio.wait_for(run.result(), 20)
    assert tool_texts(cancelled.value.messages) == [f"[cancelled]{FIND_OUT}"]
    assert gate.left == 0
    handle = stage.client.get_workflow_handle(f"{run.id}/1-0")
    options = (await read_input(stage.client, handle.id, (await handle.describe()).run_id)).options
    said = (
        options.max_iterations,
        options.cancel_grace,
        options.on_limit,
        options.parallel_tool_calls,
    )
    assert said == (4, 0.0, "raise", False)


async def test_in_this_process_too(tmp_path: Path) -> None:
    bound = calls("clerk.prompty", bindings={"for": {"input": "tenant"}})
    chief = write_agent(tmp_path, "chief.prompty", tools=[bound], inputs=takes("tenant"))
    reader = {**calls("reader.prompty"), "mode": "single"}
    write_agent(
        tmp_path,
        "clerk.prompty",
        tools=[reader],
        inputs=takes("topic", "for"),
        prompt="user:\n{{topic}} for {{for}}",
    )
    write_agent(tmp_path, "reader.prompty")
    scripts = {
        "chief": [
            asks(call("clerk", **{"topic": "x", "for": "wrong"}), input_tokens=1, output_tokens=0),
            says("done"),
        ],
        "clerk": [asks(call("reader"), input_tokens=2, output_tokens=0), says("read")],
        "reader": [says("a page", input_tokens=4, output_tokens=0)],
    }

    def model(agent: Agent, messages: list[Message]) -> ScriptedReply:
        asked.setdefault(agent.name, messages[-1].text)
        return scripts[agent.name][sum(message.role == "assistant" for message in messages)]

    events, asked = list[str](), dict[str, str]()
    result = await InProcessRun(
        chief,
        inputs={"tenant": "acme"},
        model=model,
        on_event=lambda type, data: events.append(type),
    ).run()
    assert result.output == "done"
    assert asked["clerk"] == "x for acme"
    assert tool_texts(result.messages) == ["read"]
    assert result.usage.total_tokens == 7
    assert "child_started" in events
    refused = await InProcessRun(
        chief, inputs={"tenant": "acme"}, model=model, options=RunOptions(max_depth=0)
    ).run()
    assert "0 levels deep" in tool_texts(refused.messages)[0]


async def test_a_single_call_is_sent_its_whole_prompt(tmp_path: Path) -> None:
    """§13.3: nothing is trimmed outside of a loop."""
    chief = write_agent(
        tmp_path, "chief.prompty", tools=[{**calls("reader.prompty"), "mode": "single"}]
    )
    examples = "".join(
        f"user:\n{number}{'?' * 500}\n\nassistant:\n{number}\n\n" for number in range(3)
    )
    write_agent(
        tmp_path,
        "reader.prompty",
        prompt=f"{examples}user:\nNow?",
        metadata={"perdure": {"contextBudget": 1000}},
    )
    sent: list[list[Message]] = []

    def model(agent: Agent, messages: list[Message]) -> ScriptedReply:
        if agent.name == "chief":
            return says("done") if messages[-1].role == "tool" else asks(call("reader"))
        sent.append(messages)
        return says("a page")

    await InProcessRun(chief, model=model, options=RunOptions(context_budget=900)).run()
    assert [message.text for message in sent[0]][-1] == "Now?"
    assert len(sent[0]) == 7


async def test_a_terminated_run_leaves_no_called_one_behind(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted(
        family_script({"chief": [asks(call("clerk"))], "clerk": [says("late", delay=30)]})
    )
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model)
    async with stage.worker():
        run = await stage.start(load(chief))
        await wait_until(lambda: len(model.requests) == 2)
        await stage.client.get_workflow_handle(run.id).terminate("enough")
        with pytest.raises(RunCancelled):
            await run.called(f"{run.id}/1-0").result()
        told = [event async for event in run.stream(children=True)]
    assert (told[-1].type, told[-1].run_id) == ("failed", None)
