"""`perdure run`: start a run, watch it, print its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from . import options as arguments
from .problems import UsageProblem
from .running import execute


def run(
    agent_file: arguments.AgentFile,
    inputs: arguments.Inputs = None,
    inputs_json: arguments.InputsJson = None,
    tools: arguments.Tools = None,
    guardrails: arguments.GuardrailNames = None,
    compactor: arguments.Compactors = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Start the run, print its id, and end.")] = False,
    id: Annotated[str | None, typer.Option("--id", metavar="ID", help="The run's id; default: a readable one.")] = None,
    task_queue: Annotated[
        str | None, typer.Option("--task-queue", metavar="NAME", help="The queue whose workers shall do the run.")
    ] = None,
    max_iterations: Annotated[int, typer.Option(min=1, help="Rounds of tool calls before --on-limit decides.")] = 10,
    parallel_tools: Annotated[bool, typer.Option("--parallel-tools", help="Run tool calls concurrently.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show the model's text while it is written.")] = False,
    context_budget: Annotated[
        int | None, typer.Option(min=1, metavar="CHARS", help="Trim the conversation beyond this.")
    ] = None,
    on_limit: Annotated[
        Literal["raise", "partial", "final_answer"], typer.Option(help="What happens when a limit is reached.")
    ] = "raise",
    scripted: Annotated[
        str | None,
        typer.Option(metavar="SCRIPT", help="A scripted model instead of the agent's: file.json or file.py:function."),
    ] = None,
    as_json: arguments.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
) -> None:
    """Run an agent.

    The answer goes to stdout, what the agent does to stderr.

    Without TEMPORAL_ADDRESS an embedded Temporal server is used. A worker runs inside this command when --tools
    is given, or when the embedded server has none; otherwise the workers of the task queue do the work.
    """
    from ..options import RunOptions
    from .launch import RunRequest, perform
    from .user_code import load_user_code

    if detach and scripted:
        raise UsageProblem("--detach and --scripted exclude each other: the scripted model ends with this command")
    code = load_user_code(tools or (), guardrails or (), compactor or ())
    options = RunOptions(
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
        options=options,
        code=code,
        script=scripted,
        id=id,
        task_queue=task_queue,
        detach=detach,
        as_json=as_json,
        quiet=quiet,
    )
    execute(perform(request))


def _only_name(option: str, named: Mapping[str, Any]) -> str | None:
    """The name that the run shall use; raises UsageProblem when several are given."""
    if len(named) > 1:
        raise UsageProblem(f"{option} names {', '.join(named)}, expected one: a run uses one")
    return next(iter(named), None)
