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
from temporalio.client import Client

from perdure.client import connect, get_run
from perdure.guardrails import Guardrails
from perdure.providers.base import FunctionDefinition
from perdure.tools import tool
from perdure.tools.context import ToolContext
from perdure.worker import create_worker

from .isolated_functions import sign
from .run_vectors import Interruption, VectorCase, load_run_vectors


class WorkerJob(BaseModel):
    """What one worker process is told."""

    address: str
    task_queue: str
    folder: str
    """Where each run has a folder, named after its id, with the diary of its tools."""
    linger: float = 0.0
    """At most so many seconds pass between the beginning and the end of a tool."""
    vector: str | None = None
    """Serve the tools and guardrails of this upstream vector instead."""
    options: dict[str, Any] = {}
    """For `create_worker`."""


VECTOR_TOOL_SECONDS = 0.3
"""Longer than it takes to kill a worker: a tool that was not reported has not taken effect
either."""


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

    def is_first_time(self, key: str) -> bool:
        """True for the first process that asks for this key, and for no other."""
        try:
            os.close(os.open(self._folder / key, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


async def serve(job: WorkerJob) -> None:
    """Run a worker, with perdure's defaults where the job says nothing else, until the process is
    killed.
    """
    client = await connect(job.address)
    guardrails: dict[str, Guardrails] = {}
    if job.vector is None:
        tools = diary_tools(job)
    else:
        case = next(case for case in load_run_vectors() if case.name == job.vector)
        tools = vector_tools(job, case, client)
        if case.guardrails:
            guardrails["vector"] = case.guardrails
    by_name: dict[str, Any] = {
        "instructions": {"greet": greet},
        "prepare_tools": {"in_turn": in_turn},
    }
    hooks: dict[str, Any] = {"guardrails": guardrails, **by_name}
    worker = create_worker(client, task_queue=job.task_queue, tools=tools, **hooks, **job.options)
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

    return {"step": step, "pay": pay, "kill_worker": kill_worker, "sign": sign}


def vector_tools(job: WorkerJob, case: VectorCase, client: Client) -> dict[str, Callable[..., Any]]:
    running: set[str] = set()

    async def answer(context: ToolContext, **arguments: Any) -> str:
        diary = Diary(job.folder, context)
        diary.note("start")
        running.add(context.call_id)
        # One after the other: two that end together can't both be reported before the worker is
        # killed.
        await asyncio.sleep(VECTOR_TOOL_SECONDS * len(running))
        running.discard(context.call_id)
        for due in case.due_before(context.iteration + 1):
            if diary.is_first_time(f"interrupted-{case.interruptions.index(due)}"):
                await interrupt(due, client, context.run_id)
        diary.note("end")
        return case.tool_results[context.call_id]

    return {declared["name"]: answer for declared in case.agent["tools"]}


async def interrupt(due: Interruption, client: Client, run_id: str) -> None:
    run = get_run(client, run_id)
    await (run.cancel() if due.text is None else run.steer(due.text))
