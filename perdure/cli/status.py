"""`perdure status`: print where a run stands."""

from __future__ import annotations

from ..decision_commands import decision_command, denial_command
from ..excerpt import counted, one_line
from ..money import format_usd
from ..shell import command_line
from . import options
from .approvals import local_time, times
from .console import answer, describe_call
from .encrypted import tell_encrypted
from .recorded import CommandMemo, read_memo
from .running import execute
from .session import open_run
from .task_queue import waiting_text


def status(id: options.RunId, as_json: options.AsJson = False) -> None:
    """Print where a run stands."""
    execute(_status(id, as_json))


async def _status(id: str, as_json: bool) -> None:
    from ..client import session as session_of
    from ..history.chain import Chain
    from ..payloads.encryption import EncryptionError
    from .failed import failure_of

    memo = CommandMemo()
    async with open_run(id) as (session, handle):
        run_id = handle.id
        try:
            found, fork = await handle.status(), await handle.fork_of()
            failure = await failure_of(Chain(session.client, run_id)) if found.status == "failed" else {}
        except EncryptionError as error:
            await tell_encrypted(session, run_id, error, as_json=as_json)
            return
        standing = await session_of(session.client, None, id).status() if id != run_id else None
        if found.queue_without_worker:
            memo = await read_memo(await session.client.get_workflow_handle(run_id).describe())
    if as_json:
        of = {"fork_of": fork.model_dump(mode="json", by_alias=True)} if fork else {}
        among = {"session": {"id": id, **standing.model_dump(mode="json", by_alias=True)}} if standing else {}
        why = {"failure": failure} if failure else {}
        answer({**found.model_dump(mode="json", by_alias=True), **why, **of, **among})
        return
    if standing:
        queued = f", {counted(standing.queued, 'message')} queued" if standing.queued else ""
        answer(f"session {id}: {standing.status}, {counted(standing.turn, 'turn')}{queued}. Its run {run_id}:")
    if fork:
        answer(f"a fork of run {fork.run}, before its iteration {fork.at}")
    usage = found.usage
    answer(f"{found.status}, iteration {found.iteration}, {counted(found.model_calls, 'model call')}")
    if failure:
        answer(f"{failure['kind']}: {one_line(failure['message'], 200)}")
        answer(f"  what it did: {command_line('show', run_id)}    what was said: {command_line('messages', run_id)}")
    answer(f"tokens: {usage.input_tokens} in, {usage.output_tokens} out")
    if found.cost_usd is not None:
        answer(f"cost: {format_usd(found.cost_usd, unpriced=found.unpriced_calls)}")
    if found.missing:
        what, queue, since = ", ".join(found.missing.what), found.missing.task_queue, local_time(found.missing.since)
        answer(f"waits for a worker of the task queue {queue!r} that has {what}, since {since}")
    if found.held_up:
        until = local_time(found.held_up.until)
        answer(f"the model call is made again at {until}, after {found.held_up.kind}: {found.held_up.why}")
    if found.waits_for_rate:
        answer(f"the next model call waits for a permit: calls of {found.waits_for_rate} have a rate")
    for pending in found.pending_approvals:
        call, what = describe_call(pending.name, pending.arguments), "an answer" if pending.question else "approval"
        named = (pending.run_id or run_id, pending.call_id, pending.digest)
        how = decision_command(*named, kind=pending.kind)
        answer(f"{call} waits for {what} {times(pending.model_dump())}: {how}")
        answer(f"  or {denial_command(*named)}")
    if found.queue_without_worker:
        answer(waiting_text(run_id, found.queue_without_worker, memo, is_polled=found.workers_are_busy))
