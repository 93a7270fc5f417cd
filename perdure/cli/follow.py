"""Follows a run in the foreground until it ends or the person leaves, and prints the next
command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from ..client import RunHandle, get_run
from ..commands import command_line, shell_word
from ..declared_tools import needs_gateway
from ..errors import LimitExceededError, MaxIterationsError, RunCancelled, RunError
from ..events import RunEvent
from ..protocol.outcome import RunResult, RunStatus
from ..protocol.search_attributes import STATUS
from ..text import one_line
from .ask_person import asker_of, this_user
from .console import answer, answers_beside_says, describe_spending, say
from .given import option_name
from .lines import how_to_go_on
from .problems import DONE, FAILED, INTERRUPTED, explained
from .progress import Progress
from .recorded_run import read_recorded, waiting_shown
from .screen import Screen, has_person, open_screen
from .server_connection import ServerConnection
from .worker_inside import describe_run, mention_missing_worker, resume_command


async def say_how_to_go_on(client: Client, run_id: str, error: RunError) -> None:
    """Print the next command: with the option for the limit that ended the run, or from its last
    model call.
    """
    option = error.option if isinstance(error, LimitExceededError | MaxIterationsError) else None
    if option is None:
        status = await get_run(client, run_id).status()
        if status.model_calls and not isinstance(error, RunCancelled):
            say(
                "  continue from there: "
                f"{command_line('fork', run_id, more=f'--at {status.iteration}')}"
            )
        return
    limit = getattr((await read_recorded(client, run_id)).input.options, option)
    more = f" {option_name(option)} {2 * limit:g}" if limit else ""
    say(f'  continue from there: perdure fork {shell_word(run_id)}{more} --steer "go on"')


class Detached(Exception):
    """Raised when the person stops watching the run; it continues if it has a worker."""


HOLD_SECONDS = 2.0
"""How often a quiet command checks whether the run is held; the check is free."""
_LAST_EVENTS_SECONDS = 5.0
"""After the run has ended, its remaining events are shown while each arrives within this time."""


async def follow(
    server: ServerConnection,
    handle: RunHandle,
    *,
    quiet: bool,
    as_json: bool,
    tells_busy: bool = False,
    after: int = 0,
) -> int:
    """Wait for the run and print its result; return the exit code. Warns when no worker takes the
    run.

    When `quiet`, busy workers are mentioned only with `tells_busy`: being busy is not an error.

    Events up to number `after` are not shown.

    Raises `Detached` when the person at the terminal detaches.
    """
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(waiting_shown())
            screen = (
                None
                if quiet or not has_person()
                else await stack.enter_async_context(open_screen())
            )
            shown = Progress(handle.id, screen)
            stack.callback(shown.end_line)
            only_missing = quiet and not tells_busy
            mention = mention_missing_worker(server, handle.id, only_missing=only_missing)
            await stack.enter_async_context(alongside(mention))
            if screen:
                await stack.enter_async_context(alongside(_do_what_is_typed(handle, screen)))
            if quiet:
                await stack.enter_async_context(alongside(_mention_holds(server, handle)))
            result = await (
                handle.result() if quiet else shown_to_the_end(handle, shown, screen, after)
            )
    except RunError as error:
        code = _print_failure(handle, error, as_json=as_json)
        await say_how_to_go_on(server.client, handle.id, error)
        return code
    if as_json:
        answer({"id": handle.id, "status": "done", **result.model_dump(mode="json", by_alias=True)})
    else:
        _print_result(handle, result, shown, quiet=quiet)
    return DONE


ADVICE = (
    "Ctrl-C again, or Ctrl-D, detaches; /cancel ends the run. The agent reads everything else that "
    "you type before its next model call"
)


async def _do_what_is_typed(handle: RunHandle, screen: Screen) -> None:
    screen.advice, screen.commands = ADVICE, ("/cancel",)
    while True:
        line = await screen.lines.get()
        try:
            if line == "/cancel":
                await cancel_from_terminal(handle)
            else:
                await handle.steer(line, by=this_user())
                say(f"    {SENT}", "faint")
        except Exception as error:
            say(f"    {explained(error)}", "bad")


SENT = "sent; the agent reads it before its next model call"


async def cancel_from_terminal(handle: RunHandle) -> None:
    """Ask the run to end, in the name of the current user."""
    await handle.cancel(f"cancelled on the terminal by {this_user() or 'its user'}")
    say("    asked the run to end; a running tool gets time to finish", "faint")


async def _mention_holds(server: ServerConnection, handle: RunHandle) -> None:
    """Report each hold of the run with its reason and the next command; readers of events get these
    as events.
    """
    is_said = False
    while True:
        described = await describe_run(server.client, handle.id)
        is_held = described is not None and described.typed_search_attributes.get(STATUS) == "held"
        if is_held and not is_said:
            with suppress(RPCError):  # retried once the server is back
                is_said = _say_why_held(handle.id, await handle.status())
        elif not is_held:
            is_said = False
        await asyncio.sleep(HOLD_SECONDS)


def _say_why_held(run_id: str, status: RunStatus) -> bool:
    """Return whether the run is held, after reporting the reason."""
    for held in status.held:
        say(f"Run {run_id} is held ({held.reason}): {one_line(held.why, 500)}", "strong")
        say(how_to_go_on(held.run_id or run_id), "strong")
    return bool(status.held)


async def shown_to_the_end(
    handle: RunHandle, shown: Progress, screen: Screen | None, after: int = 0
) -> RunResult:
    """Show the run until it ends, and return its result. Raises `Detached`, and like
    `RunHandle.result`.
    """
    async with alongside(_show_events(handle, shown, screen, after)) as showing:
        ended, left = asyncio.ensure_future(handle.result()), asyncio.ensure_future(_left(screen))
        try:
            await asyncio.wait([ended, left], return_when=asyncio.FIRST_COMPLETED)
            before = -1
            while ended.done() and not (showing.done() or left.done()) and shown.shown > before:
                before = shown.shown
                waits = [showing, left]
                await asyncio.wait(
                    waits, timeout=_LAST_EVENTS_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
            if not ended.done():
                raise Detached
            return ended.result()
        finally:
            ended.cancel()
            left.cancel()


async def _left(screen: Screen | None) -> None:
    await (screen.left if screen else asyncio.Event()).wait()


def _print_result(handle: RunHandle, result: RunResult, shown: Progress, *, quiet: bool) -> None:
    """Print the answer, unless it was streamed to the same terminal."""
    streamed, output = shown.streamed_text if answers_beside_says() else "", result.output
    if not streamed or not isinstance(output, str) or output.strip() != streamed:
        answer(output, exact=True)
    if not quiet:
        say(f"Run {handle.id} is done: {describe_spending(result)}", "faint")
    if result.is_incomplete:
        say(f"Run {handle.id} reached a limit: this result is incomplete.", "bad")
        say(f'  continue from there: perdure fork {shell_word(handle.id)} --steer "go on"')


def _print_failure(handle: RunHandle, error: RunError, *, as_json: bool) -> int:
    if as_json:
        status = "cancelled" if error.kind == "cancelled" else "failed"
        answer(
            {
                "id": handle.id,
                "status": status,
                "kind": error.kind,
                "reason": error.reason,
                "message": str(error),
            }
        )
    kind = (
        f"{error.kind}: {error.reason}" if error.kind == "execute" and error.reason else error.kind
    )
    say(f"Run {handle.id} ended without a result ({kind}): {error}", "bad")
    did, said = command_line("show", handle.id), command_line("messages", handle.id)
    say(f"  its steps: {did}    the conversation: {said}", "faint")
    return FAILED


@asynccontextmanager
async def alongside(aid: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `aid` while the block runs. Its errors are mentioned and do not affect the block."""
    task = asyncio.create_task(aid)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            say(f"  the progress can't be shown: {error}", "faint")


