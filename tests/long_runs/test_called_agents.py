"""Runs that call other agents, on a server that suggests continue-as-new after 40 events."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure import RunCancelled
from perdure.prompty.load import load
from perdure.testing import asks, call, says

from ..support.agents import Scripted, tool_texts
from ..support.comparison import links
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT
from ..support.waiting import wait_for

SHOUT = {"name": "shout", "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}
ROUNDS = 8


def shout(text: str = "") -> str:
    return text.upper()


async def test_both_continue_as_new_and_nothing_is_lost(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    rounds = [
        asks(call("shout", f"s{n}", text=f"round {n}"), input_tokens=1, output_tokens=0)
        for n in range(ROUNDS)
    ]
    script = {
        "chief": [
            *(
                asks(call("clerk", f"c{n}", number=n), input_tokens=10, output_tokens=0)
                for n in range(4)
            ),
            says("done", input_tokens=10, output_tokens=0),
        ],
        "clerk": [*rounds, says("shouted", input_tokens=1, output_tokens=0)],
    }
    model = scripted(family_script(script))
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    number = [{"name": "number", "kind": "integer", "required": True}]
    write_agent(
        tmp_path,
        "clerk.prompty",
        model,
        tools=[SHOUT],
        inputs=number,
        prompt="user:\nClerk {{number}}",
    )
    async with stage.worker([shout]):
        run = await stage.start(load(chief), max_iterations=20)
        live = [event async for event in run.stream(children=True)]
        result = await run.result()
        read = await run.events(children=True)
    assert tool_texts(result.messages) == ["shouted"] * 4
    assert result.usage.total_tokens == 5 * 10 + 4 * (ROUNDS + 1)
    assert len(await links(stage.client, run.id)) > 1
    assert [(event.run_id, event.seq) for event in live] == [
        (event.run_id, event.seq) for event in read
    ]
    for n in range(1, 5):
        clerk = run.called(f"{run.id}/{n}-0")
        assert len(await links(stage.client, clerk.id)) > 1
        shouted = tool_texts(await clerk.messages())
        assert shouted == [f"ROUND {n}" for n in range(ROUNDS)]
        seen = [event.seq for event in live if event.run_id == clerk.id]
        assert seen == list(range(1, len(seen) + 1))
    assert [each.body["model"] for each in model.requests].count("clerk") == 4 * (ROUNDS + 1)


async def test_cancelling_reaches_an_agent_that_has_continued_as_new(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    rounds = [asks(call("shout", f"s{n}", text=f"round {n}")) for n in range(ROUNDS)]
    model = scripted(
        family_script({"chief": [asks(call("clerk"))], "clerk": [*rounds, says("late", delay=30)]})
    )
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model, tools=[SHOUT])
    async with stage.worker([shout]):
        run = await stage.start(load(chief), max_iterations=20)

        async def far() -> bool:
            return len(model.requests) == 1 + ROUNDS + 1

        await wait_for(far)
        assert len(await links(stage.client, f"{run.id}/1-0")) > 1
        await run.cancel("enough")
        with pytest.raises(RunCancelled) as cancelled:
            await run.result()
        described = await stage.client.get_workflow_handle(f"{run.id}/1-0").describe()
    assert described.status == WorkflowExecutionStatus.CANCELED
    told = tool_texts(cancelled.value.messages)
    assert told == [f"[cancelled]{FIND_OUT}"]
    assert model.requests[-1].aborted


async def test_the_depth_is_that_of_the_whole_family(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    family = ["chief", "clerk", "intern", "page"]
    replies = {name: [asks(call(below)), says("done")] for name, below in pairwise(family)}
    model = scripted(family_script(replies))
    for name, below in pairwise(family):
        write_agent(tmp_path, f"{name}.prompty", model, tools=[calls(f"{below}.prompty")])
    write_agent(tmp_path, "page.prompty", model)
    async with stage.worker():
        run = await stage.start(load(tmp_path / "chief.prompty"), max_depth=2)
        assert (await run.result()).output == "done"
    asked = {request.body["model"] for request in model.requests}
    assert asked == {"chief", "clerk", "intern"}
