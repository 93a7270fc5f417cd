"""Follows a run in the foreground until it ends or the person leaves, and says how to go on from there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeAlias

from temporalio.client import Client
from temporalio.service import RPCError

from ..client import RunHandle, get_run
from ..commands import command_line, shell_word
from ..declared_tools import needs_gateway
from ..errors import LimitExceededError, MaxIterationsError, RunCancelled, RunError
from ..events import RunEvent
from ..history.link import read_input
from ..protocol.outcome import RunResult, RunStatus
from ..protocol.search_attributes import STATUS
from .ask_person import Detached, Menu, asker_of, menu_on_interrupt
from .console import answer, answers_beside_says, describe_spending, say
from .problems import DONE, FAILED, INTERRUPTED
from .progress import Progress, hold_lines
from .recorded_run import read_recorded, waiting_shown
from .run_options import option_name
from .server_connection import ServerConnection
from .terminal import Terminal, open_terminal
from .view import View
from .worker_inside import describe_run, mention_missing_worker, resume_command

Shown: TypeAlias = Progress | View


async def say_how_to_go_on(client: Client, run_id: str, error: RunError) -> None:
    """Name the command that goes on: with the option of the limit that ended the run, or from its last model call."""
    option = error.option if isinstance(error, LimitExceededError | MaxIterationsError) else None
    if option is None:
        status = await get_run(client, run_id).status()
        if status.model_calls and not isinstance(error, RunCancelled):
            say(f"  go on from there: {command_line('fork', run_id, more=f'--at {status.iteration}')}")
        return
    limit = getattr((await read_recorded(client, run_id)).input.options, option)
    more = f" {option_name(option)} {2 * limit:g}" if limit else ""
    say(f'  go on from there: perdure run --continue {shell_word(run_id)}{more} "go on"')


HOLD_SECONDS = 2.0
"""How often a command that waits quietly looks whether the run is held; that costs nothing."""
_LAST_EVENTS_SECONDS = 5.0
"""After the run has ended, the rest of its events is shown as long as the next one comes within this time."""


async def follow(
    server: ServerConnection,
    handle: RunHandle,
    *,
    quiet: bool,
    as_json: bool,
    helps: bool = False,
    tells_busy: bool = False,
    after: int = 0,
) -> int:
    """Wait for the run and print its result; returns the exit code. Says so when no worker takes the run up.

    When `quiet`, busy workers are mentioned only where it `tells_busy`: what they do is no error.

    One that `helps` executes it then, as `mention_missing_worker` says. Events up to number `after` are not shown.

    Raises `Detached` when the person at the terminal wants to wait no longer.
    """
    shown = Progress(handle.id) if quiet else await _shown_on(server, handle)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(waiting_shown())
            mention = mention_missing_worker(server, handle.id, helps=helps, only_missing=quiet and not tells_busy)
            await stack.enter_async_context(alongside(mention))
            if quiet:
                await stack.enter_async_context(alongside(_mention_holds(server, handle)))
                result = await handle.result()
            else:
                result = await _watch(handle, shown, after)
    except RunError as error:
        shown.end_line()
        code = _print_failure(handle, error, as_json=as_json)
        await say_how_to_go_on(server.client, handle.id, error)
        return code
    finally:
        shown.end_line()
    if as_json:
        answer({"id": handle.id, "status": "done", **result.model_dump(mode="json", by_alias=True)})
    else:
        _print_result(handle, result, shown, quiet=quiet)
    return DONE


async def _mention_holds(server: ServerConnection, handle: RunHandle) -> None:
    """Say whenever the run is held, which its events tell those who read them: why, and what to type."""
    is_said = False
    while True:
        described = await describe_run(server.client, handle.id)
        is_held = described is not None and described.typed_search_attributes.get(STATUS) == "held"
        if is_held and not is_said:
            with suppress(RPCError):  # while the server is away; it is asked again
                is_said = _say_why_held(handle.id, await handle.status())
        elif not is_held:
            is_said = False
        await asyncio.sleep(HOLD_SECONDS)


def _say_why_held(run_id: str, status: RunStatus) -> bool:
    """Return whether the run is held, having said why."""
    for held in status.held:
        why, how = hold_lines(held.reason, held.why, held.run_id or run_id)
        say(f"Run {run_id} is {why}", "strong")
        say(how, "strong")
    return bool(status.held)


async def _shown_on(server: ServerConnection, handle: RunHandle) -> Shown:
    """Return what shows the run: lines in a pipe, more on a terminal."""
    if not sys.stderr.isatty():
        return Progress(handle.id)
    link = await server.client.get_workflow_handle(handle.id).describe()
    model = (await read_input(server.client, handle.id, link.run_id)).agent.model
    return View(handle.id, model.id if model else "")


async def _watch(handle: RunHandle, shown: Shown, after: int) -> RunResult:
    """Show the events of the run and return its result; a person at the terminal can be asked, and can ask for more."""
    async with AsyncExitStack() as stack:
        terminal = menu = None
        if isinstance(shown, View):
            await stack.enter_async_context(alongside(shown.animate()))
            terminal = await stack.enter_async_context(open_terminal(shown))
            menu = await stack.enter_async_context(menu_on_interrupt(handle, terminal))
        return await shown_to_the_end(handle, shown, terminal, menu, after)


async def shown_to_the_end(
    handle: RunHandle, shown: Shown, terminal: Terminal | None, menu: Menu | None, after: int = 0
) -> RunResult:
    """Show the run until it ends, and return its result. Raises `Detached`, and as `RunHandle.result` does."""
    async with alongside(_show_events(handle, shown, terminal, after)) as showing:
        ended = asyncio.ensure_future(handle.result())
        try:
            await _first(ended, menu)
            if not ended.done():
                raise Detached
            await _last_events(showing, shown, menu)
            return ended.result()
        finally:
            ended.cancel()


async def _first(ended: asyncio.Future[Any], menu: Menu | None, timeout: float | None = None) -> None:
    """Wait until this has ended, or the person has detached."""
    detached = asyncio.ensure_future((menu.detached if menu else asyncio.Event()).wait())
    try:
        await asyncio.wait([ended, detached], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        detached.cancel()


async def _last_events(showing: asyncio.Task[None], shown: Shown, menu: Menu | None) -> None:
    before = -1
    while not showing.done() and shown.shown > before and not (menu and menu.detached.is_set()):
        before = shown.shown
        await _first(showing, menu, _LAST_EVENTS_SECONDS)


def _print_result(handle: RunHandle, result: RunResult, shown: Shown, *, quiet: bool) -> None:
    """Print the answer, unless it was streamed to the terminal on which it would be printed."""
    streamed, output = shown.streamed_text if answers_beside_says() else "", result.output
    if not streamed or not isinstance(output, str) or output.strip() != streamed:
        if streamed:
            say("The answer is not what was streamed:", "strong")
        answer(output, exact=True)
    if not quiet:
        say(f"Run {handle.id} is done: {describe_spending(result)}", "faint")
    if result.is_incomplete:
        say(f"Run {handle.id} reached a limit: this result is incomplete.", "bad")
        say(f'  go on from there: perdure run --continue {shell_word(handle.id)} "go on"')


def _print_failure(handle: RunHandle, error: RunError, *, as_json: bool) -> int:
    if as_json:
        status = "cancelled" if error.kind == "cancelled" else "failed"
        answer({"id": handle.id, "status": status, "kind": error.kind, "reason": error.reason, "message": str(error)})
    kind = f"{error.kind}: {error.reason}" if error.kind == "execute" and error.reason else error.kind
    say(f"Run {handle.id} ended without a result ({kind}): {error}", "bad")
    did, said = command_line("show", handle.id), command_line("messages", handle.id)
    say(f"  what it did: {did}    what was said: {said}", "faint")
    return FAILED


@asynccontextmanager
async def alongside(aid: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Do `aid` while the block runs. What goes wrong in it is mentioned, and does not affect the block."""
    task = asyncio.create_task(aid)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            say(f"  the progress can't be shown: {error}", "faint")


