"""`perdure show`: what a run did, a line for each iteration."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .console import answer
from .encrypted import tell_encrypted
from .failed import failure_of
from .running import execute
from .session import Session, open_run
from .show_text import in_lines
from .waiting import waiting_shown

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecutionDescription

    from ..client import RunHandle
    from ..client.reading.surveyed import IterationSurvey, Survey
    from ..history.chain import Chain
    from ..protocol.outcome import RunStatus


def show(
    id: options.RunId,
    messages: Annotated[bool, typer.Option("--messages", "-m", help="What was said, too, trimmed or not.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what a run did, a line for each iteration.

    A line has the model, its tokens and their cost, how long the model took, and each tool with its outcome, its
    attempts and the run that it has called. A run that is under way is shown as far as it is.
    """
    execute(_show(id, messages, as_json))


async def _show(run_id: str, messages: bool, as_json: bool) -> None:
    from ..payloads.encryption import EncryptionError

    async with open_run(run_id) as (session, handle):
        run_id = handle.id
        try:
            with waiting_shown():
                found = await summary(session, handle, messages=messages)
        except EncryptionError as error:
            await tell_encrypted(session, run_id, error, as_json=as_json)
            return
    if as_json:
        answer(found)
        return
    for line in in_lines(found):
        answer(line)


async def summary(session: Session, handle: RunHandle, *, messages: bool) -> dict[str, Any]:
    """The run as JSON: what it is, how it stands, its iterations and, if asked for, its messages.

    Raises `RPCError` when there is no such run.
    """
    from ..client.reading.survey import survey
    from ..client.server_clock import server_time
    from ..history.chain import Chain

    chain = Chain(session.client, handle.id)
    described = await chain.describe()
    status = await handle.status()
    found = await survey(chain)
    now = 0.0 if described.close_time else await server_time(session.client)
    told = {"messages": [each.model_dump(mode="json", by_alias=True) for each in found.told]} if messages else {}
    return {
        "id": handle.id,
        "status": status.status,
        **await _what_it_is(chain, described),
        **({"failure": failure} if (failure := await failure_of(chain, described)) else {}),
        **_when(found, status, described, now),
        "model_calls": status.model_calls,
        "usage": status.usage.model_dump(mode="json"),
        "cost_usd": status.cost_usd,
        "unpriced_calls": status.unpriced_calls,
        "links": found.links,
        "first_kept": found.first_kept,
        "unreplayed": found.unreplayed,
        "pending_approvals": [each.model_dump(mode="json", by_alias=True) for each in status.pending_approvals],
        "queue_without_worker": status.queue_without_worker,
        "iterations": [_as_json(each) for each in found.iterations],
        **told,
    }


async def _what_it_is(chain: Chain, described: WorkflowExecutionDescription) -> dict[str, Any]:
    from ..client.fork import fork_origin
    from ..history.link import read_input
    from ..protocol.search_attributes import ORIGIN

    input = await read_input(chain.client, chain.workflow_id, described.run_id)
    forked, lineage, model = await fork_origin(described), input.lineage, input.agent.model
    return {
        "agent": input.agent.name,
        "model": model.id if model else None,
        "provider": model.provider_key if model else None,
        "task_queue": described.task_queue,
        "origin": described.typed_search_attributes.get(ORIGIN),
        "called_by": {"run": lineage.parent, "call_id": lineage.call_id} if lineage else None,
        "fork_of": {"run": forked.run, "at": forked.at} if forked else None,
        "forks": await _forks(chain),
    }


async def _forks(chain: Chain) -> list[str]:
    from temporalio.service import RPCError, RPCStatusCode

    from ..client.fork import forks_of

    try:
        return [fork async for fork in forks_of(chain.client, chain.workflow_id)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return []  # the search attribute by which they would be found is not registered here


def _when(found: Survey, status: RunStatus, described: WorkflowExecutionDescription, now: float) -> dict[str, Any]:
    ended = described.close_time.timestamp() if described.close_time else None
    until = ended or now
    waiting = [each.since for each in status.pending_approvals] if ended is None else []
    seconds = until - found.started
    return {
        "started": _as_time(found.started),
        "ended": _as_time(ended) if ended else None,
        "seconds": round(seconds, 3),
        "active_seconds": round(max(0.0, seconds - found.waited(waiting, until)), 3),
    }


def _as_json(each: IterationSurvey) -> dict[str, Any]:
    started = None if each.started is None else _as_time(each.started, "milliseconds")
    return {**each.model_dump(mode="json"), "started": started}


def _as_time(seconds: float, timespec: str = "seconds") -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)
