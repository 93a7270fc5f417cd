"""`perdure fork`: starts a new run from a run's conversation as it was before an iteration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from ..agents import Agent
from ..client import RunHandle
from ..client.fork import Changes, fork_of
from ..commands import command_line
from ..history.chain import Chain
from . import shared_options as options
from .agent_file import load_agent, read_given
from .command import execute, use_command_class
from .problems import UsageProblem
from .recorded_run import find_run, read_recorded
from .run import perform
from .run_options import CommandWithRunOptions, chosen_fields, run_options
from .server_connection import ServerConnection
from .start import (
    CodeSources,
    RunRequest,
    StartArguments,
    code_to_go_on,
    hooks_of,
    require_functions,
    shared_queue,
)

_OPEN = ("running", "waiting_for_approval", "held")


@use_command_class(CommandWithRunOptions)
def fork(
    context: typer.Context,
    id: options.RunId,
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="N",
            help="The fork begins before this iteration, from 1; -1 is the last one, and so on; "
            "default: where a "
            "closed run ended, or before the current iteration of an open one.",
        ),
    ] = None,
    steer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The first message to the agent.")
    ] = None,
    model: options.OtherModel = None,
    agent: options.OtherAgent = None,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    scripted: options.Scripted = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start the fork, print its id, and exit.")
    ] = False,
    new_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The fork's id; default: a new, readable one."),
    ] = None,
    task_queue: Annotated[
        str | None,
        typer.Option(
            "--task-queue", metavar="NAME", help="The task queue; default: that of the run."
        ),
    ] = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Start a new run from another run's conversation, as it was before an iteration.

    The fork repeats nothing: it knows the run's work until then. The run may be open or closed, and
    stays as it is. Tools come from the same place as for `perdure resume`, or from --tools.
    """
    revised = load_agent(agent) if agent else None
    request = RunRequest(
        agent=id,
        inputs=inputs or [],
        inputs_json=inputs_json,
        sources=CodeSources(
            tools or (), guardrails or (), compactor or (), scripted, credentials=credentials
        ),
        fields=chosen_fields(context),
        id=new_id,
        task_queue=task_queue,
        detach=detach,
        as_json=as_json,
        yes=yes,
        quiet=quiet,
    )
    execute(
        perform(request, partial(_begin, request, at=at, steer=steer, model=model, agent=revised))
    )


async def _begin(
    request: RunRequest,
    server: ServerConnection,
    *,
    at: int | None,
    steer: str | None,
    model: str | None,
    agent: Agent | None,
) -> StartArguments:
    run_id = request.agent
    if run_id.endswith(".jsonl"):
        raise UsageProblem(
            f"{run_id!r} is an export, expected the id of a run on the server. An export works "
            "with: "
            f"{command_line('rerun', run_id)}"
        )
    handle = await find_run(server, run_id)
    run_id, before = handle.id, await iteration_at(handle, at)
    recorded = await read_recorded(server.client, run_id)
    if request.detach and (request.sources.scripted or (recorded.memo.scripted and agent is None)):
        raise UsageProblem(
            "--detach: the model of this run is scripted, and ends with this command"
        )
    given = read_given(agent, request.inputs, request.inputs_json)
    code, memo = await code_to_go_on(
        server, request, recorded, recorded.input.agent if agent is None else None
    )
    if agent is not None:
        memo = replace(memo, scripted=request.sources.scripted)  # The model of that file answers.
    fields = run_options({**request.fields, **hooks_of(code)}).model_dump(exclude_unset=True)
    try:
        fork = await fork_of(
            Chain(server.client, run_id), before, Changes(steer, model, agent, fields, given)
        )
    except ValueError as error:
        raise UsageProblem(f"--{error}") from error
    queue = shared_queue(fork.task_queue, run_id)
    if code or (queue is None and request.task_queue is None):
        command = command_line("fork", run_id, more="… --tools file.py")
        require_functions(fork.agent, code, f"a fork of run {run_id}", command)
    return StartArguments(
        fork.agent, fork.inputs, fork.messages, fork.options, code, memo, queue, fork.start
    )


async def iteration_at(run: RunHandle, at: int | None) -> int | None:
    """Return the iteration for `--at`: a negative one counts from the end, and the default is the
    current one.

    None is the end of a closed run.
    """
    if at is not None and at >= 0:
        return at
    status = await run.status()
    if at is None and status.status not in _OPEN:
        return None
    return max(status.iteration + 1 + (-1 if at is None else at), 1)
