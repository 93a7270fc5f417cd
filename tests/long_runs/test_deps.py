"""The deps of a run are there in each of its links, in the runs that it calls, in its forks and
exports.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from perdure import ToolContext
from perdure.client import RunOptions, session, start_run
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, ScriptedRequest, asks, says
from perdure.testing.recording import recording_of

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

NORTH = {"tenant": "north"}


class Deps(BaseModel):
    tenant: str


class Shop:
    def __init__(self, tenant: str) -> None:
        self.tenant = tenant


def whose(context: ToolContext[Deps], shop: Shop) -> str:
    """Say whose shop it is."""
    return f"{context.deps.tenant}'s is {shop.tenant}'s"


def opened(deps: Deps) -> Shop:
    return Shop(deps.tenant)


async def test_links_forks_and_exports_have_them(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(scripted([*[asks("whose")] * 7, says("Done.")]), ["whose"])
    agent = agent.model_copy(
        update={"tools": [agent.tools[0].model_copy(update={"parameters": []})]}
    )  # type: ignore[index]
    async with stage.worker([whose], resources={Shop: opened}):
        more: JsonObject = {
            "task_queue": stage.task_queue,
            "options": RunOptions(max_iterations=9),
        }
        run = await start_run(
            stage.client, agent, messages=[], deps=Deps(tenant="north"), id=stage.task_queue, **more
        )
        stage.runs.append(run)
        result = await run.result()
        lines = [line async for line in run.export()]
        fork = await run.fork(8, steer="Again.")
        stage.runs.append(fork)
        forked = await fork.result()
    assert {message.text for message in result.messages if message.role == "tool"} == {
        "north's is north's"
    }
    assert len([line for line in lines if line["kind"] == "run"]) == 1
    assert recording_of(lines, "run").deps == NORTH
    assert forked.output == "Done."
    assert [line["deps"] async for line in fork.export() if line["kind"] == "run"] == [NORTH]


async def test_turns_of_a_session_and_the_runs_that_they_call_have_them(
    stage: Stage, scripted: Scripted, tmp_path: Any
) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        is_child = request.messages[0].text.startswith("Ask")
        asked, said = ("whose", "The north's.") if is_child else ("ask", "It is theirs.")
        return (
            says(said)
            if request.step
            else asks(asked, **({} if is_child else {"task": "Whose is it?"}))
        )

    model = scripted(reply)
    connection = {"kind": "key", "endpoint": model.openai_endpoint}
    settings = {"id": "scripted", "provider": "openai", "connection": connection}
    child = {
        "name": "child",
        "model": settings,
        "tools": [{"name": "whose", "kind": "function", "parameters": []}],
    }
    (tmp_path / "child.prompty").write_text(f"---\n{json.dumps(child)}\n---\nsystem:\nAsk.\n")
    ask: JsonObject = {
        "name": "ask",
        "kind": "prompty",
        "path": "child.prompty",
        "mode": "agentic",
        "perdure": {"message": "task"},
    }
    ask["parameters"] = [{"name": "task", "kind": "string"}]
    (tmp_path / "parent.prompty").write_text(
        "---\n"
        f"{json.dumps({'name': 'parent', 'model': settings, 'tools': [ask]})}\n---\nsystem:\nGo.\n"
    )
    async with stage.worker([whose], resources={Shop: opened}):
        talk = session(
            stage.client,
            tmp_path / "parent.prompty",
            stage.task_queue,
            task_queue=stage.task_queue,
            deps=NORTH,
        )
        turn = await talk.send("Whose?")
        assert (await turn.result()).output == "It is theirs."
        await talk.close()
        called = [line async for line in turn.export() if line["kind"] == "run"]
    assert [line["deps"] for line in called] == [NORTH, NORTH]
    assert model.requests[2].messages[-1].text == "north's is north's"
