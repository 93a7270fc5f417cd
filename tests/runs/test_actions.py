"""What a run costs on Temporal Cloud, by the server's own count of Actions
(`benchmarks/bench_actions.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.bench_actions import METERED_SECONDS, Server, Way, agent_run, metered_server
from perdure import load
from perdure.cli.server_connection import ServerConnection
from perdure.cli.show import in_lines, summary
from perdure.client import RunHandle, connect
from perdure.messages import Message
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import tool

from ..support.families import calls, family_script, takes, write_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

ROUNDS, SCALE = 2, 0.12
FLOOR = 1 + ROUNDS + (ROUNDS + 1)
"""The start and one activity for each call."""
OVERHEAD = 2
"""For all of a run: what its first worker finds out, and its end."""
UNRECORDED = {"grpc_QueryWorkflow", "grpc_RecordActivityTaskHeartbeat"}
"""What no history shows."""


@pytest.fixture(scope="module")
async def counting() -> AsyncIterator[Server]:
    """A server that counts, and suggests continue-as-new after five iterations or so."""
    async with metered_server("limit.historyCount.suggestContinueAsNew=50") as server:
        yield server


async def test_a_run_costs_hardly_more_than_its_calls_and_text_only_while_somebody_reads_it(
    counting: Server,
) -> None:
    ways = [
        Way("plain"),
        Way("streamed", stream=True),
        Way("one", stream=True, watchers=1),
        Way("five", stream=True, watchers=5),
    ]
    runs = [agent_run(counting, way, ROUNDS, SCALE) for way in ways]
    several_links = agent_run(counting, Way("one", stream=True, watchers=1), 6 * ROUNDS, SCALE / 6)
    plain, streamed, one, five, long = await asyncio.gather(*runs, several_links)
    assert plain.total <= streamed.total <= FLOOR + OVERHEAD, (plain, streamed)
    assert long.actions["command_ContinueAsNewWorkflowExecution"] >= 1, long
    for readers, watched in ((1, one), (5, five), (1, long)):
        assert watched.actions["grpc_QueryWorkflow"] <= readers, watched
    for watched in (one, five):
        assert (
            watched.actions["grpc_RecordActivityTaskHeartbeat"] <= ROUNDS + 1 + watched.seconds
        ), watched


def note(text: str = "") -> str:
    return text


@tool(local=True)
def near(text: str = "") -> str:
    return text


@tool(needs_approval=True)
def pay(text: str = "") -> str:
    return f"paid {text}"


def chief(request: ScriptedRequest) -> ScriptedReply:
    """Some of everything, over several links."""
    if request.step == 1 and request.attempt == 1:
        return ScriptedReply(status=503)
    steps = [
        asks(call("clerk", "a", topic="bees"), call("near", "b", text="here")),
        asks(call("note", "c", text="again")),
        asks(call("pay", "d", text="7")),
        *(asks(call("note", f"e{number}", text="x")) for number in range(7)),
    ]
    return steps[request.step] if request.step < len(steps) else says("done")


async def test_what_a_history_shows_is_what_the_server_counts(
    counting: Server, tmp_path: Path
) -> None:
    texts = [{"name": "text", "kind": "string"}]
    tools = [
        {"name": name, "kind": "function", "parameters": texts} for name in ("near", "note", "pay")
    ]
    with ScriptedModel(family_script({"chief": chief, "clerk": [says("wax")]})) as model:
        write_agent(
            tmp_path, "clerk.prompty", model, inputs=takes("topic"), prompt="user:\n{{topic}}"
        )
        tools.append(calls("clerk.prompty"))
        agent = load(
            write_agent(tmp_path, "chief.prompty", model, tools=tools, prompt="user:\nGo.")
        )
        async with counting.namespace() as namespace:
            stage = Stage(await connect(counting.address, namespace=namespace), "actions")
            async with stage.worker([near, note, pay]):
                run = await stage.start(
                    agent, [Message.user("Go.")], max_iterations=20, retry_base_seconds=0.01
                )
                await run.steer("be quick")
                await wait_for(lambda: _waits(run))
                await run.approve("d")
                await run.result()
                [id] = (counted := await run.actions()).called
                called = await run.called(id).actions()
            shown = await summary(ServerConnection(stage.client, None), run)
            await asyncio.sleep(METERED_SECONDS)
            metered = await counting.actions(namespace)
    recorded = sum(metered[kind] for kind in metered.keys() - UNRECORDED)
    assert counted.total + called.total == recorded, (counted, called, metered)
    assert (
        min(counted.local_activities, counted.timers, counted.search_attributes, counted.starts - 1)
        >= 1
    )
    assert (counted.messages, counted.children, called.starts) == (2, 2, 0)
    assert shown["actions"] == counted.model_dump(mode="json")
    assert f"actions  {counted.total} on Temporal Cloud; not in it: {id}" in list(in_lines(shown))


async def _waits(run: RunHandle) -> bool:
    return bool((await run.status()).pending_approvals)
