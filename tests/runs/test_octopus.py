"""How runs of Octopus agents end: each row of its termination table, and what a round of ten calls
keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from perdure.client import RunHandle
from perdure.errors import RunCancelled
from perdure.interop.octopus import agent_response
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT
from .test_cancel import tool_texts

Scripted = Callable[[Script], ScriptedModel]
INCOMPLETE = "I was unable to complete this task within the allowed steps."


def broken(text: str = "") -> str:
    raise ValueError("no such employee")


async def answered(run: RunHandle, gate: Gate) -> tuple[str, bool]:
    return tuple(agent_response(await run.result()))  # type: ignore[return-value]


async def cancelled_in_a_tool(run: RunHandle, gate: Gate) -> tuple[str, bool]:
    """The tool has no grace period: the run ends while it is still at work."""
    await gate.reached.wait()
    await run.cancel()
    with pytest.raises(RunCancelled) as caught:
        await asyncio.wait_for(run.result(), 20)
    assert gate.left == 0
    return caught.value.messages[-1].text, True


class Row(NamedTuple):
    condition: str
    script: list[Any]
    end: tuple[str, bool]
    """The content, and whether it is incomplete."""
    results: list[str]
    """What the tools have answered."""
    how: Callable[[RunHandle, Gate], Awaitable[tuple[str, bool]]] = answered
    wire: str = "openai-chat"


LOOK = call("look", "tc_01", text="EMP-1042")
TERMINATION = [
    Row("text with no tool calls", [asks(LOOK), says("15 days")], ("15 days", False), ["EMP-1042"]),
    Row(
        "max iterations reached",
        [asks(LOOK, text="Let me see."), asks(LOOK)],
        (INCOMPLETE, True),
        ["EMP-1042", "EMP-1042"],
    ),
    Row(
        "tool execution error",
        [asks(call("broken", "tc_01")), says("I can't say.")],
        ("I can't say.", False),
        ["Error: Tool 'broken' failed: ValueError: no such employee"],
    ),
    Row("end_turn stop reason", [says("15 days")], ("15 days", False), [], wire="anthropic"),
    Row(
        "cancelled",
        [asks(call("gate", "tc_01"))],
        (f"[cancelled]{FIND_OUT}", True),
        [f"[cancelled]{FIND_OUT}"],
        cancelled_in_a_tool,
    ),
]


@pytest.mark.parametrize("row", TERMINATION, ids=[row.condition for row in TERMINATION])
async def test_termination(stage: Stage, scripted: Scripted, row: Row) -> None:
    gate, model = Gate(), scripted(row.script)
    agent = scripted_agent(
        model,
        ["look", "broken", "gate"],
        wire=row.wire,
        metadata={"octopus": {"MaxToolIterations": 2}},
    )
    async with stage.worker({"look": lambda text: text, "broken": broken, "gate": gate}):
        run = await stage.start(agent)
        assert await row.how(run, gate) == row.end
    assert tool_texts(await run.messages()) == row.results
    assert len(model.requests) == len(row.script)
