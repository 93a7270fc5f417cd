"""What it costs to watch a run whose model writes 5,000 tokens: the first token's delay, history,
requests.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Sequence

import openai
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from benchmarks.stage import Stage, run, stage
from perdure.agents import Agent
from perdure.client import connect, get_run, start_run
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.testing import ScriptedModel, says
from perdure.worker import create_worker

TOKENS, PER_SECOND = 5000, 200
TEXT = " ".join(f"token{number}" for number in range(TOKENS))
WATCHERS = (0, 1, 5)


ASKED = {
    "DescribeWorkflowExecution": "describe",
    "QueryWorkflow": "query",
    "GetWorkflowExecutionHistory": "history",
}
"""By operation, as the SDK's metrics name it."""


def made_so_far(metrics: MetricBuffer) -> Counter[str]:
    """What a client has asked the server."""
    made: Counter[str] = Counter()
    for update in metrics.retrieve_updates():
        if update.metric.name in ("temporal_request", "temporal_long_request"):
            made[ASKED.get(str(update.attributes["operation"]), "other")] += int(update.value)
    return made


async def own_stream(model: ScriptedModel) -> float:
    """The floor: seconds from the model's request to the first token, for the provider's own
    client.
    """
    client = openai.AsyncOpenAI(base_url=model.openai_endpoint, api_key="none")
    async with await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Write."}], stream=True
    ) as chunks:
        async for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                break
    return time.monotonic() - model.requests[-1].received_at


async def watch(address: str, id: str) -> tuple[float, Counter[str]]:
    """When the first token came to a watcher, and what it asked the server until the end."""
    metrics, first, text = MetricBuffer(100_000), 0.0, ""
    client = await connect(address, runtime=Runtime(telemetry=TelemetryConfig(metrics=metrics)))
    async for event in get_run(client, id).stream():
        if event.type == "token":
            first = first or time.monotonic()
            text += event.data["token"]
    assert text == TEXT
    return first, made_so_far(metrics)


async def measure(server: Stage, model: ScriptedModel, watchers: int) -> None:
    endpoint = {"kind": "key", "endpoint": model.openai_endpoint}
    agent = Agent.model_validate({"name": "writer", "model": {"id": "m", "connection": endpoint}})
    task_queue = f"bench-{uuid.uuid4()}"
    async with create_worker(server.client, task_queue=task_queue):
        options = RunOptions(stream=True)
        began = time.monotonic()
        handle = await start_run(
            server.client,
            agent,
            messages=[Message.user("Write.")],
            task_queue=task_queue,
            options=options,
        )
        seen = await asyncio.gather(*(watch(server.address, handle.id) for _ in range(watchers)))
        await handle.result()
        seconds = time.monotonic() - began
    report(
        watchers,
        seconds,
        [first - model.requests[-1].received_at for first, _ in seen],
        [made for _, made in seen],
    )
    growth = await server.growth(handle.id)
    print(f"{'':12} history: {growth.events} events, {growth.bytes} bytes", flush=True)


def report(
    watchers: int, seconds: float, delays: Sequence[float], made: Sequence[Counter[str]]
) -> None:
    print(f"{watchers} watchers   the run took {seconds:.1f} s", flush=True)
    if watchers:
        rates = {
            what: sum(each[what] for each in made) / watchers / seconds
            for what in ("describe", "query", "history")
        }
        asked = ", ".join(f"{rate:.2f} {what}" for what, rate in rates.items())
        print(f"{'':12} first token after {min(delays):.3f} to {max(delays):.3f} s")
        print(f"{'':12} requests a second of each watcher: {asked}")


async def main() -> None:
    with ScriptedModel([says(TEXT, chunk_delay=1 / PER_SECOND)]) as model:
        print(
            f"the model's own stream: first token after {await own_stream(model):.3f} s", flush=True
        )
        async with stage() as server:
            for watchers in WATCHERS:
                await measure(server, model, watchers)


if __name__ == "__main__":
    run(main())
