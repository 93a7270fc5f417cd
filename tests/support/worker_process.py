"""What a worker process of the kill tests does: serves tools that keep a diary of their
executions.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from perdure.client import connect
from perdure.json_types import JsonObject
from perdure.providers.base import FunctionDefinition
from perdure.tools import tool
from perdure.tools.context import ToolContext
from perdure.trace.environment import provider_of_process
from perdure.worker import create_worker


class WorkerJob(BaseModel):
    """What one worker process is told."""

    address: str
    task_queue: str
    folder: str
    """Where each run has a folder, named after its id, with the diary of its tools."""
    linger: float = 0.0
    """At most so many seconds pass between the beginning and the end of a tool."""
    options: JsonObject = {}
    """For `create_worker`."""


class Diary:
    """One line for each beginning and each end of an execution; many processes may write at
    once.
    """

    def __init__(self, folder: str, context: ToolContext) -> None:
        self._folder = Path(folder) / context.run_id
        self._context = context

    def note(self, event: str) -> None:
        it = self._context
        entry = {
            "event": event,
            "call": it.call_id,
            "at": time.monotonic(),
            "attempt": it.attempt,
            "key": it.idempotency_key,
            "deps": it.deps,
        }
        with (self._folder / "diary.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    async def hold(self) -> None:
        """Stay in the first attempt of the call that the run's test has named, until it is let
        go.
        """
        held = self._folder / f"held-{self._context.call_id}"
        while self._context.attempt == 1 and held.exists():
            await asyncio.sleep(0.02)


async def serve(job: WorkerJob) -> None:
    """Run a worker, with perdure's defaults where the job says nothing else, until the process is
    killed.
    """
    client = await connect(job.address)
    hooks: JsonObject = {
        "instructions": {"greet": greet},
        "prepare_tools": {"in_turn": in_turn},
    }
    worker = create_worker(
        client,
        task_queue=job.task_queue,
        tools=diary_tools(job),
        tracer_provider=provider_of_process(print),
        **hooks,
        **job.options,
    )
    await worker.run()


def in_turn(tools: list[FunctionDefinition], context: ToolContext) -> list[FunctionDefinition]:
    """In each iteration one tool of the agent, in their order; none once all were offered."""
    return tools[context.iteration - 1 : context.iteration]


def greet(context: ToolContext) -> str:
    return f"Greet {context.deps.tenant}."


def diary_tools(job: WorkerJob) -> dict[str, Callable[..., Any]]:
    async def step(context: ToolContext, text: str = "") -> str:
        diary = Diary(job.folder, context)
        diary.note("start")
        await diary.hold()
        await asyncio.sleep(random.uniform(0.0, job.linger))
        diary.note("end")
        return f"step {text} done"

    @tool(idempotent=False)
    async def pay(context: ToolContext, text: str = "") -> str:
        return await step(context, text)

    def kill_worker(context: ToolContext, text: str = "") -> None:
        Diary(job.folder, context).note("start")
        os._exit(137)

    def later(context: ToolContext) -> str:
        token = context.later()
        Diary(job.folder, context).note(token)
        return token

    return {"step": step, "pay": pay, "kill_worker": kill_worker, "later": later}
