"""`perdure fork`: starts a new run from a run's conversation as it was before an iteration."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from ..client import RunHandle
from ..client.fork import Changes, fork_of
from ..commands import command_line
from ..history.chain import Chain
from .agent_file import load_agent, read_given
from .given import Given
from .problems import UsageProblem
from .recorded_run import find_run, read_recorded
from .run import perform
from .run_options import run_options
from .server_connection import ServerConnection
from .start import StartArguments, recorded_code, require_functions
from .user_code import sources_of

_OPEN = ("running", "waiting_for_approval", "held")


def fork(given: Given) -> Coroutine[Any, Any, int]:
    """Load the other agent, if one is named, and run the fork."""
    revised = load_agent(given.agent) if given.agent else None
    inputs = read_given(revised, given.inputs, given.inputs_json)

    async def begin(server: ServerConnection) -> StartArguments:
        changes = Changes(given.steer, given.model, revised, {}, inputs)
        return await _fork_arguments(given, server, changes)

    return perform(given, begin)


async def _fork_arguments(
    given: Given, server: ServerConnection, changes: Changes
) -> StartArguments:
    if given.id.endswith(".jsonl"):
        raise UsageProblem(
            f"{given.id!r} is an export, expected the id of a run on the server. An export works "
            f"with: {command_line('rerun', given.id)}"
        )
    handle = await find_run(server, given.id)
    run_id, before = handle.id, await iteration_at(handle, given.at)
    recorded = await read_recorded(server.client, run_id)
    memo, agent = recorded.memo, changes.agent
    if given.detach and (given.scripted or (memo.scripted and agent is None)):
        raise UsageProblem(
            "--detach: the model of this run is scripted, and ends with this command"
        )
    works_here = not given.detach and bool(
        sources_of(given) or memo.has_code or server.embedded is not None
    )
    asked = recorded.input.agent if works_here and agent is None else None
    title = f"The continuation of run {run_id}"
    code, memo = await recorded_code(server, title, asked, memo, given)
    if agent is not None:
        memo = replace(memo, scripted=given.scripted)  # The model of that file answers.
    fields = run_options({**given.options, **code.hooks()}).model_dump(exclude_unset=True)
    try:
        fork = await fork_of(Chain(server.client, run_id), before, replace(changes, options=fields))
    except ValueError as error:
        raise UsageProblem(f"--{error}") from error
    queue = given.task_queue or shared_queue(fork.task_queue, run_id)
    if code or queue is None:
        command = command_line("fork", run_id, more="… --tools file.py")
        require_functions(fork.agent, code, f"a fork of run {run_id}", command)
    return StartArguments(
        fork.agent, fork.inputs, fork.messages, fork.options, code, memo, queue, fork.start
    )


def shared_queue(task_queue: str, run_id: str) -> str | None:
    """Return the queue, unless only the earlier command's own worker polled it."""
    is_private = task_queue == f"perdure-{run_id}" or task_queue.startswith("perdure-invoke_agent-")
    return None if is_private else task_queue


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