async def _show_events(handle: RunHandle, shown: Shown, terminal: Terminal | None, after: int) -> None:
    async with asker_of(handle, terminal) as asker:
        async for event in handle.stream(after, children=True):
            if asker and event.type == "permission_completed":
                asker.settle(event)
            shown.show(event)
            if event.type != "permission_requested":
                continue
            if asker and not needs_gateway(event.data.get("deciders")):
                asker.ask(event)
            elif await _still_waits(handle, event):
                shown.show_request(event)


async def _still_waits(handle: RunHandle, event: RunEvent) -> bool:
    """Return whether the call still waits for an approval: in a run that is followed later, it was decided long ago."""
    waiting = {(each.run_id, each.digest) for each in (await handle.status()).pending_approvals}
    return (event.run_id, event.data.get("digest")) in waiting


async def follow_to_the_end(
    server: ServerConnection, handle: RunHandle, *, quiet: bool, as_json: bool, helps: bool = False, after: int = 0
) -> int:
    """Show what the run does until it ends; interrupted, say how to go on. `follow` explains the arguments.

    Returns the exit code; whoever detaches is told the same as who interrupts.
    """
    try:
        code = await follow(server, handle, quiet=quiet, as_json=as_json, helps=helps, after=after)
    except asyncio.CancelledError:
        _say_how_to_go_on(handle, inside=server.works)
        raise
    except Detached:
        _say_how_to_go_on(handle, inside=server.works)
        return INTERRUPTED
    if not quiet:
        _say_where_to_look(server, handle, code)
    return code


def _say_where_to_look(server: ServerConnection, handle: RunHandle, code: int) -> None:
    if code == DONE:
        say(f"What it did: {command_line('show', handle.id)}", "faint")
    if (url := server.ui_url(handle.id)) and not server.ends_here:
        say(f"Temporal UI: {url}", "faint")


def _say_how_to_go_on(handle: RunHandle, *, inside: bool) -> None:
    say(f"Run {handle.id} goes on without this command." if not inside else f"Run {handle.id} waits for a worker.")
    if inside:
        say(f"  go on: {resume_command(handle.id)}")
    say(f"  watch it: {command_line('watch', handle.id)}    end it: {command_line('cancel', handle.id)}")
