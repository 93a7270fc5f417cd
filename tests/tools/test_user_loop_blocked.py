"""User code that blocks an event loop harms nobody but itself: each effect once, each finished
result kept.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from temporalio.client import Client

import perdure
from perdure.client import RunHandle
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import asks, call, says
from perdure.tools import tool
from perdure.worker import create_worker

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

BLOCK = 5.4
"""Seconds: longer than the 5 s after which an activity without heartbeats counts as lost."""
WORK = 1.0
"""Seconds that a neighbour's tool or model takes: it ends while the loop is blocked."""
LONG = [Message.user("x" * 400) for _ in range(8)]


class Neighbours:
    """Runs that do nothing wrong, on the worker whose user code blocks, and what they have done."""

    def __init__(self, stage: Stage, scripted: Scripted) -> None:
        self.stage = stage
        self.scripted = scripted
        self.effects: Counter[str] = Counter()
        self.model = scripted([says("slow", delay=2 * WORK)])
        self.block = BLOCK

    async def works(self, text: str = "") -> str:
        self.effects["works"] += 1
        await asyncio.sleep(WORK)
        return "worked"

    async def blocks(self, *subject: Any, text: str = "") -> Any:
        """Blocks its event loop, as soon as the others are under way."""
        self.effects["blocks"] += 1
        while not (self.effects["works"] and self.effects["pays"] and self.model.requests):
            await asyncio.sleep(0.02)
        time.sleep(self.block)
        return "blocked"

    async def judges(self, *subject: Any) -> GuardrailResult:
        await self.blocks()
        return GuardrailResult(allowed=True)

    async def meet(self, blocked: str) -> list[Any]:
        """Four runs on one worker; one of them blocks in its tool, guardrail or compactor. Gives
        what came of it.
        """
        tools = {"works": self.works, "pays": payment(self.effects), "blocks": self.blocks}
        hooks = {
            "guardrails": {"slow": Guardrails(input=self.judges)},
            "compactors": {"slow": self.blocks},
        }
        async with create_worker(
            self.stage.client, task_queue=self.stage.task_queue, tools=tools, **hooks
        ):  # type: ignore[arg-type]
            blocker = await self.blocker(blocked)
            working, paying = [await self.asking(name) for name in ("works", "pays")]
            talking = await self.stage.start(scripted_agent(self.model))
            texts = [(await run.result()).messages[3].text for run in (working, paying)]
            outputs = [(await run.result()).output for run in (talking, blocker)]
        return [blocked, dict(self.effects), len(self.model.requests), *texts, *outputs]

    async def blocker(self, blocked: str) -> RunHandle:
        if blocked == "tool":
            return await self.asking("blocks")
        agent = scripted_agent(self.scripted([says("done")]))
        if blocked == "guardrail":
            return await self.stage.start(agent, guardrails="slow")
        return await self.stage.start(agent, LONG, context_budget=1000, compactor="slow")

    async def asking(self, name: str) -> RunHandle:
        return await self.stage.start(
            scripted_agent(self.scripted([asks(call(name)), says("done")]), [name])
        )


class Watched:
    """A call of `invoke_agent` whose `on_event` blocks its thread once, at an event of one type."""

    def __init__(self, scripted: Scripted, type: str) -> None:
        self.effects: Counter[str] = Counter()
        delay = 3 * WORK if type == "llm_start" else 0.0
        self.model = scripted([asks(call("works"), call("pays"), delay=delay), says("done")])
        self._type = type
        self._stopped = False

    async def works(self, text: str = "") -> str:
        self.effects["works"] += 1
        await asyncio.sleep(WORK)
        return "worked"

    def on_event(self, type: str, data: JsonObject) -> None:
        if type == self._type and not self._stopped:
            self._stopped = True
            time.sleep(BLOCK)
        if type == "tool_result":
            self.effects[data["result"]] += 1

    def call(self, client: Client) -> list[Any]:
        tools = {"works": self.works, "pays": payment(self.effects)}
        agent = scripted_agent(self.model, ["works", "pays"])
        options: JsonObject = {
            "parallel_tool_calls": True,
            "on_event": self.on_event,
            "client": client,
        }
        output = perdure.invoke_agent(agent, {}, tools, **options)
        return [self._type, dict(self.effects), len(self.model.requests), output]


def payment(effects: Counter[str]) -> Callable[..., str]:
    @tool(idempotent=False)
    def pays(text: str = "") -> str:
        effects["pays"] += 1
        time.sleep(WORK)
        return "paid"

    return pays


def met(blocked: str) -> list[Any]:
    """What comes of a meeting when all goes well."""
    return [blocked, {"works": 1, "pays": 1, "blocks": 1}, 1, "worked", "paid", "slow", "done"]


def watched(type: str) -> list[Any]:
    """What comes of a watched call when all goes well."""
    return [type, {"works": 1, "pays": 1, "worked": 1, "paid": 1}, 2, "done"]


def neighbours(client: Client, scripted: Scripted) -> Neighbours:
    return Neighbours(Stage(client, f"test-{uuid.uuid4()}"), scripted)


async def test_each_effect_happens_once(client: Client, scripted: Scripted) -> None:
    hooks, types = ("tool", "guardrail", "compactor"), ("llm_start", "tool_call_start")
    seen = await asyncio.gather(
        *(neighbours(client, scripted).meet(blocked) for blocked in hooks),
        *(asyncio.to_thread(Watched(scripted, type).call, client) for type in types),
    )
    assert seen == [*map(met, hooks), *map(watched, types)]
