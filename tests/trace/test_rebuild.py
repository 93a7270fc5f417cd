"""Traces that are rebuilt from what is recorded: of open runs, of runs ended from outside, of what
is left of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from perdure.client import RunHandle, get_run
from perdure.errors import OutputError
from perdure.history.chain import read_links
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import tool
from perdure.trace.describe import Describer
from perdure.trace.rebuild import rebuild_links
from perdure.trace_ids import TraceIds

from ..histories.scenarios import SCENARIOS, Scene
from ..support.agents import scripted_agent
from ..support.retention import reset
from ..support.stage import Stage
from ..support.tracing import names, require_tree, span_id
from ..support.waiting import asked

TASK_DONE = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


@tool(needs_approval=True)
def risky(text: str = "") -> str:
    """Do something that a person must agree to."""
    return text


async def test_an_open_run_without_a_worker(stage: Stage) -> None:
    with ScriptedModel([asks(call("risky", "call_1")), says("done")]) as model:
        async with stage.worker([risky]):
            run = await stage.start(scripted_agent(model, ["risky"]))
            await asked(run)
            await run.steer("hurry", by="someone")
        spans = await run.trace()
    require_tree(spans)
    assert names(spans) == ["invoke_agent tested", "chat scripted", "wait approval risky"]
    assert [said(span, "perdure.unfinished") for span in spans] == [True, None, True]
    (steering,) = spans[0].events
    assert steering.name == "steering"
    assert dict(steering.attributes or {}) == {
        "perdure.steering.messages": 1,
        "perdure.steering.by": "someone",
    }
    await terminated(stage.client, run)
    closed = await run.trace()
    assert names(closed) == names(spans)
    assert said(closed[0], "error.type") == "terminated"
    assert closed[0].status.description == "no longer needed"
    assert said(closed[0], "perdure.unfinished") is None
    assert closed[2].end_time == closed[0].end_time


async def test_a_link_that_this_version_can_not_replay(stage: Stage) -> None:
    with ScriptedModel([asks(call("echo")), says("done")]) as model:
        async with stage.worker({"echo": lambda text="": text}):
            run = await stage.start(scripted_agent(model, ["echo"]))
            await run.result()
    links = [link async for link in read_links(stage.client, run.id)]
    rearranged = next(
        event
        for event in links[0].history
        if event.HasField("activity_task_scheduled_event_attributes")
    )
    rearranged.activity_task_scheduled_event_attributes.activity_id = "of another version"
    ids = TraceIds.of(stage.client.namespace, run.id, links[0].run_id)
    rebuilt = await rebuild_links(stage.client, Describer(ids, links[0].input.agent), links)
    said = rebuilt.spans
    assert [facts.name for facts in said] == [
        "invoke_agent tested",
        "chat scripted",
        "execute_tool echo",
        "chat scripted",
    ]
    assert "can't be replayed by this version" in str(
        said[0].attributes["perdure.trace.incomplete"]
    )


async def test_a_tool_that_failed_says_no_more_than_its_kind_without_content(stage: Stage) -> None:
    def broken(text: str = "") -> str:
        raise ValueError(f"no {text}")

    with ScriptedModel(
        [asks(call("broken", "call_1", text="salary of Ann")), says("sorry")]
    ) as model:
        async with stage.worker({"broken": broken}):
            run = await stage.start(scripted_agent(model, ["broken"]))
            await run.result()
    plain, full = (await run.trace())[2], (await run.trace(content=True))[2]
    assert plain.name == "execute_tool broken"
    assert plain.status.status_code is StatusCode.ERROR
    assert "Ann" not in plain.to_json()
    assert "no salary of Ann" in (full.status.description or "")
    assert said(full, "gen_ai.tool.call.arguments") == '{"text": "salary of Ann"}'


async def test_a_run_whose_failure_quotes_the_model_does_not_say_it_without_content(
    stage: Stage,
) -> None:
    outputs = [{"name": "age", "kind": "integer"}]
    with ScriptedModel([says('{"age": "salary of Ann"}')]) as model:
        async with stage.worker():
            run = await stage.start(scripted_agent(model, outputs=outputs), max_iterations=1)
            with pytest.raises(OutputError, match="salary of Ann"):
                await run.result()
    plain, full = await run.trace(), (await run.trace(content=True))[0]
    assert said(plain[0], "error.type") == "output"
    assert not [span.name for span in plain if "Ann" in span.to_json()]
    assert "salary of Ann" in (full.status.description or "")


async def test_called_runs_are_below_their_calls_and_can_be_left_out(
    client: Client, task_queue: str
) -> None:
    run = await SCENARIOS["called_agent"](Scene(client, task_queue))
    spans = await run.trace()
    expected = [
        "invoke_agent tested",
        "chat scripted",
        "execute_tool reader",
        "invoke_agent reader",
    ]
    assert names(spans) == [*expected, "chat scripted", "chat scripted"]
    require_tree(spans)
    assert spans[3].parent is not None
    assert spans[3].parent.span_id == span_id(spans[2])
    called = str(said(spans[2], "perdure.called.run.id"))
    assert ids(await get_run(client, called).trace()) <= ids(spans)
    assert len(await run.trace(children=False)) == 4


async def test_a_run_after_a_reset_is_one_tree_again(stage: Stage) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        return says("done") if request.messages[-1].role == "tool" else asks(call("echo"))

    with ScriptedModel(reply) as model:
        async with stage.worker({"echo": lambda text="": text}):
            run = await stage.start(scripted_agent(model, ["echo"]))
            await run.result()
            before = names(await run.trace())
            [link] = [link async for link in read_links(stage.client, run.id)]
            tasks = [event.event_id for event in link.history if event.event_type == TASK_DONE]
            await reset(stage.client, run.id, link.run_id, tasks[1])
            again = get_run(stage.client, run.id)
            assert (await again.result()).output == "done"
            spans = await again.trace()
    assert len(model.requests) > 2, "the second model call was made again"
    require_tree(spans)
    assert names(spans) == before


async def terminated(client: Client, run: RunHandle) -> None:
    await client.get_workflow_handle(run.id).terminate(reason="no longer needed")


def said(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(name)


def ids(spans: Sequence[ReadableSpan]) -> set[int]:
    return set(map(span_id, spans))