async def _show_events(
    handle: RunHandle, shown: Progress, screen: Screen | None, after: int
) -> None:
    async with asker_of(handle, screen) as asker:
        async for event in handle.stream(after, children=True):
            if asker and event.type == "permission_completed":
                asker.settle(event)
            shown.show(event)
            if event.type != "permission_requested":
                continue
            if asker and not needs_gateway(event.data.get("approvers")):
                asker.ask(event)
            elif await _still_waits(handle, event):
                shown.show_request(event)


async def _still_waits(handle: RunHandle, event: RunEvent) -> bool:
    """Return whether the call still waits for an approval: in a run followed later, it was decided
    long ago.
    """
    waiting = {(each.run_id, each.digest) for each in (await handle.status()).pending_approvals}
    return (event.run_id, event.data.get("digest")) in waiting


async def follow_to_the_end(
    server: ServerConnection,
    handle: RunHandle,
    *,
    quiet: bool,
    as_json: bool,
    after: int = 0,
) -> int:
    """Show the run until it ends; if interrupted, print the next command. `follow` explains the
    arguments.

    Returns the exit code; detaching prints the same as an interrupt.
    """
    try:
        code = await follow(server, handle, quiet=quiet, as_json=as_json, after=after)
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
        say(f"Its steps: {command_line('show', handle.id)}", "faint")
    if (url := server.ui_url(handle.id)) and not server.ends_here:
        say(f"Temporal UI: {url}", "faint")


def _say_how_to_go_on(handle: RunHandle, *, inside: bool) -> None:
    say(
        f"Run {handle.id} continues without this command."
        if not inside
        else f"Run {handle.id} waits for a worker."
    )
    if inside:
        say(f"  go on: {resume_command(handle.id)}")
    say(
        f"  watch it: {command_line('watch', handle.id)}    end it: "
        f"{command_line('cancel', handle.id)}"
    )
