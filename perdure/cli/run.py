"""`perdure run`: start a run where it can be executed, follow it, print its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..agents import Agent
from ..client import RunHandle
from ..client.runs import start_run
from ..client.starting import readable_id
from ..commands import command_line
from ..model_choice import model_choice
from ..options import RunOptions
from ..settings.agent_file import with_on_failure
from . import shared_options as options
from .agent_file import read_deps, scripted_agent
from .command import execute, use_command_class
from .console import answer, say
from .follow import follow_to_the_end
from .problems import DONE, UsageProblem
from .run_options import CommandWithRunOptions, chosen_fields
from .server_connection import ServerConnection, connect_to_server
from .shared_options import DEFAULT_QUEUE
from .start import CodeSources, RunRequest, StartArguments, begin_with_file, served_as
from .user_code import UserCode, require_mocks
from .worker_inside import resume_command, worker_command, worker_inside

Begin = Callable[[ServerConnection], Awaitable[StartArguments]]
"""Finds out what a run begins with, once there is a server."""


@use_command_class(CommandWithRunOptions)
def run(
    context: typer.Context,
    agent_file: options.AgentFile,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    deps: options.Deps = None,
    model: options.OtherModel = None,
    provider: options.Provider = None,
    endpoint: options.Endpoint = None,
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            "-d",
            help="Start the run, print its id, and exit; it is held where it can't go on.",
        ),
    ] = False,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The run's id; default: a new, readable one."),
    ] = None,
    task_queue: Annotated[
        str | None,
        typer.Option(
            "--task-queue", metavar="NAME", help="The task queue whose workers execute the run."
        ),
    ] = None,
    tenant: options.Tenant = None,
    tenant_weight: options.TenantWeight = None,
    priority: options.Priority = None,
    scripted: options.Scripted = None,
    mock: options.Mock = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    yes: options.Yes = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Run an agent.

    The answer goes to stdout, what the agent does to stderr.

    Without TEMPORAL_ADDRESS an embedded Temporal server is used. A worker runs inside this command
    when --tools is given, or when the embedded server has none; otherwise the workers of the task
    queue execute the run.

    """
    request = RunRequest(
        agent=str(agent_file),
        inputs=inputs or [],
        inputs_json=inputs_json,
        sources=CodeSources(
            tools or (), guardrails or (), compactor or (), scripted, mock, credentials
        ),
        fields=chosen_fields(context),
        id=id,
        task_queue=task_queue,
        served={**served_as(tenant, tenant_weight, priority), **read_deps(deps)},
        detach=detach,
        as_json=as_json,
        quiet=quiet,
        choice=model_choice(model, provider, endpoint),
        yes=yes,
    )
    execute(perform(request, _from_file(request)))


def _from_file(request: RunRequest) -> StartArguments:
    """Load the agent and its inputs, and report their faults before a server starts."""
    if request.detach and request.sources.scripted:
        raise UsageProblem(
            "--detach and --scripted exclude each other: the scripted model ends with this command"
        )
    if request.detach and request.sources.mock:
        raise UsageProblem(
            "--detach and --mock exclude each other: the worker honours mocks (perdure worker "
            "--mock)"
        )
    require_mocks(
        asked=request.sources.mock, scripted=request.sources.scripted, quiet=request.quiet
    )
    return begin_with_file(request)


async def perform(request: RunRequest, beginning: StartArguments | Begin) -> int:
    """Start the run and, unless it is detached, follow it; returns the exit code. Raises what
    `beginning` raises.
    """
    async with AsyncExitStack() as stack:
        if isinstance(beginning, StartArguments):
            begin, agent = (
                beginning,
                stack.enter_context(scripted_agent(beginning.agent, beginning.script)),
            )
            server = await stack.enter_async_context(connect_to_server())
        else:
            server = await stack.enter_async_context(connect_to_server())
            begin = await beginning(server)
            agent = stack.enter_context(scripted_agent(begin.agent, begin.script))
        run_id = request.id or readable_id(begin.agent.name or Path(request.agent).stem)
        wanted = request.task_queue or begin.task_queue
        inside = await _needs_worker_inside(server, request, begin, wanted)
        queue = wanted or (f"{DEFAULT_QUEUE}-{run_id}" if inside else DEFAULT_QUEUE)
        if inside:
            await stack.enter_async_context(
                worker_inside(server, task_queue=queue, code=begin.code, mock=begin.memo.mock)
            )
        with telling_if_interrupted(run_id):
            handle = await start_run(
                server.client,
                agent,
                begin.inputs,
                messages=begin.messages,
                task_queue=queue,
                id=run_id,
                options=_options(begin, inside=inside, detached=request.detach),
                **begin.start_options(queue, request.served),
            )
        if request.detach:
            return await _report_detached(server, handle, queue, begin.code, request)
        if not request.quiet:
            _announce(server, handle, _describe_model(agent, begin))
        return await follow_to_the_end(
            server, handle, quiet=request.quiet, as_json=request.as_json, helps=True
        )


def _options(begin: StartArguments, *, inside: bool, detached: bool) -> RunOptions:
    if inside:
        return begin.options.model_copy(update={"missing_tool_grace": 0.0})
    return with_on_failure(begin.agent, begin.options, "hold") if detached else begin.options


@contextmanager
def telling_if_interrupted(run_id: str) -> Iterator[None]:
    """While a run is being started: who interrupts that is told its id, for the server may have it
    already.
    """
    try:
        yield
    except asyncio.CancelledError:
        status, cancel = command_line("status", run_id), command_line("cancel", run_id)
        say(f"Run {run_id} may have been started: {status}    end it: {cancel}")
        raise


async def _needs_worker_inside(
    server: ServerConnection, request: RunRequest, begin: StartArguments, queue: str | None
) -> bool:
    """Return whether this process needs a worker: for code or a script of this command, or for lack
    of another.
    """
    if request.detach:
        return False
    if begin.code or begin.script or begin.memo.mock:
        return True
    return server.embedded is not None and not await server.is_polled(queue or DEFAULT_QUEUE)


def _announce(server: ServerConnection, handle: RunHandle, model: str) -> None:
    worker = "worker in this process" if server.works else "workers elsewhere"
    say(f"Run {handle.id}: {model}, {server.place}, {worker}", "strong")
    if server.ends_here and (url := server.ui_url(handle.id)):
        say(f"Temporal UI, until this command ends: {url}", "faint")


def _describe_model(agent: Agent, begin: StartArguments) -> str:
    if begin.memo.mock:
        return "mock answers (DEBUG_MOCK_RESPONSES)"
    if begin.script:
        return f"scripted model ({begin.script})"
    return (
        f"model {agent.model.id} of {agent.model.provider_key}"
        if agent.model
        else "no model declared"
    )


async def _report_detached(
    server: ServerConnection, handle: RunHandle, queue: str, code: UserCode, request: RunRequest
) -> int:
    url = None if server.ends_here else server.ui_url(handle.id)
    answer({"id": handle.id, "taskQueue": queue, "uiUrl": url} if request.as_json else handle.id)
    if request.quiet:
        return DONE
    say(f"Run {handle.id} is started: {command_line('result', handle.id)} waits for its answer.")
    if url:
        say(f"Temporal UI: {url}")
    if not await server.is_polled(queue):
        resume = f"{resume_command(handle.id)}, or " if code else ""
        command = worker_command(queue, code or None)
        say(f"No worker polls the task queue {queue!r} yet. Start one: {resume}{command}", "strong")
    return DONE
