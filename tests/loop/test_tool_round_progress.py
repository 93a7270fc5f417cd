"""KAOS's progress blocks, as events: before a tool is executed, where `RunOptions.progress` asks
for them.
"""

from __future__ import annotations

from typing import Any

from perdure.event_data import ProgressData
from perdure.events import RunEvent
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage

TOOLS = {"calculator": lambda: "4", "delegate_to_researcher": lambda: "qubits"}


def block(step: int, action: str, target: str) -> JsonObject:
    return {"type": "progress", "step": step, "max_steps": 5, "action": action, "target": target}


def played(**named: Any) -> Stage:
    steps = [
        asks(call("calculator")),
        asks(call("delegate_to_researcher"), text="Now the other"),
        says("Done"),
    ]
    return Stage(*steps, tools=TOOLS, max_iterations=5, **named)


async def test_a_block_for_each_tool_and_each_agent() -> None:
    stage = played(progress=True)
    result = await stage.play()
    assert stage.data("progress") == [
        block(1, "tool_call", "calculator"),
        block(2, "delegate", "researcher"),
    ]
    assert (
        stage.types("tool_call_start", "progress", "tool_result")
        == [
            "tool_call_start",
            "progress",
            "tool_result",
        ]
        * 2
    )
    assert result.output == "Done"
    assert "max_steps" not in str(result.messages)


async def test_none_unless_they_are_asked_for() -> None:
    stage = played()
    await stage.play()
    assert stage.data("progress") == []


async def test_none_for_what_is_not_executed() -> None:
    deny = Guardrails(
        tool=lambda name, arguments: GuardrailResult(allowed=name != "calculator", reason="no")
    )
    stage = played(progress=True, guardrails=deny)
    await stage.play()
    assert stage.data("progress") == [block(2, "delegate", "researcher")]


def test_its_data_has_static_types() -> None:
    event = RunEvent(seq=1, type="progress", iteration=1, data=block(1, "tool_call", "calculator"))
    assert event.data_as(ProgressData)["target"] == "calculator"
