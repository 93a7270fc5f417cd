"""Instructions that a function gives are recorded: made once for each run and turn, on a worker
that has it.
"""

from __future__ import annotations

import pytest

import perdure
from perdure import ToolContext
from perdure.client import RunOptions, session, start_run
from perdure.errors import RunError
from perdure.testing import asks, says

from ..support.agents import Scripted
from ..support.stage import Stage

calls: list[str] = []


async def count(context: ToolContext) -> str:
    calls.append(context.run_id)
    return f"Call {len(calls)} for {context.deps['tenant']}."


async def fail() -> str:
    raise OSError("no database")


def look() -> str:
    return "seen"


async def test_they_are_made_once_for_each_turn(stage: Stage, scripted: Scripted) -> None:
    calls.clear()
    model = scripted(lambda request: asks("look") if request.step < 7 else says("Done."))
    agent = perdure.agent(
        "openai/a",
        connection={"endpoint": model.openai_endpoint},
        instructions="Be kind.",
        instructions_by=count,
        tools=[look],
    )
    async with stage.worker([agent]):
        id = f"{stage.task_queue}-talk"
        talk = session(
            stage.client, agent, id, task_queue=stage.task_queue, deps={"tenant": "north"}
        )
        first = await (await talk.send("One")).result()
        second = await (await talk.send("Two")).result()
        texts = [message.text for message in await talk.messages()]
        await talk.close()
    assert calls == [f"{id}/1", f"{id}/2"]
    assert first.iterations == 8, "the run was continued as new"
    told = {
        tuple(message.text for message in request.messages if message.instructs)
        for request in model.requests
    }
    assert told == {("Be kind.", "Call 1 for north."), ("Be kind.", "Call 2 for north.")}
    assert texts[:3] == ["Be kind.", "Call 2 for north.", "One"]
    assert second.output == "Done."


async def test_another_worker_may_have_it_and_a_failure_ends_the_run(
    stage: Stage, scripted: Scripted
) -> None:
    calls.clear()
    model = scripted([says("Done.")])
    agent = perdure.agent(
        "openai/a",
        connection={"endpoint": model.openai_endpoint},
        instructions_by="count",
        inputs={},
    )
    options = RunOptions(missing_tool_grace=20.0)
    async with stage.worker():
        start = {"task_queue": stage.task_queue, "deps": {"tenant": "south"}, "options": options}
        run = await start_run(stage.client, agent, **start)  # type: ignore[arg-type]
        stage.runs.append(run)
        async with stage.another_worker(instructions={"count": count}):
            result = await run.result()
    assert [message.text for message in result.messages if message.instructs] == [
        "Call 1 for south."
    ]
    async with stage.worker(instructions={"count": fail}):
        failing = await start_run(stage.client, agent, **start)  # type: ignore[arg-type]
        stage.runs.append(failing)
        with pytest.raises(
            RunError, match="The instructions 'count' failed: .*no database"
        ) as error:
            await failing.result()
    assert error.value.kind == "instructions"
