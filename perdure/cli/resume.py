"""`perdure resume`: starts a worker for a run whose own worker is gone, and follows the run."""

from __future__ import annotations

from contextlib import AsyncExitStack

from ..commands import command_line, shell_word
from .agent_file import endpoint_of, script_at
from .console import say
from .follow import follow_to_the_end
from .given import Given
from .problems import Failure
from .recorded_run import open_run, read_recorded
from .start import recorded_code, require_functions
from .worker_inside import worker_inside


async def resume(given: Given) -> int:
    """Start the worker, and follow the run; return the exit code. Raises `Failure` for a run that
    has ended.
    """
    async with open_run(given.id) as (server, handle), AsyncExitStack() as stack:
        run_id = handle.id
        recorded = await read_recorded(server.client, run_id)
        if recorded.has_ended:
            raise Failure(
                f"run {run_id} has ended: {command_line('result', run_id)} shows how. "
                f'Continue from there: perdure fork {shell_word(run_id)} --steer "…"'
            )
        agent, memo, options = recorded.input.agent, recorded.memo, recorded.input.options
        code, _ = await recorded_code(server, f"Run {run_id}", agent, memo, given)
        command = command_line("resume", run_id, more="--tools file.py")
        require_functions(agent, code, f"run {run_id}", command)
        # The only guardrails and compactor are registered under the names that the run asks for.
        for name, registered in (
            (options.guardrails, code.guardrails),
            (options.compactor, code.compactors),
        ):
            if name and len(registered) == 1:
                registered[name] = next(iter(registered.values()))
        if memo.scripted:
            stack.enter_context(script_at(endpoint_of(agent), memo.scripted))
        queue = recorded.description.task_queue
        await stack.enter_async_context(worker_inside(server, task_queue=queue, code=code))
        if not given.quiet:
            tools = ", ".join(code.tools) or "none"
            say(f"Run {run_id}: {server.place}, worker in this process, tools: {tools}", "strong")
        return await follow_to_the_end(server, handle, quiet=given.quiet, as_json=given.as_json)
