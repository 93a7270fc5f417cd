"""Pauses and releases runs: all runs of an agent, a tenant or a task queue, or runs by id."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from ..activities.pauses import PauseRecord
from ..payloads.converter import with_converter
from ..protocol.pauses import (
    MAX_RUNS,
    PAUSE,
    RECORD,
    RECORD_TYPE,
    RELEASE,
    Pause,
    Release,
    RunFacts,
    Scope,
)
from ..protocol.search_attributes import AGENT, TENANT
from ..redaction import redactor
from ..text import bounded_text

MAX_EVENTS = 2_000
"""The workflow that keeps the record starts afresh after this many events, once no pause is in
force."""
SUMMARY = (
    "The pauses of perdure's runs. No worker executes this workflow; workers read its signals."
)


async def pauses_in_force(client: Client) -> list[Pause]:
    """Return the pauses in force, oldest first. Raises RPCError."""
    return list((await PauseRecord(with_converter(client)).read()).in_force.values())


async def pause_runs(
    client: Client,
    *,
    agent: str | None = None,
    tenant: str | None = None,
    task_queue: str | None = None,
    runs: Sequence[str] = (),
    reason: str = "",
    by: str | None = None,
) -> Pause:
    """Pause runs before their next model or tool call, until `release_runs`; runs that start later
    are paused too.

    A run is paused when it matches every argument given; without arguments, all runs of the
    namespace are. Runs called by a run in `runs` are paused with it; a session's id stands for its
    turns. Calls in progress finish and are recorded. Workers notice the pause at once, at the
    latest after two seconds. `reason` and `by` are for people.

    Raises ValueError for more than 10,000 `runs`, and RPCError.
    """
    if len(runs) > MAX_RUNS:
        raise ValueError(
            f"{len(runs):,} runs: expected at most {MAX_RUNS:,}; name their agent, tenant or task "
            "queue"
        )
    client = with_converter(client)
    scope = Scope(agent=agent, tenant=tenant, task_queue=task_queue, runs=list(runs))
    record = PauseRecord(client)
    for pause in (await record.read()).in_force.values():
        if pause.scope == scope and not pause.released:
            return pause
    if record.events > MAX_EVENTS and not record.pauses.in_force:
        await _begin_anew(client, record)
    pause = Pause(id=secrets.token_hex(4), scope=scope, by=by, reason=bounded_text(reason))
    await _write(client, PAUSE, redactor().value(pause))
    return (await record.read()).in_force.get(pause.id, pause)


async def release_runs(
    client: Client, pauses: Sequence[str], *, runs: Sequence[str] = (), by: str | None = None
) -> None:
    """Release pauses by id; with `runs`, only for these runs. Raises RPCError.

    Runs that are already held need `RunHandle.go_on`.
    """
    if pauses:
        await _write(
            with_converter(client), RELEASE, Release(pauses=list(pauses), runs=list(runs), by=by)
        )


async def release_run(client: Client, id: str, *, by: str | None = None) -> bool:
    """Release one run from all pauses and return whether it had any. Raises RPCError."""
    client = with_converter(client)
    if not (pauses := await pauses_in_force(client)):
        return False
    facts = facts_of(await client.get_workflow_handle(id).describe())
    found = [pause.id for pause in pauses if pause.is_on(facts)]
    await release_runs(client, found, runs=[id], by=by)
    return bool(found)


def facts_of(run: WorkflowExecution) -> RunFacts:
    """Return the facts, read from the run's search attributes, that decide whether a pause applies
    to it.
    """
    attributes = run.typed_search_attributes
    agent, tenant = attributes.get(AGENT, ""), attributes.get(TENANT)
    return RunFacts(id=run.id, agent=agent, tenant=tenant, task_queue=run.task_queue)


async def _write(client: Client, signal: str, line: Pause | Release) -> None:
    """Append a line to the record; create the record with it if there is none."""
    await client.start_workflow(
        RECORD_TYPE,
        id=RECORD,
        task_queue=RECORD,
        start_signal=signal,
        start_signal_args=[line],
        static_summary=SUMMARY,
    )


async def _begin_anew(client: Client, record: PauseRecord) -> None:
    """End a long record and start the next one with the lines that arrived in between."""
    try:
        await client.get_workflow_handle(RECORD, run_id=record.run_id).terminate(
            "the next record begins"
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return
    await record.follow(record.run_id, wait=False)
    for pause in record.lines.in_force.values():
        await _write(client, PAUSE, pause)
        if pause.released:
            await _write(client, RELEASE, Release(pauses=[pause.id], runs=pause.released))
