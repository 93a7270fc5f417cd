"""`perdure run`: start a run where it can be executed, follow it, print its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from . import options
from .agent_file import load_checked, scripted_agent
from .console import answer, say
from .follow import follow
from .inputs import read_inputs
from .problems import DONE, UsageProblem
from .running import execute
from .session import Session, open_session
from .task_queue import DEFAULT_QUEUE, somebody_polls, worker_command, worker_inside
from .user_code import UserCode, load_user_code

if TYPE_CHECKING:
    from ..agent import Agent
    from ..client import RunHandle
    from ..options import RunOptions


def run(
    agent_file: options.AgentFile,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Start the run, print its id, and exit.")] = False,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The run's id; default: a new, readable one.")
    ] = None,
    task_queue: Annotated[
        str | None, typer.Option("--task-queue", metavar="NAME", help="The task queue whose workers execute the run.")
    ] = None,
    max_iterations: Annotated[int, typer.Option(min=1, help="Rounds of tool calls before --on-limit applies.")] = 10,
    parallel_tools: Annotated[bool, typer.Option("--parallel-tools", help="Run tool calls concurrently.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show the model's text as it is written.")] = False,
    context_budget: Annotated[
        int | None, typer.Option(min=1, metavar="CHARS", help="Trim the conversation to this size.")
    ] = None,
    on_limit: Annotated[
        Literal["raise", "partial", "final_answer"], typer.Option(help="What happens when a limit is reached.")
    ] = "raise",
    scripted: Annotated[
        str | None,
        typer.Option(metavar="SCRIPT", help="A scripted model instead of the agent's: file.json or file.py:function."),
    ] = None,
    as_json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write nothing but errors to stderr.")] = False,
) -> None:
    """Run an agent.

    The answer goes to stdout, what the agent does to stderr.

    Without TEMPORAL_ADDRESS an embedded Temporal server is used. A worker runs inside this command when --tools
    is given, or when the embedded server has none; otherwise the workers of the task queue execute the run.
    """
    from ..options import RunOptions

    if detach and scripted:
        _refuse_detached_script()
    code = load_user_code(tools or (), guardrails or (), compactor or ())
    chosen = RunOptions(
        max_iterations=max_iterations,
        parallel_tool_calls=parallel_tools,
        stream=stream,
        context_budget=context_budget,
        on_limit=on_limit,
        guardrails=_only_name("--guardrails", code.guardrails),
        compactor=_only_name("--compactor", code.compactors),
    )
    request = RunRequest(
        agent_file=agent_file,
        inputs=inputs or [],
        inputs_json=inputs_json,
        options=chosen,
        code=code,
        script=scripted,
        id=id,
        task_queue=task_queue,
        detach=detach,
        as_json=as_json,
        quiet=quiet,
    )
    execute(_perform(request))


def _refuse_detached_script() -> NoReturn:
    raise UsageProblem("--detach and --scripted exclude each other: the scripted model ends with this command")


def _only_name(option: str, named: Mapping[str, Any]) -> str | None:
    """The one name that is given, or None. Raises `UsageProblem` when there are several."""
    if len(named) > 1:
        raise UsageProblem(f"{option} names {', '.join(named)}, expected one: a run uses one")
    return next(iter(named), None)


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


async def _perform(request: RunRequest) -> int:
    """Start the run and, unless it is detached, follow it; returns the exit code."""
    from ..client.runs import readable_id, start_run

    loaded = _load(request)
    inputs = read_inputs(loaded, request.inputs, request.inputs_json)
    run_id = request.id or readable_id(loaded.name or request.agent_file.stem)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        agent = stack.enter_context(scripted_agent(loaded, request.script))
        inside = await _needs_worker_inside(session, request)
        queue = request.task_queue or (f"{DEFAULT_QUEUE}-{run_id}" if inside else DEFAULT_QUEUE)
        if inside:
            await stack.enter_async_context(worker_inside(session, task_queue=queue, code=request.code))
        handle = await start_run(session.client, agent, inputs, task_queue=queue, id=run_id, options=request.options)
        if request.detach:
            return await _report_detached(session, handle, queue, request)
        if not request.quiet:
            _announce(session, handle, agent, request, inside=inside)
        return await _follow(session, handle, queue, request, inside=inside)


def _load(request: RunRequest) -> Agent:
    """The agent; what can't work is refused here, before anything is started."""
    from ..client.connection import environment_names_a_server

    elsewhere = not request.code and not request.script and (request.detach or environment_names_a_server())
    return load_checked(
        request.agent_file,
        request.code.tools,
        has_model=request.script is None,
        elsewhere=elsewhere,
        quiet=request.quiet,
    )


async def _follow(session: Session, handle: RunHandle, queue: str, request: RunRequest, *, inside: bool) -> int:
    try:
        code = await follow(session, handle, quiet=request.quiet, as_json=request.as_json)
    except asyncio.CancelledError:
        _say_how_to_go_on(handle, queue, request.code, inside=inside)
        raise
    if not request.quiet:
        _say_where_to_look(session, handle, code)
    return code


async def _needs_worker_inside(session: Session, request: RunRequest) -> bool:
    """Whether the run needs a worker in this process: for code or a script of this command, or for lack of another."""
    if request.detach:
        return False
    if request.code or request.script:
        return True
    return session.embedded is not None and not await somebody_polls(
        session.client, request.task_queue or DEFAULT_QUEUE
    )


def _announce(session: Session, handle: RunHandle, agent: Agent, request: RunRequest, *, inside: bool) -> None:
    worker = "worker in this process" if inside else "workers elsewhere"
    say(f"Run {handle.id}: {_describe_model(agent, request.script)}, {session.place}, {worker}", "strong")


def _describe_model(agent: Agent, script: str | None) -> str:
    if script:
        return f"scripted model ({script})"
    return f"model {agent.model.id} of {agent.model.provider_key}" if agent.model else "no model declared"


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
