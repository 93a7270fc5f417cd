"""`perdure resume`: start a worker for a run whose own is gone, and follow the run."""

from __future__ import annotations

import os
from contextlib import ExitStack

from ..agents import Agent
from ..commands import command_line, shell_word
from . import shared_options as options
from .agent_file import script_at
from .command import execute
from .consent import require_consent
from .console import say
from .follow import follow_to_the_end
from .problems import Failure, UsageProblem
from .recorded_run import ExistingRun, open_run, read_recorded
from .start import CodeSources, load_code
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

    The worker runs inside this command, with the tools that `perdure run` was given when it started the run. A run
    that another program started needs --tools. It is said what code, commands and variables the run uses, and asked
    first where they may not be yours.
    """
    sources = CodeSources(tools or (), guardrails or (), compactor or (), credentials=credentials)
    execute(_resume(id, sources, yes=yes, quiet=quiet, as_json=as_json))


async def _resume(run_id: str, sources: CodeSources, *, yes: bool, quiet: bool, as_json: bool) -> int:
    async with open_run(run_id) as (server, handle):
        run_id = handle.id
        recorded = await read_recorded(server.client, run_id)
        if recorded.has_ended:
            raise Failure(
                f"run {run_id} has ended: {command_line('result', run_id)} shows how. "
                f'Go on from there: perdure run --continue {shell_word(run_id)} "…"'
            )
        await require_consent(
            f"Run {run_id}",
            recorded.input.agent,
            None if sources else recorded.memo,
            is_own=server.embedded is not None,
            yes=yes,
            quiet=quiet,
        )
        code = _load(recorded, sources)
        queue = recorded.description.task_queue
        with ExitStack() as stack:
            _serve_script(recorded, stack)
            async with worker_inside(server, task_queue=queue, code=code, mock=recorded.memo.mock):
                if not quiet:
                    tools = ", ".join(code.tools) or "none"
                    say(f"Run {run_id}: {server.place}, worker in this process, tools: {tools}", "strong")
                return await follow_to_the_end(server, handle, quiet=quiet, as_json=as_json)


def _load(recorded: ExistingRun, sources: CodeSources) -> UserCode:
    """Load the code that the options name, else that of the command that started the run. Raises `UsageProblem`."""
    if sources:
        code = sources.load()
    else:
        code = load_code(recorded.memo)
        if recorded.memo.folder:
            # Tools find their files where the run was started.
            os.chdir(recorded.memo.folder)
    _require_tools(recorded, code)
    _name_as_recorded(recorded, code)
    return code


def _require_tools(recorded: ExistingRun, code: UserCode) -> None:
    needed = [tool.name for tool in recorded.input.agent.tools or [] if tool.kind == "function"]
    if missing := [name for name in needed if name not in code.tools]:
        raise UsageProblem(
            f"run {recorded.description.id} needs {', '.join(missing)}, expected their functions. "
            f"Type: {command_line('resume', recorded.description.id, more='--tools file.py')}"
        )


def _name_as_recorded(recorded: ExistingRun, code: UserCode) -> None:
    """Register the only guardrails and compactor under the names that the run asks for."""
    asked = ((recorded.input.options.guardrails, code.guardrails), (recorded.input.options.compactor, code.compactors))
    for name, registered in asked:
        if name and len(registered) == 1:
            registered[name] = next(iter(registered.values()))


def _serve_script(recorded: ExistingRun, stack: ExitStack) -> None:
    """Serve the scripted model again, where the run's agent expects it."""
    if recorded.memo.scripted:
        stack.enter_context(script_at(_endpoint(recorded.input.agent), recorded.memo.scripted))


def _endpoint(agent: Agent) -> str:
    connection = agent.model.connection if agent.model else None
    return (connection and connection.endpoint) or ""
