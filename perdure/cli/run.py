"""`perdure run`: starts a run, and a worker if it needs one; follows it, and prints its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..client import RunHandle
from ..client.runs import start_run
from ..client.starting import readable_id
from ..commands import command_line
from ..settings.agent_file import with_on_failure
from .agent_file import scripted_agent
from .console import answer, say
from .follow import follow_to_the_end
from .given import Given
from .problems import DONE, UsageProblem
from .server_connection import ServerConnection, connect_to_server
from .start import StartArguments, arguments_from_file
from .table import DEFAULT_QUEUE
from .user_code import say_mocks
from .worker_inside import resume_command, worker_command, worker_inside

Begin = Callable[[ServerConnection], Awaitable[StartArguments]]
"""Collects the arguments of a run, once there is a server."""


def run(given: Given) -> Coroutine[Any, Any, int]:
    """Load the agent and its inputs, report their faults before a server starts, and run.

    Raises `UsageProblem`, and as `arguments_from_file` does.
    """
    if given.detach and given.scripted:
        raise UsageProblem(
            "--detach and --scripted exclude each other: the scripted model ends with this command"
        )
    begin = arguments_from_file(given)
    if not (given.scripted or given.quiet):
        say_mocks(honoured=False)
    return perform(given, begin)


async def perform(given: Given, beginning: StartArguments | Begin) -> int:
    """Start the run and, unless it is detached, follow it; return the exit code. Raises as
    `beginning` does.
    """
    async with AsyncExitStack() as stack:
        if isinstance(beginning, StartArguments):  # A missing script is reported at once.
            begin, agent = beginning, _scripted(beginning, stack)
            server = await stack.enter_async_context(connect_to_server())
        else:
            server = await stack.enter_async_context(connect_to_server())
            begin = await beginning(server)
            agent = _scripted(begin, stack)
        run_id = given.new_id or readable_id(agent.name or Path(given.agent_file or "run").stem)
        inside = await _needs_worker_inside(server, given, begin)
        queue = begin.task_queue or (f"{DEFAULT_QUEUE}-{run_id}" if inside else DEFAULT_QUEUE)
        options = begin.options
        if inside:
            await stack.enter_async_context(
                worker_inside(server, task_queue=queue, code=begin.code)
            )
            if begin.task_queue is None:  # Nothing else polls this queue.
                options = options.model_copy(update={"missing_tool_grace": 0.0})
        elif given.detach:
            options = with_on_failure(begin.agent, options, "hold")
        with telling_if_interrupted(run_id):
            handle = await start_run(
                server.client,
                agent,
                begin.inputs,
                messages=begin.messages,
                task_queue=queue,
                id=run_id,
                options=options,
                **begin.start_options(queue),
            )
        if given.detach:
            return await _report_detached(server, handle, queue, begin, given)
        if not given.quiet:
            _announce(server, handle, _describe_model(agent, begin))
        return await follow_to_the_end(server, handle, quiet=given.quiet, as_json=given.as_json)


def _scripted(begin: StartArguments, stack: AsyncExitStack) -> Agent:
    return stack.enter_context(scripted_agent(begin.agent, begin.memo.scripted))


@contextmanager
def telling_if_interrupted(run_id: str) -> Iterator[None]:
    """Name the run when the command is interrupted while it starts: the server may have it."""
    try:
        yield
    except asyncio.CancelledError:
        status, cancel = command_line("status", run_id), command_line("cancel", run_id)
        say(f"Run {run_id} may have been started: {status}    end it: {cancel}")
        raise


async def _needs_worker_inside(
    server: ServerConnection, given: Given, begin: StartArguments
) -> bool:
    """Return whether this process needs a worker: for code or a script of this command, or because
    the queue has no other.
    """
    if given.detach:
        return False
    if begin.code or begin.memo.has_code:
        return True
    queue = begin.task_queue or DEFAULT_QUEUE
    return server.embedded is not None and not await server.is_polled(queue)


def _announce(server: ServerConnection, handle: RunHandle, model: str) -> None:
    worker = "worker in this process" if server.works else "workers elsewhere"
    say(f"Run {handle.id}: {model}, {server.place}, {worker}", "strong")
    if server.ends_here and (url := server.ui_url(handle.id)):
        say(f"Temporal UI, until this command ends: {url}", "faint")


def _describe_model(agent: Agent, begin: StartArguments) -> str:
    if begin.memo.scripted:
        return f"scripted model ({begin.memo.scripted})"
    return describe_model(agent)


def describe_model(agent: Agent) -> str:
    """Return the model's id and provider for a person."""
    model = agent.model
    return f"model {model.id} of {model.provider_key}" if model else "no model declared"


async def _report_detached(
    server: ServerConnection, handle: RunHandle, queue: str, begin: StartArguments, given: Given
) -> int:
    url = None if server.ends_here else server.ui_url(handle.id)
    answer({"id": handle.id, "taskQueue": queue, "uiUrl": url} if given.as_json else handle.id)
    if given.quiet:
        return DONE
    say(f"Run {handle.id} is started: {command_line('result', handle.id)} waits for its answer.")
    if url:
        say(f"Temporal UI: {url}")
    if not await server.is_polled(queue):
        resume = f"{resume_command(handle.id)}, or " if begin.code else ""
        command = worker_command(queue, begin.code.sources)
        say(f"No worker polls the task queue {queue!r} yet. Start one: {resume}{command}", "strong")
    return DONE
