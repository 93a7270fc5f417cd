"""Runs a worker inside this process, and mentions one that a run lacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from ..activities.pollers import pinned_version
from ..client.connection import PATIENCE_SECONDS, has_waited
from ..client.reading.watch import is_away
from ..commands import command_line, shell_word
from ..prompty.worker_limits import OPEN, WorkerLimits
from .console import say
from .server_connection import CommandMemo, ServerConnection, read_memo
from .table import DEFAULT_QUEUE
from .user_code import Sources, UserCode, source_options


@asynccontextmanager
async def worker_inside(
    server: ServerConnection,
    *,
    task_queue: str,
    code: UserCode,
    mock: bool = False,
    limits: WorkerLimits = OPEN,
) -> AsyncIterator[None]:
    """Run a worker in this process, with a connection of its own, while the block runs."""
    # Most commands that may run a worker don't, and it takes long to import.
    from ..trace.environment import provider_of_process
    from ..worker import create_worker

    client = await server.connect_again()
    async with (
        create_worker(
            client,
            task_queue=task_queue,
            mock=mock,
            limits=limits,
            graceful_shutdown_timeout=timedelta(seconds=2),
            tracer_provider=provider_of_process(say),
            **code.for_worker(),
        ),
    ):
        server.works = True
        yield


async def mention_missing_worker(
    server: ServerConnection, run_id: str, *, only_missing: bool = False
) -> None:
    """Print, once for each wait, the command that starts a worker if none takes the run's task.
    With `only_missing`, not for workers that may only be busy.
    """
    said = False
    while True:
        await asyncio.sleep(PATIENCE_SECONDS)
        if (run := await describe_run(server.client, run_id)) is None:
            continue
        waits = has_waited(run) and not server.works
        version = pinned_version(run)
        is_polled = waits and await server.is_polled(run.task_queue, version=version)
        is_worth_it = waits and not (is_polled and only_missing)
        if is_worth_it and not said:
            memo, pinned = await read_memo(run), str(version) if version else None
            text = waiting_text(run_id, run.task_queue, memo, is_polled=is_polled, pinned_to=pinned)
            say(text, "strong")
        said = is_worth_it


async def describe_run(client: Client, run_id: str) -> WorkflowExecutionDescription | None:
    """Return the run; None while the server does not answer."""
    try:
        return await client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if not is_away(error):
            raise
        return None


def waiting_text(
    run_id: str,
    task_queue: str,
    memo: CommandMemo,
    *,
    is_polled: bool = False,
    pinned_to: str | None = None,
) -> str:
    """Return the message about a run that no worker takes up, with the command to type.

    `pinned_to` is the version of the workers (`DEPLOYMENT:BUILD`) that alone take it up.
    """
    why = f"a worker on the task queue {task_queue!r} is missing"
    if is_polled:
        why = (
            f"the workers on the task queue {task_queue!r} have not taken up its next step yet: "
            "they are busy, or ended a short while ago"
        )
    start = worker_command(task_queue)
    if pinned_to:
        why += f" (it is pinned to the version {pinned_to})"
        start += f" {version_options(pinned_to)}, or in the current version: "
        start += unpin_command(run_id)
    elif memo.has_code:
        start = f"{resume_command(run_id)} (with its own tools), or {start}"
    return f"Run {run_id} waits: {why}. Start one in another terminal: {start}"


def resume_command(run_id: str) -> str:
    """Return the command that starts a worker for one run, with the code that the run's own command
    was given.
    """
    return command_line("resume", run_id)


AUTO_UPGRADE = "--versioning-override-behavior auto_upgrade"


def version_options(version: str) -> str:
    """Return the options of `perdure worker` for a version, `DEPLOYMENT:BUILD`."""
    deployment, _, build_id = version.partition(":")
    return f"--deployment {shell_word(deployment)} --build-id {shell_word(build_id)}"


def current_version_command(deployment: str, build_id: str) -> str:
    """Return the command that makes a version of the workers the one that new runs go to."""
    return (
        "temporal worker deployment set-current-version --deployment-name "
        f"{shell_word(deployment)} --build-id {shell_word(build_id)} --yes"
    )


def unpin_command(run_id: str) -> str:
    """Return the command after which the workers of the current version take up a run that is
    pinned to another one.
    """
    return f"temporal workflow update-options --workflow-id {shell_word(run_id)} {AUTO_UPGRADE}"


def worker_command(task_queue: str, sources: Sources | None = None) -> str:
    """Return the command that starts a worker for the queue."""
    queue = "" if task_queue == DEFAULT_QUEUE else f" --task-queue {shell_word(task_queue)}"
    return f"perdure worker{queue}{source_options(sources or {'--tools': ['my_tools.py']})}"
