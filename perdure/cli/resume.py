"""`perdure resume`: start a worker for a run whose own is gone, and follow the run."""

from __future__ import annotations

from contextlib import ExitStack

from ..commands import command_line, shell_word
from . import shared_options as options
from .agent_file import endpoint_of, script_at
from .command import execute
from .console import say
from .follow import follow_to_the_end
from .problems import Failure
from .recorded_run import ExistingRun, open_run, read_recorded
from .start import CodeSources, recorded_code, require_functions
from .user_code import UserCode
from .worker_inside import worker_inside


def resume(
    id: options.OpenRunId,
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Start a worker for a run, and follow the run.

    The worker runs inside this command, with the tools that `perdure run` was given when it started
    the run. A run that another program started needs --tools. It is said what code, commands and
    variables the run uses, and asked first where they may not be yours.
    """
    sources = CodeSources(tools or (), guardrails or (), compactor or (), credentials=credentials)
    execute(_resume(id, sources, yes=yes, quiet=quiet, as_json=as_json))


async def _resume(
    run_id: str, sources: CodeSources, *, yes: bool, quiet: bool, as_json: bool
) -> int:
    async with open_run(run_id) as (server, handle):
        run_id = handle.id
        recorded = await read_recorded(server.client, run_id)
        if recorded.has_ended:
            raise Failure(
                f"run {run_id} has ended: {command_line('result', run_id)} shows how. "
                f'Go on from there: perdure fork {shell_word(run_id)} --steer "…"'
            )
        agent, memo = recorded.input.agent, recorded.memo
        code = await recorded_code(
            server, f"Run {run_id}", agent, memo, sources, yes=yes, quiet=quiet
        )
        require_functions(
            agent, code, f"run {run_id}", command_line("resume", run_id, more="--tools file.py")
        )
        _name_as_recorded(recorded, code)
        queue = recorded.description.task_queue
        with ExitStack() as stack:
            if memo.scripted:
                stack.enter_context(script_at(endpoint_of(agent), memo.scripted))
            async with worker_inside(server, task_queue=queue, code=code, mock=memo.mock):
                if not quiet:
                    tools = ", ".join(code.tools) or "none"
                    say(
                        f"Run {run_id}: {server.place}, worker in this process, tools: {tools}",
                        "strong",
                    )
                return await follow_to_the_end(server, handle, quiet=quiet, as_json=as_json)


def _name_as_recorded(recorded: ExistingRun, code: UserCode) -> None:
    """Register the only guardrails and compactor under the names that the run asks for."""
    asked = (
        (recorded.input.options.guardrails, code.guardrails),
        (recorded.input.options.compactor, code.compactors),
    )
    for name, registered in asked:
        if name and len(registered) == 1:
            registered[name] = next(iter(registered.values()))
