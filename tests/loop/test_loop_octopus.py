"""The loop of an Octopus agent, and its settings: what each of them does to a run."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.messages import Message, ToolResult
from perdure.options import RunOptions
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage

BALANCE = call("get_leave_balance", "tc_01", employeeId="EMP-1042")
MANAGER = call("get_manager_details", "tc_02", employeeId="EMP-1042")
INCOMPLETE = "I was unable to complete this task within the allowed steps."


def octopus(*tools: str, **settings: Any) -> Agent:
    declared = [{"kind": "function", "name": name} for name in tools]
    return Agent.model_validate(
        {"name": "hr-assistant", "tools": declared, "metadata": {"octopus": settings}}
    )


async def test_the_loop_calls_appends_and_calls_again() -> None:
    """Each call of a reply has its result, by its id, in the order in which the model asked."""
    tools = {
        "get_leave_balance": lambda employeeId: "15 days",
        "get_manager_details": lambda employeeId: "Ada",
    }
    stage = Stage(
        asks(BALANCE, MANAGER), says("15 days, says Ada."), tools=tools, agent=octopus(*tools)
    )
    result = await stage.play()
    assert (result.output, result.is_incomplete) == ("15 days, says Ada.", False)
    begun = [Message.system("Be brief."), Message.user("Hi")]
    assert stage.seen[0] == begun
    assert stage.seen[1][:2] == begun
    assert [message.role for message in stage.seen[1][2:]] == ["assistant", "tool", "tool"]
    assert [each.id for each in stage.seen[1][2].tool_calls] == ["tc_01", "tc_02"]
    paired = [(message.metadata["tool_call_id"], message.text) for message in stage.seen[1][3:]]
    assert paired == [("tc_01", "15 days"), ("tc_02", "Ada")]


async def test_max_working_memory_tokens() -> None:
    """Groups are dropped as a whole, oldest first, down to `MinHistoryMessages`."""
    before = [Message.system("Be brief.")]
    for number in range(4):
        asked = call("look", f"c{number}")
        before += [Message.user(f"Question {number} " + "?" * 300), Message.assistant("", [asked])]
        before += [Message.tool(asked, _result())]
    settings = {"MaxWorkingMemoryTokens": 120, "PruningStrategy": "FIFO"}
    for floor, kept in (
        (4, ["assistant", "tool", "user", "assistant", "tool"]),
        (0, ["user", "assistant", "tool"]),
    ):
        agent = octopus(**settings, MinHistoryMessages=floor)
        stage = Stage(says("Done"), messages=before, agent=agent)
        await stage.play()
        assert [message.role for message in stage.seen[0]] == ["system", "user", *kept], floor
        assert stage.seen[0][1].text.startswith("[Context summary: ")


def _result() -> ToolResult:
    return ToolResult.of_text("seen")


@pytest.mark.parametrize(
    ("setting", "given", "option", "value"),
    [
        ("MaxToolIterations", 2, "max_iterations", 2),
        ("ToolTimeoutSeconds", 0.05, "tool_timeout", 0.05),
        ("ParallelToolExecution", False, "parallel_tool_calls", False),
        ("ToolResultTruncator", {"maxTokens": 25}, "max_result", 100),
    ],
)
def test_settings(setting: str, given: object, option: str, value: object) -> None:
    stage = Stage(agent=octopus(**{setting: given}))
    assert getattr(stage.effects.options, option) == value


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_iterations", 10),
        ("tool_timeout", 30.0),
        ("parallel_tool_calls", True),
        ("max_result", 8000),
        ("on_limit", "partial"),
        ("limit_message", INCOMPLETE),
        ("cancel_grace", 0.0),
    ],
)
def test_defaults(option: str, value: object) -> None:
    stage = Stage(agent=octopus())
    assert getattr(stage.effects.options, option) == value
    plain = RunOptions.model_fields[option].get_default()
    named = Stage(agent=octopus(), **{option: plain})
    assert getattr(named.effects.options, option) == plain, "what the caller says counts"
