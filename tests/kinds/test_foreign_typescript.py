"""A company's activities and workflows in TypeScript as tools, from the declaration alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import CancelledError

from perdure.client import get_run
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import scripted_agent, tool_texts
from ..support.documents import ROOT
from ..support.foreign_tools import (
    Scripted,
    activity,
    answer_of,
    workflow,
)
from ..support.stage import Stage
from ..support.typescript_worker import TypeScript
from ..support.unknown_outcomes import NEEDS_APPROVAL
from ..support.waiting import wait_until

ABROAD = "typescript"
SCHEMA = ROOT / "docs/reference/agent-run.schema.json"


@pytest.fixture(scope="module", autouse=True)
async def _abroad(typescript: TypeScript, server: Any) -> AsyncIterator[None]:
    async with typescript.worker(server.client.service_client.config.target_host, ABROAD):
        yield


@pytest.fixture
async def home(stage: Stage) -> AsyncIterator[Stage]:
    async with stage.worker():
        yield stage


async def test_their_calls(home: Stage, scripted: Scripted, tmp_path: Path) -> None:
    """Calls of one run: each is executed once, unless its declaration says otherwise."""
    log, slow = tmp_path / "log", "log:string! seconds:float!"
    patient = workflow("patient", ABROAD, "links:integer!", perdure={"timeout": 0.3})
    stubborn = activity("flaky", ABROAD, "log:string!", perdure={"retries": 4})
    limited = workflow("patient", ABROAD, "links:integer!", executionTimeout="500ms")
    cases: list[tuple[JsonObject, JsonObject, str]] = [
        (activity("greet", ABROAD, "name:string! times:integer"), {"name": "Ada", "times": 2}, ""),
        (activity("ping", ABROAD), {}, ""),
        (workflow("welcome", ABROAD, "name:string!"), {"name": "Ada"}, ""),
        (activity("sell", ABROAD, "item:string!"), {"item": "tea"}, "OutOfStock: no tea left"),
        (workflow("deny", ABROAD, "item:string!"), {"item": "tea"}, "Denied: no tea for you"),
        (activity("flaky", ABROAD, "log:string!"), {"log": str(log)}, "Error: not yet"),
        ({**stubborn, "name": "stubborn"}, {"log": f"{log}-2"}, ""),
        (
            activity("slow", ABROAD, slow, startToCloseTimeout="300ms"),
            {"log": f"{log}-3", "seconds": 9},
            f"timed out after 0.3 seconds{NEEDS_APPROVAL}",
        ),
        (
            patient,
            {"links": 0},
            "timed out after 0.3 seconds; the workflow 'patient' was cancelled" + NEEDS_APPROVAL,
        ),
        ({**limited, "name": "limited"}, {"links": 0}, "the workflow 'patient' timed out after"),
        (activity("nowhere", ABROAD), {}, "NotFoundError"),
    ]
    asked = [call(tool["name"], tool["name"], **given) for tool, given, _ in cases]
    model = scripted([asks(*asked), says("done")])
    agent = scripted_agent(model, [tool for tool, _, _ in cases])
    run = await home.start(agent, parallel_tool_calls=True)
    told = tool_texts((await run.result()).messages)
    for text, (tool, _, failure) in zip(told, cases, strict=True):
        assert text.startswith(f"Error: Tool '{tool['name']}' failed: {failure}" if failure else "")
    assert told[0] == "Hello Ada!Hello Ada!"
    assert json.loads(told[1]) == {"arguments": 0, "key": f"{run.id}/1-1", "attempt": 1}
    assert json.loads(told[2]) == {"greeting": "Hello Ada!", "id": f"{run.id}/1-2"}
    assert told[6] == "3"
    assert log.read_text().split() == ["tried"]


async def test_a_workflow_in_typescript_runs_an_agent_as_its_child(
    home: Stage, scripted: Scripted, client: Client, task_queue: str
) -> None:
    story = "A long story. " * 3_000
    model = scripted([asks(call("greet", "c1", name="Ada")), says(story)])
    greet = activity("greet", ABROAD, "name:string!")
    connection = {"kind": "key", "endpoint": model.openai_endpoint}
    argument = {
        "agent": {"model": {"id": "scripted", "connection": connection}, "tools": [greet]},
        "messages": [{"role": "user", "content": "Tell me something."}],
    }
    schema = json.loads(SCHEMA.read_text())
    assert list(Draft202012Validator(schema).iter_errors(argument)) == []
    parent = await client.start_workflow(
        "editor",
        args=[argument, task_queue],
        id=f"{task_queue}-editor",
        task_queue=ABROAD,
        result_type=dict,
    )
    told = await parent.result()
    assert told["size"] > 2 * len(story), "the conversation is in it, too, or at least its end"
    result = told["result"]
    assert result["output"] == story
    assert "iteration_usage" not in result
    child = await _only_child(client, parent.id)
    assert await encodings(client, child) == {b"json/plain"}
    run = get_run(client, child)
    read = await run.result()
    assert read.iterations == 2
    assert answer_of(read.messages) == "Hello Ada!"


async def test_a_cancelled_workflow_in_typescript_cancels_the_agent(
    home: Stage, scripted: Scripted, client: Client, task_queue: str
) -> None:
    model = scripted([ScriptedReply(text="too late", delay=60)])
    connection = {"kind": "key", "endpoint": model.openai_endpoint}
    argument = {
        "agent": {"model": {"id": "scripted", "connection": connection}},
        "messages": [{"role": "user", "content": "x" * 100_000}],
    }
    parent = await client.start_workflow(
        "editor", args=[argument, task_queue], id=f"{task_queue}-editor", task_queue=ABROAD
    )
    await wait_until(lambda: model.requests)
    await parent.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(parent.result(), 10)
    assert isinstance(caught.value.cause, CancelledError)
    child = await _only_child(client, parent.id)
    assert (
        await client.get_workflow_handle(child).describe()
    ).status == WorkflowExecutionStatus.CANCELED
    assert await encodings(client, child) == {b"json/plain"}


async def test_what_is_wrong_with_the_input_is_a_failure_of_the_child(
    home: Stage, client: Client, task_queue: str
) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await client.execute_workflow(
            "editor", args=[{"agent": {}}, task_queue], id=f"{task_queue}-editor", task_queue=ABROAD
        )
    text = str(caught.value.cause.cause) if caught.value.cause else ""
    assert "messages" in text


async def _only_child(client: Client, parent: str) -> str:
    async for event in client.get_workflow_handle(parent).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            return event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
    raise AssertionError("no child")


async def encodings(client: Client, id: str) -> set[bytes]:
    """Of the input and the result of the workflow, and of what activities of others were sent."""
    found: set[bytes] = set()
    async for event in client.get_workflow_handle(id).fetch_history_events():
        scheduled = event.activity_task_scheduled_event_attributes
        is_others = scheduled.activity_type.name and not scheduled.activity_type.name.startswith(
            "perdure."
        )
        for payloads in (
            event.workflow_execution_started_event_attributes.input,
            event.workflow_execution_completed_event_attributes.result,
            *([scheduled.input] if is_others else []),
        ):
            found |= {payload.metadata["encoding"] for payload in payloads.payloads}
    return found
