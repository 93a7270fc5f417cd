"""How runs of Octopus agents end: the rows of its termination table."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from perdure import load_dict
from perdure.interop.octopus import agent_response
from perdure.messages import Message
from perdure.testing import InProcessRun, asks, call, says

from ..support.agents import tool_texts


def broken(text: str = "") -> str:
    raise ValueError("no such employee")


class Row(NamedTuple):
    condition: str
    script: list[Any]
    end: tuple[str, bool]
    """The content, and whether it is incomplete."""
    results: list[str]
    """What the tools have answered."""


LOOK = call("look", "tc_01", text="EMP-1042")
TERMINATION = [
    Row("text with no tool calls", [asks(LOOK), says("15 days")], ("15 days", False), ["EMP-1042"]),
    Row(
        "max iterations reached",
        [asks(LOOK, text="Let me see."), asks(LOOK)],
        ("I was unable to complete this task within the allowed steps.", True),
        ["EMP-1042", "EMP-1042"],
    ),
    Row(
        "tool execution error",
        [asks(call("broken", "tc_01")), says("I can't say.")],
        ("I can't say.", False),
        ["Error: Tool 'broken' failed: ValueError: no such employee"],
    ),
]


@pytest.mark.parametrize("row", TERMINATION, ids=[row.condition for row in TERMINATION])
async def test_termination(row: Row) -> None:
    tools = [{"name": name, "kind": "function"} for name in ("look", "broken")]
    octopus = {"octopus": {"MaxToolIterations": 2}}
    run = InProcessRun(
        load_dict({"name": "hr", "tools": tools, "metadata": octopus}),
        [Message.user("How many days are left?")],
        model=row.script,
        tools={"look": lambda text: text, "broken": broken},
    )
    result = await run.run()
    assert tuple(agent_response(result)) == row.end
    assert tool_texts(result.messages) == row.results
