"""The work of the benchmarks by Temporal's plug-in for the OpenAI Agents SDK, or by that of
pydantic-ai: `python -m benchmarks.peers.measure KIND ADDRESS ROUNDS RUNS`, with the endpoint of the
model in PEERS_ENDPOINT. Prints the milliseconds of an iteration and the ids of the runs as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from agents import Agent as OpenAIAgent
    from agents import OpenAIProvider as OpenAIAgentsProvider
    from agents import Runner
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import (
        PydanticAIPlugin,
        PydanticAIWorkflow,
        TemporalDurability,
    )
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
    from temporalio.openai_agents.workflow import activity_as_tool

    from benchmarks.texts import text_of

ENDPOINT = os.environ["PEERS_ENDPOINT"]
LIMIT = timedelta(minutes=5)
TURNS_MORE = 2


@activity.defn
async def look_up(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)


@workflow.defn(sandboxed=False)
class OpenAIAgentsRun:
    @workflow.run
    async def run(self, rounds: int) -> str:
        agent = OpenAIAgent(
            name="bench",
            instructions=f"rounds={rounds} calls=1",
            model="bench",
            tools=[activity_as_tool(look_up, start_to_close_timeout=LIMIT)],
        )
        result = await Runner.run(agent, "Go on.", max_turns=rounds + TURNS_MORE)
        return str(result.final_output)


pydantic_agent = Agent(
    OpenAIChatModel("bench", provider=OpenAIProvider(base_url=ENDPOINT, api_key="none")),
    name="bench",
    capabilities=[TemporalDurability()],
)


@pydantic_agent.tool_plain(name="look_up")
async def look_up_for_pydantic(round: int, part: int) -> str:
    """Look a part up."""
    return text_of(round, part)


@workflow.defn(sandboxed=False)
class PydanticRun(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [pydantic_agent]

    @workflow.run
    async def run(self, rounds: int) -> str:
        result = await pydantic_agent.run(f"Go on: rounds={rounds} calls=1")
        return str(result.output)


def _parts(kind: str) -> tuple[Any, Any, list[Any]]:
    """Plug-in, workflow and activities of a kind."""
    if kind == "pydantic-ai":
        return PydanticAIPlugin(), PydanticRun, []
    provider = OpenAIAgentsProvider(base_url=ENDPOINT, api_key="none", use_responses=False)
    parameters = ModelActivityParameters(start_to_close_timeout=LIMIT)
    plugin = OpenAIAgentsPlugin(model_params=parameters, model_provider=provider)
    return plugin, OpenAIAgentsRun, [look_up]


async def main(kind: str, address: str, rounds: int, runs: int) -> None:
    plugin, run, activities = _parts(kind)
    client = await Client.connect(address, plugins=[plugin])
    queue = f"peers-{uuid.uuid4()}"
    ids, times = [], []
    async with Worker(client, task_queue=queue, workflows=[run], activities=activities):
        for _ in range(runs + 1):
            ids.append(f"{kind}-{uuid.uuid4()}")
            began = time.perf_counter()
            await client.execute_workflow(run.run, rounds, id=ids[-1], task_queue=queue)
            times.append((time.perf_counter() - began) * 1e3 / rounds)
    print(json.dumps({"ms": statistics.median(times[1:]), "ids": ids[1:]}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    kind, address, rounds, runs = sys.argv[1:]
    asyncio.run(main(kind, address, int(rounds), int(runs)))
