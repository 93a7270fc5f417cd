"""The events of a run by the names of KAOS's memory, in its order."""

from __future__ import annotations

from typing import Any

from perdure.interop.kaos import EVENT_TYPES, MemoryEvent, run_events
from perdure.testing import asks, call, says
from tests.support.agents import scripted_agent
from tests.support.stage import Stage
from tests.workflows.test_approvals import Scripted


def calculator(text: str = "") -> str:
    return f"{text} = 4"


def broken(text: str = "") -> str:
    raise ValueError("no such number")


def research(task: str) -> str:
    if task == "?":
        raise ValueError("no such task")
    return "qubits"


TOOLS = {
    "calculator": calculator,
    "broken": broken,
    "delegate_to_researcher": research,
}
DECLARED = [
    "calculator",
    "broken",
    {
        "kind": "function",
        "name": "delegate_to_researcher",
        "parameters": [{"name": "task", "kind": "string"}],
    },
]


def shown(events: list[MemoryEvent]) -> list[tuple[str, Any]]:
    return [(event.event_type, event.content) for event in events]


async def test_the_pages_order_with_times_and_spans(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("calculator", text="2+2")), says("It is 4.")])
    async with stage.worker(TOOLS):
        run = await stage.start(scripted_agent(model, DECLARED))
        await run.result()
    events = await run_events(stage.client, run.id)
    assert shown(events) == [
        ("user_message", "What is it?"),
        ("tool_call", {"tool": "calculator", "arguments": {"text": "2+2"}}),
        ("tool_result", {"tool": "calculator", "result": "2+2 = 4"}),
        ("agent_response", "It is 4."),
    ]
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    assert all(len(event.event_id) == len("event_") + 8 for event in events)
    spans = {
        f"{span.context.span_id:016x}": span.name for span in await run.trace() if span.context
    }
    assert [spans[event.metadata["span_id"]] for event in events] == [
        "invoke_agent tested",
        "execute_tool calculator",
        "execute_tool calculator",
        "invoke_agent tested",
    ]
    assert {event.metadata["run_id"] for event in events} == {run.id}
    assert await run_events(stage.client, run.id) == events, "the same ids whenever they are read"
    assert [MemoryEvent.from_dict(event.to_dict()) for event in events] == events


async def test_failures_delegations_and_several_calls(stage: Stage, scripted: Scripted) -> None:
    both = asks(
        call("delegate_to_researcher", task="Find qubits"), call("delegate_to_researcher", task="?")
    )
    model = scripted([asks(call("broken")), both, says("Done")])
    async with stage.worker(TOOLS):
        run = await stage.start(scripted_agent(model, DECLARED))
        await run.result()
    events = await run_events(stage.client, run.id)
    assert [event.event_type for event in events] == [
        "user_message",
        "tool_call",
        "tool_error",
        "delegation_request",
        "delegation_response",
        "delegation_request",
        "delegation_error",
        "agent_response",
    ]
    assert "no such number" in events[2].content["error"]
    assert events[3].content == {"agent": "researcher", "task": "Find qubits"}
    assert events[4].content == {"agent": "researcher", "response": "qubits"}
    assert events[6].content["agent"] == "researcher"
    assert "no such task" in events[6].content["error"]
    assert {event.event_type for event in events} < set(EVENT_TYPES)
