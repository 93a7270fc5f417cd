"""`perdure status`: the state of a run, the things that it waits for, and the next commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from ..client import RunHandle
from ..client import session as session_of
from ..commands import command_line
from ..history.chain import Chain
from ..json_types import JsonObject
from ..payloads.failures import text_of
from ..protocol.outcome import Held, RunStatus
from ..protocol.session import SessionStatus
from ..text import count_of, format_usd, one_line, visible
from .ask_person import local_time, times, waiting_lines
from .console import answer, cached_text, describe_call, describe_usage
from .given import Given
from .go_on import raised_limits
from .recorded_run import open_run
from .server_connection import ServerConnection, read_memo
from .worker_inside import waiting_text


class State(NamedTuple):
    """The status of a run, for people and for programs."""

    lines: list[str]
    as_json: JsonObject


async def status(given: Given) -> None:
    """Print the status of a run, with that of its session if the session is named."""
    async with open_run(given.id) as (server, handle):
        state = await read_state(server, handle, given.id)
    for each in [state.as_json] if given.as_json else state.lines:
        answer(each)


async def read_state(
    server: ServerConnection, handle: RunHandle, named: str, *, with_steps: bool = False
) -> State:
    """Read the status of the run; `named` is its id, or that of its session. `with_steps`: the
    reader sees its iterations, too.
    """
    found, fork = await handle.status(), await handle.fork_of()
    described = await server.client.get_workflow_handle(handle.id).describe()
    failure = await failure_of(Chain(server.client, handle.id), described)
    lines: list[str] = []
    more: JsonObject = {"failure": failure} if failure else {}
    if named != handle.id:
        session = await session_of(server.client, None, named).status()
        more["session"] = {"id": named, **session.model_dump(mode="json", by_alias=True)}
        lines += _session_lines(named, session, handle.id)
    if fork:
        more["fork_of"] = fork.model_dump(mode="json", by_alias=True)
        lines.append(f"a fork of run {fork.run}, before its iteration {fork.at}")
    lines += [
        *_state(handle, found, failure, with_steps=with_steps),
        *await _needs(server, handle, found, described),
    ]
    return State(lines, {**found.model_dump(mode="json", by_alias=True), **more})


def _session_lines(id: str, session: SessionStatus, run_id: str) -> Iterator[str]:
    queued = f", {count_of(session.queued, 'message')} queued" if session.queued else ""
    yield f"session {id}: {session.status}, {count_of(session.turn, 'turn')}{queued}"
    cost = format_usd(session.cost_usd, unpriced=session.unpriced_calls)
    used = ", ".join(filter(None, (describe_usage(session.usage.model_dump()), cost)))
    yield f"  its turns that have ended: {used}. Its run {run_id}:"


def _state(
    handle: RunHandle, found: RunStatus, failure: JsonObject, *, with_steps: bool
) -> Iterator[str]:
    usage, calls = found.usage, count_of(found.model_calls, "model call")
    yield f"{found.status}, iteration {found.iteration}, {calls}"
    by = visible(one_line(found.handed_over_by))
    agent = visible(one_line(found.agent)) + (f", to which {by} has handed over" if by else "")
    yield f"agent {agent}; begun {local_time(found.started or 0.0)}"
    if failure:
        yield f"{failure['kind']}: {failure['message']}"
        show, messages = command_line("show", handle.id), command_line("messages", handle.id)
        steps = "" if with_steps else f"its steps: {show}    "
        yield f"  {steps}the conversation: {messages}"
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
        f"{'held ' if held.run_id is None else ''}{_describe_hold(held)}" for held in found.held
    ]
    if any(held.run_id is None for held in found.held):
        from .doctor.workers import missing_keys  # imports as much as a worker

        lines += [
            f"  no worker of the run has {variable}: set it where the workers are started, and "
            "start them again"
            for variable in await missing_keys(server.client, described)
        ]
    if found.held:
        lines.append(
            f"  continue it: {command_line('go-on', handle.id, more=raised_limits(found.held))}"
        )
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


def _describe_hold(held: Held) -> str:
    run = "" if held.run_id is None else f"run {held.run_id} is held "
    return f"{run}({held.reason}) since {local_time(held.since)}: {one_line(held.why, 500)}"


async def failure_of(
    chain: Chain, described: WorkflowExecutionDescription | None = None
) -> dict[str, str]:
    """Return the kind and the whole text of the error; empty for a run that has not failed.

    Raises `RPCError` when there is no such run, and `EncryptionError`.
    """
    described = described or await chain.describe()
    if described.status is not WorkflowExecutionStatus.FAILED:
        return {}
    closing = await chain.closing_event(described.run_id)
    failure = closing.workflow_execution_failed_event_attributes.failure
    text = await text_of(chain.client.data_converter, failure)
    return {"kind": failure.application_failure_info.type or "failed", "message": text}
