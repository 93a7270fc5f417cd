"""Runs whose tools are those of MCP servers: real processes and real HTTP servers of the official package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure import RunError
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from tests.tools.mcp.stage import on_stdio

from ..workflows.agents import scripted_agent
from ..workflows.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


async def test_two_runs_of_a_process_share_it(stage: Stage, scripted: Scripted) -> None:
    replies = [asks(call("echo", text="höre"), call("environment")), says("done")]
    agents = [scripted_agent(scripted(replies), [on_stdio()]) for _ in range(2)]
    async with stage.worker():
        runs = [await stage.start(agent) for agent in agents]
        results = [await run.result() for run in runs]
    for result in results:
        assert [message.text for message in result.messages if message.role == "tool"][0] == "höre"


async def test_tools_that_the_server_does_not_have(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(scripted([says("never")]), [on_stdio(allowedTools=["echo", "ecko"])])
    async with stage.worker():
        run = await stage.start(agent, missing_tool_grace=0)
        with pytest.raises(
            RunError, match=r"allowedTools names 'ecko', which MCP server 'tests' does not have; it has: ask, broken,"
        ):
            await run.result()
