"""The loop of an Octopus agent, and its settings: what each of them does to a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.messages import Message, ToolResult
from perdure.options import RunOptions
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage
from ..support.unknown_outcomes import FIND_OUT

BALANCE = call("get_leave_balance", "tc_01", employeeId="EMP-1042")
MANAGER = call("get_manager_details", "tc_02", employeeId="EMP-1042")
INCOMPLETE = "I was unable to complete this task within the allowed steps."


def octopus(*tools: str, **settings: Any) -> Agent:
    declared = [{"kind": "function", "name": name} for name in tools]
    return Agent.model_validate(
        {"name": "hr-assistant", "tools": declared, "metadata": {"octopus": settings}}
    )


class Meeting:
    """Two tools that end only when both have begun, the second one first."""

    def __init__(self) -> None:
        self.first_began, self.second_ended = asyncio.Event(), asyncio.Event()

    async def get_leave_balance(self, employeeId: str = "") -> str:
        self.first_began.set()
        await self.second_ended.wait()
        return "15 days"

    async def get_manager_details(self, employeeId: str = "") -> str:
        await self.first_began.wait()
        self.second_ended.set()
        return "Ada"

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        return {
            "get_leave_balance": self.get_leave_balance,
            "get_manager_details": self.get_manager_details,
        }


async def test_the_loop_calls_appends_and_calls_again() -> None:
    """Calls of one reply run together; each has its result, by its id, in the order in which the
    model asked.
    """
    tools = Meeting().tools
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


async def max_tool_iterations() -> None:
    """The page's `MaxToolIterations`: so many rounds, then the incomplete response."""
    stage = Stage(
        *[asks(call("look", f"c{number}")) for number in range(2)],
        tools={"look": lambda: "nothing"},
        agent=octopus("look", MaxToolIterations=2),
    )
    result = await stage.play()
    assert (result.output, result.is_incomplete, result.iterations) == (INCOMPLETE, True, 2)
    assert stage.results() == ["nothing", "nothing"]


async def tool_timeout_seconds() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    agent = octopus("hang", ToolTimeoutSeconds=0.05)
    stage = Stage(asks(call("hang")), says("Too slow."), tools={"hang": hang}, agent=agent)
    assert (await stage.play()).output == "Too slow."
    assert stage.results() == ["Error: Tool 'hang' failed: timed out after 0.05 seconds" + FIND_OUT]


async def parallel_tool_execution() -> None:
    """Turned off, the tools of one reply wait for each other; turned on, they meet in the test
    above.
    """
    running: list[str] = []

    async def look(number: int) -> str:
        running.append(f"begins {number}")
        await asyncio.sleep(0)
        running.append(f"ends {number}")
        return str(number)

    declared = {
        "kind": "function",
        "name": "look",
        "parameters": [{"name": "number", "kind": "integer"}],
    }
    calls = [call("look", f"c{number}", number=number) for number in range(2)]
    agent = octopus(ParallelToolExecution=False)
    agent = agent.model_copy(update={"tools": Agent.model_validate({"tools": [declared]}).tools})
    stage = Stage(asks(*calls), says("Done"), tools={"look": look}, agent=agent)
    await stage.play()
    assert stage.results() == ["0", "1"]
    assert running == ["begins 0", "ends 0", "begins 1", "ends 1"]


async def tool_result_truncator() -> None:
    """In tokens of 4 characters; a tool with a limit of its own keeps that."""
    agent = octopus(ToolResultTruncator={"maxTokens": 25})
    tools: list[dict[str, Any]] = [
        {"kind": "function", "name": "long"},
        {"kind": "function", "name": "own", "perdure": {"maxResult": 200}},
    ]
    agent = agent.model_copy(update={"tools": Agent.model_validate({"tools": tools}).tools})
    text = "x" * 1000
    stage = Stage(
        asks(call("long", "a"), call("own", "b")),
        says("Long"),
        tools={"long": lambda: text, "own": lambda: text},
        agent=agent,
    )
    await stage.play()
    assert [result.count("x") for result in stage.results()] == [100, 200]
    assert all("bytes left out here" in result for result in stage.results())


async def max_working_memory_tokens() -> None:
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


SETTINGS: dict[str, Callable[[], Any]] = {
    "MaxToolIterations": max_tool_iterations,
    "ToolTimeoutSeconds": tool_timeout_seconds,
    "ParallelToolExecution": parallel_tool_execution,
    "ToolResultTruncator": tool_result_truncator,
    "MaxWorkingMemoryTokens, MinHistoryMessages": max_working_memory_tokens,
}


@pytest.mark.parametrize("setting", SETTINGS)
async def test_settings(setting: str) -> None:
    await SETTINGS[setting]()


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


async def test_a_tool_that_cancels_itself_takes_no_other_with_it() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError("enough")

    tools: dict[str, Any] = {"look": lambda: "seen", "gives_up": gives_up}
    stage = Stage(
        asks(call("gives_up", "a"), call("look", "b")),
        says("Done"),
        tools=tools,
        agent=octopus(*tools),
    )
    assert (await stage.play()).output == "Done"
    assert stage.results()[1] == "seen"
    assert stage.results()[0].startswith("Error: Tool 'gives_up' failed: ")
