"""`perdure status`, `result`, `messages` and `watch`: read where a run stands, what it said, what
it does.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import RunHandle
from ..client import session as session_of
from ..commands import command_line, ways_to_settle
from ..events import TERMINAL_EVENTS, as_changes
from ..history.chain import Chain
from ..messages import Message
from ..payloads.encryption import EncryptionError
from ..text import count_of, format_usd, one_line, visible
from . import shared_options as options
from .ask_person import local_time, times
from .command import execute
from .console import answer, cached_text, describe_call, describe_usage, say, to_json
from .follow import follow as follow_run
from .follow import follow_to_the_end
from .ls import tell_encrypted
from .problems import DONE, FAILED
from .recorded_run import open_run, read_recorded, waiting_shown
from .server_connection import CommandMemo, ServerConnection, read_memo
from .show import command_to_go_on, describe_hold, failure_of
from .worker_inside import waiting_text


def status(id: options.RunId, as_json: options.AsJson = False) -> None:
    """Print the status of a run."""
    execute(_status(id, as_json))


async def _status(id: str, as_json: bool) -> None:
    memo = CommandMemo()
    async with open_run(id) as (server, handle):
        run_id = handle.id
        try:
            found, fork = await handle.status(), await handle.fork_of()
            failure = (
                await failure_of(Chain(server.client, run_id)) if found.status == "failed" else {}
            )
        except EncryptionError as error:
            await tell_encrypted(server, run_id, error, as_json=as_json)
            return
        standing = await session_of(server.client, None, id).status() if id != run_id else None
        missing = (
            await _missing_keys(server, run_id)
            if any(each.run_id is None for each in found.held)
            else []
        )
        if found.queue_without_worker:
            memo = await read_memo(await server.client.get_workflow_handle(run_id).describe())
    if as_json:
        of = {"fork_of": fork.model_dump(mode="json", by_alias=True)} if fork else {}
        among = (
            {"session": {"id": id, **standing.model_dump(mode="json", by_alias=True)}}
            if standing
            else {}
        )
        why = {"failure": failure} if failure else {}
        answer({**found.model_dump(mode="json", by_alias=True), **why, **of, **among})
        return
    if standing:
        queued = f", {count_of(standing.queued, 'message')} queued" if standing.queued else ""
        answer(f"session {id}: {standing.status}, {count_of(standing.turn, 'turn')}{queued}")
        cost = format_usd(standing.cost_usd, unpriced=standing.unpriced_calls)
        used = ", ".join(filter(None, (describe_usage(standing.usage.model_dump()), cost)))
        answer(f"  its turns that have ended: {used}. Its run {run_id}:")
    if fork:
        answer(f"a fork of run {fork.run}, before its iteration {fork.at}")
    usage = found.usage
    answer(
        f"{found.status}, iteration {found.iteration}, {count_of(found.model_calls, 'model call')}"
    )
    by = (
        f", to which {visible(one_line(found.handed_over_by))} has handed over"
        if found.handed_over_by
        else ""
    )
    answer(f"agent {visible(one_line(found.agent))}{by}; begun {local_time(found.started or 0.0)}")
    if failure:
        answer(f"{failure['kind']}: {one_line(failure['message'], 200)}")
        answer(
            f"  its steps: {command_line('show', run_id)}    the conversation: "
            f"{command_line('messages', run_id)}"
        )
    answer(
        f"tokens: {usage.input_tokens} in{cached_text(usage.model_dump())}, {usage.output_tokens} "
        "out"
    )
    if found.cost_usd is not None:
        answer(f"cost: {format_usd(found.cost_usd, unpriced=found.unpriced_calls)}")
    if found.missing:
        what, queue, since = (
            ", ".join(found.missing.what),
            found.missing.task_queue,
            local_time(found.missing.since),
        )
        answer(f"waits for a worker of the task queue {queue!r} that has {what}, since {since}")
    for held in found.held:
        answer(f"{'held ' if held.run_id is None else ''}{describe_hold(held)}")
    for variable in missing:
        answer(
            f"  no worker of the run has {variable}: set it where the workers are started, and "
            "start them again"
        )
    if found.held:
        answer(f"  let it go on: {command_to_go_on(found.held, run_id)}")
    if found.held_up:
        until = local_time(found.held_up.until)
        answer(
            f"the model call is made again at {until}, after {found.held_up.kind}: "
            f"{found.held_up.why}"
        )
    if found.waits_for_rate:
        answer(
            f"the next model call waits for a permit: calls of {found.waits_for_rate} have a rate"
        )
    for awaited in found.awaited:
        call, run = (
            describe_call(awaited.name, awaited.arguments),
            f" of run {awaited.run_id}" if awaited.run_id else "",
        )
        answer(
            f"{call}{run} waits for another system {times(awaited.model_dump())}: perdure complete "
            "TOKEN RESULT"
        )
    for pending in found.pending_approvals:
        call, what = (
            describe_call(pending.name, pending.arguments),
            "an answer" if pending.question else "approval",
        )
        how, *others = ways_to_settle(pending.run_id or run_id, pending)
        answer(f"{call} waits for {what} {times(pending.model_dump())}: {how}")
        for other in others:
            answer(f"  or {other}")
    if found.queue_without_worker:
        is_busy, version = found.workers_are_busy, found.pinned_to
        answer(
            waiting_text(
                run_id, found.queue_without_worker, memo, is_polled=is_busy, pinned_to=version
            )
        )


async def _missing_keys(server: ServerConnection, run_id: str) -> list[str]:
    from .doctor.workers import missing_keys  # needs what workers need

    return await missing_keys(
        server.client, await server.client.get_workflow_handle(run_id).describe()
    )


def result(
    id: options.RunId,
    as_json: options.AsJson = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show the run's progress, on stderr.")
    ] = False,
    call: Annotated[
        str | None,
        typer.Option(
            "--call", metavar="CALL", help="Print the result of this tool call instead, whole."
        ),
    ] = None,
    iteration: Annotated[
        int | None,
        typer.Option(
            "--iteration", metavar="N", help="The call's iteration, if several have that id."
        ),
    ] = None,
) -> None:
    """Wait for a run and print its answer; or print the result of one of its tool calls."""
    if call is not None:
        execute(_tool_result(id, call, iteration, as_json=as_json))
    elif iteration is not None:
        raise typer.BadParameter("goes with --call", param_hint="--iteration")
    else:
        execute(_result(id, as_json=as_json, is_watched=follow))


async def _result(run_id: str, *, as_json: bool, is_watched: bool) -> int:
    async with open_run(run_id) as (server, handle):
        if is_watched:
            return await follow_to_the_end(server, handle, quiet=False, as_json=as_json)
        return await follow_run(server, handle, quiet=True, as_json=as_json, tells_busy=True)


async def _tool_result(run_id: str, call_id: str, iteration: int | None, *, as_json: bool) -> int:
    async with open_run(run_id) as (_, handle):
        with waiting_shown():
            found = await handle.tool_result(call_id, iteration=iteration)
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
        return DONE
    answer(found.text, exact=True)
    if media := [part for part in found.parts if part.kind != "text"]:
        say(f"{count_of(len(media), 'part')} besides the text: --json has all", "faint")
    return DONE


def messages(id: options.RunId, as_json: options.AsJson = False) -> None:
    """Print the conversation of a run.

    Runs that have ended keep their conversation.
    """
    execute(_messages(id, as_json))


async def _messages(run_id: str, as_json: bool) -> None:
    async with open_run(run_id) as (_, handle):
        with waiting_shown():
            said = await handle.messages()
    if as_json:
        answer([message.model_dump(mode="json", by_alias=True) for message in said])
        return
    for message in said:
        answer(_paragraph(message))
    say(count_of(len(said), "message"), "faint")


def _paragraph(message: Message) -> str:
    calls = "".join(
        f"\n  → {describe_call(call.name, call.arguments)}" for call in message.tool_calls
    )
    others = "".join(f"\n  [{part.kind}]" for part in message.parts if part.kind != "text")
    return f"[{message.role}] {message.text}{others}{calls}\n"


def watch(
    id: options.RunId,
    from_now: Annotated[bool, typer.Option("--from-now", help="Show only new events.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what a run does until it ends, and print its answer.

    Any run, wherever its workers are; one that is under way or has ended is shown from its
    beginning. On a terminal, waiting approvals and questions can be answered here, and Ctrl-C asks
    whether to detach, cancel or steer.

    As JSON, its events, one per line, with those of the runs that it calls.
    """
    execute(_watch(id, as_json, from_now))


async def _watch(run_id: str, as_json: bool, from_now: bool) -> int:
    async with open_run(run_id) as (server, handle):
        status = await handle.status() if from_now else None
        # What has ended is shown by its last event.
        after = status.last_seq - (status.status in ("done", "failed")) if status else 0
        if as_json:
            return await _write_events(handle, after)
        await _announce(server, handle)
        return await follow_to_the_end(server, handle, quiet=False, as_json=False, after=after)


async def _announce(server: ServerConnection, handle: RunHandle) -> None:
    recorded = await read_recorded(server.client, handle.id)
    agent, model = recorded.input.agent, recorded.input.agent.model
    named = f"model {model.id} of {model.provider_key}" if model else "no model declared"
    say(
        f"Run {handle.id}: agent {agent.name or 'without a name'}, {named}, {server.place}",
        "strong",
    )


async def _write_events(handle: RunHandle, after: int) -> int:
    code = FAILED
    with waiting_shown():
        async for event in handle.stream(after, children=True):
            answer(to_json(as_changes(event), indent=None))
            if event.run_id is None and event.type in TERMINAL_EVENTS:
                code = DONE if event.type == "done" else FAILED
    return code
