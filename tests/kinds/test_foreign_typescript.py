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
from perdure.errors import RunCancelled
from perdure.testing import ScriptedReply, asks, call, says

from ..support.foreign_tools import (
    Scripted,
    activity,
    agent_with,
    answer,
    answer_of,
    is_at_last_link,
    started,
    workflow,
)
from ..support.stage import Stage
from ..support.typescript_worker import TypeScript
from ..support.unknown_outcomes import NEEDS_APPROVAL
from ..support.waiting import wait_for

ABROAD = "typescript"
SCHEMA = Path(__file__).parents[2] / "docs" / "agent-run.schema.json"


@pytest.fixture(scope="module", autouse=True)
async def _abroad(typescript: TypeScript, server: Any) -> AsyncIterator[None]:
    async with typescript.worker(server.client.service_client.config.target_host, ABROAD):
        yield


@pytest.fixture
async def home(stage: Stage) -> AsyncIterator[Stage]:
    async with stage.worker():
        yield stage


async def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


async def test_an_activity_gets_one_object_and_its_result_comes_back(
    home: Stage, scripted: Scripted
) -> None:
    greet = activity("greet", ABROAD, "name:string! times:integer")
    assert await answer(home, scripted, greet, name="Ada", times=2) == "Hello Ada!Hello Ada!"


async def test_no_parameters_no_argument_and_a_key_for_each_call(
    home: Stage, scripted: Scripted
) -> None:
    run = await home.start(agent_with(scripted, activity("ping", ABROAD)))
    told = answer_of((await run.result()).messages)
    assert json.loads(told) == {"arguments": 0, "key": f"{run.id}/1-0", "attempt": 1}


async def test_a_workflow_gets_a_child_id_from_the_call(home: Stage, scripted: Scripted) -> None:
    welcome = workflow("welcome", ABROAD, "name:string!")
    run = await home.start(agent_with(scripted, welcome, name="Ada"))
    told = answer_of((await run.result()).messages)
    assert json.loads(told) == {"greeting": "Hello Ada!", "id": f"{run.id}/1-0"}


async def test_failures_come_with_type_and_message(home: Stage, scripted: Scripted) -> None:
    sell, deny = activity("sell", ABROAD, "item:string!"), workflow("deny", ABROAD, "item:string!")
    assert (
        await answer(home, scripted, sell, item="tea")
        == "Error: Tool 'sell' failed: OutOfStock: no tea left"
    )
    assert (
        await answer(home, scripted, deny, item="tea")
        == "Error: Tool 'deny' failed: Denied: no tea for you"
    )


async def test_it_is_executed_once_unless_the_declaration_says_otherwise(
    home: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    once = activity("flaky", ABROAD, "log:string!")
    assert (
        await answer(home, scripted, once, log=str(log))
        == "Error: Tool 'flaky' failed: Error: not yet"
    )
    assert len(await lines(log)) == 1
    retried = activity(
        "flaky",
        ABROAD,
        "log:string!",
        retryPolicy={"maximumAttempts": 5, "initialInterval": "10ms"},
    )
    assert await answer(home, scripted, retried, log=str(log)) == "3"
    policy = activity("flaky", ABROAD, "log:string!", perdure={"retries": 1})
    assert "not yet" in await answer(home, scripted, policy, log=str(log))
    assert len(await lines(log)) == 1 + 3 + 2


async def test_unknown_types(home: Stage, scripted: Scripted) -> None:
    told = await answer(home, scripted, activity("nowhere", ABROAD))
    assert "NotFoundError" in told
    assert "nowhere" in told


async def test_slow_ones_time_out(home: Stage, scripted: Scripted, tmp_path: Path) -> None:
    slow = activity("slow", ABROAD, "log:string! seconds:float!", startToCloseTimeout="300ms")
    told = await answer(home, scripted, slow, log=str(tmp_path / "a"), seconds=9)
    assert told == f"Error: Tool 'slow' failed: timed out after 0.3 seconds{NEEDS_APPROVAL}"
    patient = workflow("patient", ABROAD, "links:integer!", perdure={"timeout": 0.3})
    told = await answer(home, scripted, patient, links=0)
    why = "timed out after 0.3 seconds; the workflow 'patient' was cancelled"
    assert told == f"Error: Tool 'patient' failed: {why}{NEEDS_APPROVAL}"
    limited = workflow("patient", ABROAD, "links:integer!", executionTimeout="500ms")
    assert "the workflow 'patient' timed out after 0.5 seconds" in await answer(
        home, scripted, limited, links=0
    )


async def test_a_cancelled_run_cancels_the_activity(
    home: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    slow = activity("slow", ABROAD, "log:string! seconds:float!", heartbeatTimeout="1s")
    run = await started(home, scripted, slow, log=str(log), seconds=60)
    await wait_for(lambda: lines(log))
    await run.cancel()
    with pytest.raises(RunCancelled):
        await asyncio.wait_for(run.result(), 5)

    async def has_heard() -> bool:
        return "cancelled" in await lines(log)

    await wait_for(has_heard)


@pytest.mark.parametrize("links", [0, 1])
async def test_a_cancelled_run_cancels_the_child(
    home: Stage, scripted: Scripted, client: Client, links: int
) -> None:
    run = await started(home, scripted, workflow("patient", ABROAD, "links:integer!"), links=links)
    child = client.get_workflow_handle(f"{run.id}/1-0")

    await wait_for(lambda: is_at_last_link(child, links))
    await run.cancel()
    with pytest.raises(RunCancelled):
        await asyncio.wait_for(run.result(), 5)
    assert (await child.describe()).status == WorkflowExecutionStatus.CANCELED


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

    async def asks_the_model() -> bool:
        return bool(model.requests)

    await wait_for(asks_the_model)
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
