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
from ..support.waiting import wait_for
from .test_cancel import cancelled, tool_texts

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


async def test_ten_calls_of_which_one_fails_one_hangs_and_one_is_cancelled(
    stage: Stage, scripted: Scripted
) -> None:
    last = Gate()

    async def work(text: str) -> str:
        if text == "3":
            raise ValueError("no such employee")
        return f"result {text}"

    async def hang(text: str = "") -> None:
        await asyncio.Event().wait()

    calls = [call("work", f"tc_{number}", text=str(number)) for number in range(9)]
    calls[5] = call("hang", "tc_5")
    model = scripted([asks(*calls, call("last", "tc_9"))])
    hangs = {"name": "hang", "kind": "function", "perdure": {"timeout": 0.5}}
    agent = scripted_agent(
        model, ["work", hangs, "last"], metadata={"octopus": {"ToolTimeoutSeconds": 60}}
    )
    async with stage.worker({"work": work, "hang": hang, "last": last}):
        run = await stage.start(agent)
        await last.reached.wait()
        await wait_for(lambda: _has_nine_results(run))
        await run.cancel()
        error = await cancelled(stage, run, within=20)
    texts = tool_texts(error.messages)
    assert [text for text in texts if text.startswith("result")] == [
        f"result {n}" for n in (0, 1, 2, 4, 6, 7, 8)
    ]
    assert texts[3] == "Error: Tool 'work' failed: ValueError: no such employee"
    assert texts[5] == "Error: Tool 'hang' failed: timed out after 0.5 seconds" + FIND_OUT
    assert texts[9] == f"[cancelled]{FIND_OUT}"
    assert last.left == 0


async def _has_nine_results(run: RunHandle) -> bool:
    return [event.type for event in await run.events()].count("tool_result") == 9
