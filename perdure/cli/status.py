"""`perdure status`: the state of a run, the things that it waits for, and the next commands."""

from __future__ import annotations

from collections.abc import Iterator

from temporalio.client import WorkflowExecutionDescription

from ..client import RunHandle
from ..client import session as session_of
from ..commands import command_line
from ..history.chain import Chain
from ..json_types import JsonObject
from ..protocol.outcome import RunStatus
from ..protocol.session import SessionStatus
from ..text import count_of, format_usd, one_line, visible
from .ask_person import local_time, times, waiting_lines
from .console import answer, cached_text, describe_call, describe_usage
from .given import Given
from .recorded_run import open_run
from .server_connection import ServerConnection, read_memo
from .show import command_to_go_on, describe_hold, failure_of
from .worker_inside import waiting_text


async def status(given: Given) -> None:
    """Print the status of a run, with that of its session if the session is named."""
    async with open_run(given.id) as (server, handle):
        found, fork = await handle.status(), await handle.fork_of()
        described = await server.client.get_workflow_handle(handle.id).describe()
        failure = await failure_of(Chain(server.client, handle.id), described)
        session = None
        if given.id != handle.id:
            session = await session_of(server.client, None, given.id).status()
        lines = [] if given.as_json else await _needs(server, handle, found, described)
    if given.as_json:
        more: JsonObject = {"failure": failure} if failure else {}
        if fork:
            more["fork_of"] = fork.model_dump(mode="json", by_alias=True)
        if session:
            more["session"] = {"id": given.id, **session.model_dump(mode="json", by_alias=True)}
        answer({**found.model_dump(mode="json", by_alias=True), **more})
        return
    before = [*_session_lines(given.id, session, handle.id)] if session else []
    if fork:
        before.append(f"a fork of run {fork.run}, before its iteration {fork.at}")
    for line in (*before, *_state(handle, found, failure), *lines):
        answer(line)


def _session_lines(id: str, session: SessionStatus, run_id: str) -> Iterator[str]:
    queued = f", {count_of(session.queued, 'message')} queued" if session.queued else ""
    yield f"session {id}: {session.status}, {count_of(session.turn, 'turn')}{queued}"
    cost = format_usd(session.cost_usd, unpriced=session.unpriced_calls)
    used = ", ".join(filter(None, (describe_usage(session.usage.model_dump()), cost)))
    yield f"  its turns that have ended: {used}. Its run {run_id}:"


def _state(handle: RunHandle, found: RunStatus, failure: JsonObject) -> Iterator[str]:
    usage, calls = found.usage, count_of(found.model_calls, "model call")
    yield f"{found.status}, iteration {found.iteration}, {calls}"
    by = visible(one_line(found.handed_over_by))
    agent = visible(one_line(found.agent)) + (f", to which {by} has handed over" if by else "")
    yield f"agent {agent}; begun {local_time(found.started or 0.0)}"
    if failure:
        yield f"{failure['kind']}: {one_line(failure['message'], 200)}"
        show, messages = command_line("show", handle.id), command_line("messages", handle.id)
        yield f"  its steps: {show}    the conversation: {messages}"
    cached = cached_text(usage.model_dump())
    yield f"tokens: {usage.input_tokens} in{cached}, {usage.output_tokens} out"
    if found.cost_usd is not None:
        yield f"cost: {format_usd(found.cost_usd, unpriced=found.unpriced_calls)}"


async def _needs(
    server: ServerConnection,
    handle: RunHandle,
    found: RunStatus,
    described: WorkflowExecutionDescription,
) -> list[str]:
    """Return a line for each thing that the run waits for, with the commands to type."""
    lines: list[str] = []
    if missing := found.missing:
        lines.append(
            f"waits for a worker of the task queue {missing.task_queue!r} that has "
            f"{', '.join(missing.what)}, since {local_time(missing.since)}"
        )
    lines += [
        f"{'held ' if held.run_id is None else ''}{describe_hold(held)}" for held in found.held
    ]
    if any(held.run_id is None for held in found.held):
        from .doctor.workers import missing_keys  # imports as much as a worker

        lines += [
            f"  no worker of the run has {variable}: set it where the workers are started, and "
            "start them again"
            for variable in await missing_keys(server.client, described)
        ]
    if found.held:
        lines.append(f"  let it go on: {command_to_go_on(found.held, handle.id)}")
    if retry := found.held_up:
        at = local_time(retry.until)
        lines.append(f"the model call is made again at {at}, after {retry.kind}: {retry.why}")
    if found.waits_for_rate:
        lines.append(
            f"the next model call waits for a permit: calls of {found.waits_for_rate} have a rate"
        )
    for call in found.awaited:
        of = f" of run {call.run_id}" if call.run_id else ""
        lines.append(
            f"{describe_call(call.name, call.arguments)}{of} waits for another system "
            f"{times(call.since, call.deadline)}: perdure complete TOKEN RESULT"
        )
    lines += waiting_lines(handle.id, found.pending_approvals)
    if queue := found.queue_without_worker:
        busy, version, memo = found.workers_are_busy, found.pinned_to, await read_memo(described)
        lines.append(waiting_text(handle.id, queue, memo, is_polled=busy, pinned_to=version))
    return lines
