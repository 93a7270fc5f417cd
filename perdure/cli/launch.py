"""Starts a run where its work can be done, and watches it."""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .agent_file import load_agent, scripted
from .console import answer, say
from .follow import watch
from .inputs import read_inputs
from .problems import DONE
from .session import Session, open_session
from .task_queue import DEFAULT_QUEUE, somebody_polls, worker_command, worker_inside
from .user_code import UserCode

if TYPE_CHECKING:
    from ..agent import Agent
    from ..client import RunHandle
    from ..options import RunOptions


@dataclass(frozen=True)
class RunRequest:
    """What the arguments of `perdure run` say."""

    agent_file: Path
    inputs: list[str]
    inputs_json: Path | None
    options: RunOptions
    code: UserCode
    script: str | None
    id: str | None
    task_queue: str | None
    detach: bool
    as_json: bool
    quiet: bool


async def perform(request: RunRequest) -> int:
    """Start the run and, unless it is detached, wait for it; returns the exit code."""
    from ..client import start_run

    loaded = load_agent(request.agent_file)
    inputs = read_inputs(loaded, request.inputs, request.inputs_json)
    run_id = request.id or _new_id(loaded, request.agent_file)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        agent = stack.enter_context(scripted(loaded, request.script))
        inside = await _needs_worker_inside(session, request)
        queue = request.task_queue or (f"{DEFAULT_QUEUE}-{run_id}" if inside else DEFAULT_QUEUE)
        if inside:
            await stack.enter_async_context(worker_inside(session, task_queue=queue, code=request.code))
        handle = await start_run(session.client, agent, inputs, task_queue=queue, id=run_id, options=request.options)
        if request.detach:
            return await _report_detached(session, handle, queue, request)
        if not request.quiet:
            _announce(session, handle, agent, request, inside=inside)
        try:
            code = await watch(session, handle, quiet=request.quiet, as_json=request.as_json)
        except asyncio.CancelledError:
            _say_how_to_go_on(handle, queue, request.code, inside=inside)
            raise
        if not request.quiet:
            _say_where_to_look(session, handle, code)
        return code


async def _needs_worker_inside(session: Session, request: RunRequest) -> bool:
    """Code or a script that only this command has needs one; so does an embedded server without any worker."""
    if request.detach:
        return False
    if request.code or request.script:
        return True
    return session.embedded is not None and not await somebody_polls(
        session.client, request.task_queue or DEFAULT_QUEUE
    )


def _new_id(agent: Agent, file: Path) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", (agent.name or file.stem).lower()).strip("-")
    return f"{name or 'run'}-{secrets.token_hex(4)}"


def _announce(session: Session, handle: RunHandle, agent: Agent, request: RunRequest, *, inside: bool) -> None:
    worker = "worker in this process" if inside else "workers elsewhere"
    say(f"Run {handle.id}: {_describe_model(agent, request.script)}, {session.place}, {worker}", "strong")


def _describe_model(agent: Agent, script: str | None) -> str:
    if script:
        return f"scripted model ({script})"
    return f"model {agent.model.id} of {agent.model.provider or 'openai'}" if agent.model else "no model declared"


def _say_where_to_look(session: Session, handle: RunHandle, code: int) -> None:
    if code == DONE:
        say(f"Run {handle.id} is done. What it did: perdure events {handle.id}", "faint")
    if url := session.ui_url(handle.id):
        hint = "   (the UI runs while a server does: perdure dev)" if session.embedded else ""
        say(f"Temporal UI: {url}{hint}", "faint")


def _say_how_to_go_on(handle: RunHandle, queue: str, code: UserCode, *, inside: bool) -> None:
    say(f"Run {handle.id} goes on without this command." if not inside else f"Run {handle.id} waits for a worker.")
    if inside:
        say(f"  go on: {worker_command(queue, code)}")
    say(f"  its answer: perdure result {handle.id}    end it: perdure cancel {handle.id}")


async def _report_detached(session: Session, handle: RunHandle, queue: str, request: RunRequest) -> int:
    url = session.ui_url(handle.id)
    answer({"id": handle.id, "taskQueue": queue, "uiUrl": url} if request.as_json else handle.id)
    if request.quiet:
        return DONE
    say(f"Run {handle.id} is started: perdure result {handle.id} waits for its answer.")
    if url:
        say(f"Temporal UI: {url}")
    if not await somebody_polls(session.client, queue):
        say(f"No worker polls the task queue {queue!r} yet. Start one: {worker_command(queue)}", "strong")
    return DONE
