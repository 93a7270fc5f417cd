"""How much of the input comes from the providers' caches, from the third call on, and what the run
costs.

Each run is real: a server, a worker, the SDKs. The models are on loopback and keep caches by the
published rules (`benchmarks.cache_server`). "before" sends neither marks nor keys, and trims to
just below the budget.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from benchmarks.cache_server import CacheServer
from benchmarks.stage import run
from perdure import Agent, RunOptions
from perdure.client import RunHandle, connect, session, start_run
from perdure.client.embedded.launch import FAST, dynamic_config, find_binary
from perdure.messages import Usage
from perdure.providers.prices import Price
from perdure.worker import create_worker

RESULT_CHARS = 2000
INSTRUCTIONS_CHARS = 8000
BUDGET_CHARS = 80_000
SKIPPED = 2
"""Calls at the beginning that are not looked at: a cache has nothing yet."""


@dataclass(frozen=True)
class Api:
    """A model, and what it costs in US dollars per million tokens."""

    label: str
    provider: str
    api_type: str
    model: str
    price: Price
    before: str | None
    """The `promptCache` with which nothing is added for the cache: for a server on loopback, which
    is not OpenAI's own, that is the default."""
    after: str | None

    def agent(self, url: str, prompt_cache: str | None, *, rounds: int, calls: int) -> Agent:
        endpoint = url if self.provider == "anthropic" else f"{url}/v1"
        parameters = [{"name": name, "kind": "integer"} for name in ("round", "part")]
        return Agent.model_validate(
            {
                "name": "bench",
                "model": {
                    "id": self.model,
                    "provider": self.provider,
                    "apiType": self.api_type,
                    "connection": {"kind": "anonymous", "endpoint": endpoint},
                    "options": {"promptCache": prompt_cache},
                },
                "tools": [{"name": "look_up", "kind": "function", "parameters": parameters}],
                "instructions": (
                    f"system:\nrounds={rounds} calls={calls} "
                    f"{'Be exact. ' * (INSTRUCTIONS_CHARS // 10)}"
                ),
            }
        )


_CLAUDE = Price(input=5, output=25, cached_input=0.5, cache_write=6.25, cache_write_1h=10)
_GPT_OLD = Price(input=5, output=30, cached_input=0.5)
_GPT_NEW = Price(input=4, output=20, cached_input=0.4, cache_write=5)
APIS = (
    Api("Anthropic", "anthropic", "chat", "claude-opus-4-8", _CLAUDE, "off", None),
    Api("OpenAI Chat, to gpt-5.5", "openai", "chat", "gpt-5.5", _GPT_OLD, None, "5m"),
    Api("OpenAI Responses, to gpt-5.5", "openai", "responses", "gpt-5.5", _GPT_OLD, None, "5m"),
    Api("OpenAI Chat, from gpt-5.6", "openai", "chat", "gpt-5.6", _GPT_NEW, None, "5m"),
    Api("OpenAI Responses, from gpt-5.6", "openai", "responses", "gpt-5.6", _GPT_NEW, None, "5m"),
)


@dataclass(frozen=True)
class Work:
    """What is asked of the model."""

    label: str
    rounds: int
    calls: int = 1
    turns: int = 0
    """Of a session; 0 for a run of its own."""
    options: RunOptions = field(default_factory=RunOptions)

    def options_for(self, trim_to: float) -> RunOptions:
        most = {
            "max_iterations": self.rounds + 1,
            "parallel_tool_calls": self.calls > 1,
            "trim_to": trim_to,
        }
        return self.options.model_copy(update=most)


WORKS = (
    Work("60 iterations", 60),
    Work("60 iterations, budget", 60, options=RunOptions(context_budget=BUDGET_CHARS)),
    Work("30 iterations of 30 calls", 30, 30),
    Work("session of 30 turns", 2, turns=30),
    Work(
        "session of 30 turns, budget", 2, turns=30, options=RunOptions(context_budget=BUDGET_CHARS)
    ),
    Work("60 iterations, prompted", 60, options=RunOptions(tool_protocol="json")),
    Work(
        "60 iterations, prompted, budget",
        60,
        options=RunOptions(tool_protocol="json", context_budget=BUDGET_CHARS),
    ),
)


def look_up(round: int, part: int) -> str:
    return f"{round}/{part} " + "x" * RESULT_CHARS


async def usage_of(run: RunHandle) -> list[Usage]:
    """The usage of each of a run's model calls."""
    return [
        Usage.model_validate(event.data["usage"])
        for event in await run.events()
        if event.type == "llm_complete"
    ]


async def usages(
    client: Client, queue: str, agent: Agent, work: Work, options: RunOptions
) -> list[Usage]:
    """Of each model call, in order."""
    if not work.turns:
        asking = agent.model_copy(update={"instructions": f"{agent.instructions}\nuser:\nGo on."})
        handle = await start_run(client, asking, task_queue=queue, options=options)
        await handle.result()
        return await usage_of(handle)
    talk, used = (
        session(client, agent, f"bench-{uuid.uuid4()}", task_queue=queue, options=options),
        list[Usage](),
    )
    for turn in range(1, work.turns + 1):
        handle = await talk.send(f"Question {turn}: " + "y" * 500)
        await handle.result()
        used += await usage_of(handle)
    await talk.close()
    return used


def share_of(used: Sequence[Usage]) -> float:
    """The share of the input that came from the cache, from the third call on."""
    return sum(used[SKIPPED:], Usage()).cache_share


async def measure(client: Client, api: Api, work: Work, *, is_after: bool) -> tuple[float, float]:
    """The share from the cache, and US dollars."""
    with CacheServer() as server:
        agent = api.agent(
            server.url, api.after if is_after else api.before, rounds=work.rounds, calls=work.calls
        )
        queue = f"bench-{uuid.uuid4()}"
        async with create_worker(client, task_queue=queue, tools=[look_up]):
            used = await usages(
                client, queue, agent, work, work.options_for(0.6 if is_after else 1.0)
            )
    return share_of(used), api.price.of(sum(used, Usage())) or 0.0


async def main(wanted: str) -> None:
    print(f"{'':34}{'':32}{'share before':>13}{'after':>7}{'$ before':>10}{'after':>8}", flush=True)
    binary = find_binary()
    environment: Any = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=dynamic_config(*FAST),
    )
    async with environment:
        client = await connect(environment.client.service_client.config.target_host)
        for work in WORKS:
            for api in APIS if wanted in work.label else ():
                before, cost_before = await measure(client, api, work, is_after=False)
                after, cost_after = await measure(client, api, work, is_after=True)
                figures = f"{before:13.2f}{after:7.2f}{cost_before:10.3f}{cost_after:8.3f}"
                print(f"{work.label:34}{api.label:32}{figures}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="?", default="", help="only what has this in its name")
    run(main(parser.parse_args().work))
