"""Starts runs on a schedule: by cron expressions or at intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Literal, Unpack

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListActionStartWorkflow,
    ScheduleListDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
)
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from ..agents import Agent
from ..errors import ConfigurationError
from ..json_types import JsonView
from ..messages import Message
from ..options import RunOptions, options_of
from ..payloads.converter import with_converter
from ..payloads.encryption import EncryptionError
from ..protocol.names import WORKFLOW
from ..protocol.run import RunInput
from ..protocol.search_attributes import AGENT
from ..settings.agent_file import with_on_failure
from .run_input import loaded_agent, new_run
from .starting import StartOptions, StartRequest, send_request, start_request


class ScheduleError(ConfigurationError):
    """A schedule can't be created, or does not exist."""


class ScheduledRuns(BaseModel):
    """A schedule of runs."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    name: str
    agent: str
    cron: list[str] = []
    """The given expressions."""
    every: float | None = None
    """In seconds."""
    timezone: str = "UTC"
    overlap: str = ""
    """Temporal's overlap policy: the fate of a run that is due while the last one is open."""
    paused: bool = False
    task_queue: str = ""
    next: list[datetime] = []
    """The next times."""
    runs: list[str] = []
    """The ids of the latest runs, the last one first."""
    running: list[str] = []
    """The ids of the open runs."""
    started: int = 0
    """The number of started runs."""


def is_of_runs(entry: ScheduleListDescription) -> bool:
    """Return whether the schedule starts runs."""
    action = entry.schedule.action if entry.schedule else None
    return isinstance(action, ScheduleListActionStartWorkflow) and action.workflow == WORKFLOW


async def read_schedule(handle: ScheduleHandle) -> ScheduledRuns:
    """Return the current schedule. Raises `RPCError`, and `ScheduleError` for one of another
    workflow.
    """
    found = await handle.describe()
    action = found.schedule.action
    if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != WORKFLOW:
        raise ScheduleError(
            f"the schedule {found.id!r} starts another workflow, not runs of agents"
        )
    spec, info = found.schedule.spec, found.info
    latest = [run.action for run in reversed(info.recent_actions)]
    return ScheduledRuns(
        name=found.id,
        agent=await _agent(found, action),
        cron=_expressions(spec),
        every=next((interval.every.total_seconds() for interval in spec.intervals), None),
        timezone=spec.time_zone_name or "UTC",
        overlap=found.schedule.policy.overlap.name.lower(),
        paused=found.schedule.state.paused,
        task_queue=action.task_queue,
        next=[] if found.schedule.state.paused else info.next_action_times[:5],
        runs=_ids(latest),
        running=_ids(info.running_actions),
        started=info.num_actions,
    )


async def _agent(found: ScheduleDescription, action: ScheduleActionStartWorkflow) -> str:
    """Return the agent's name; the search attribute's where the memo can't be decrypted."""
    name = str(action.typed_search_attributes.get(AGENT, "?"))
    payload = (action.memo or {}).get("agent")
    if isinstance(payload, Payload):
        with suppress(EncryptionError):
            [name] = await found.data_converter.decode([payload], [str])
    return name


def _expressions(spec: ScheduleSpec) -> list[str]:
    written = [calendar.comment.strip() for calendar in spec.calendars if calendar.comment]
    return written or (["a calendar"] if spec.calendars else [])


def _ids(actions: Sequence[Any]) -> list[str]:
    return [
        action.workflow_id
        for action in actions
        if isinstance(action, ScheduleActionExecutionStartWorkflow)
    ]


Overlap = Literal["skip", "buffer", "buffer-all", "cancel", "terminate", "allow"]
OVERLAPS: dict[Overlap, ScheduleOverlapPolicy] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "buffer": ScheduleOverlapPolicy.BUFFER_ONE,
    "buffer-all": ScheduleOverlapPolicy.BUFFER_ALL,
    "cancel": ScheduleOverlapPolicy.CANCEL_OTHER,
    "terminate": ScheduleOverlapPolicy.TERMINATE_OTHER,
    "allow": ScheduleOverlapPolicy.ALLOW_ALL,
}
"""The fate of a run that is due while the last one is open."""
CATCH_UP = timedelta(days=1)
"""A run that was due while no server was running starts at most this much later."""
LONGEST = timedelta(days=36500)
"""The longest interval."""
NOT_SCHEDULED = ("origin", "id_reuse_policy", "id_conflict_policy")
"""Options of a start that a schedule sets itself."""


async def create_schedule(
    client: Client,
    name: str,
    agent: Agent | str | PathLike[str],
    inputs: JsonView | None = None,
    *,
    cron: str | Sequence[str] = (),
    every: timedelta | float | None = None,
    timezone: str = "UTC",
    overlap: Overlap = "skip",
    paused: bool = False,
    replace: bool = False,
    task_queue: str = "perdure",
    options: RunOptions | JsonView | None = None,
    messages: Sequence[Message | JsonView] | None = None,
    output_type: Any = None,
    **start: Unpack[StartOptions],
) -> ScheduledRuns:
    """Start runs of the agent at the times of `cron`, in `timezone`, or every `every` seconds;
    return at once.

    The agent, its inputs and the rendered prompt are recorded now, and every run begins with them,
    even if the file changes. A run's id is `NAME-` and its time, and its search attribute
    `PerdureOrigin` is `schedule:NAME`. `replace` changes an existing schedule of that name; it
    stays paused if it is. A run that can't continue is held, unless `options` or the file set
    `on_failure` (`perdure docs waiting`). The other arguments are those of `start_run`.

    Raises the errors of `start_run`, and `ScheduleError` for invalid times, a name in use, options
    that are not for schedules, and unknown search attributes.
    """
    if refused := [option for option in NOT_SCHEDULED if start.get(option)]:
        raise ScheduleError(f"{', '.join(refused)}: the schedule sets it; leave it out")
    if overlap not in OVERLAPS:
        raise ScheduleError(f"overlap {overlap!r}: expected one of {', '.join(OVERLAPS)}")
    client = with_converter(client)
    spec = _spec(cron, every, timezone)
    start["origin"] = f"schedule:{name}"
    loaded = loaded_agent(agent)
    chosen = with_on_failure(loaded, options_of(options), "hold")
    input = new_run(loaded, inputs, chosen, messages, start.get("deps"))
    request = await start_request(
        client, input, start, task_queue=task_queue, id=name, output_type=output_type
    )
    handle = client.get_schedule_handle(name)

    async def send(input: RunInput, attributes: TypedSearchAttributes) -> None:
        policy = SchedulePolicy(overlap=OVERLAPS[overlap], catchup_window=CATCH_UP)
        schedule = Schedule(
            _action(request, input, attributes), spec, policy, ScheduleState(paused=paused)
        )
        if not (replace and await _replace_existing(handle, schedule)):
            await client.create_schedule(name, schedule)

    with _schedule_errors(name):
        await send_request(client, request, send)
        return await read_schedule(handle)


async def list_schedules(client: Client) -> list[ScheduledRuns]:
    """Return all schedules of runs, by name. Raises `RPCError`."""
    client = with_converter(client)
    names = [entry.id async for entry in await client.list_schedules() if is_of_runs(entry)]
    found = []
    for name in sorted(names):
        try:
            found.append(await read_schedule(client.get_schedule_handle(name)))
        except RPCError as error:  # The server lists a deleted schedule for a moment longer.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
    return found


async def get_schedule(client: Client, name: str) -> ScheduledRuns:
    """Return the schedule of that name. Raises `ScheduleError` when there is none."""
    with _schedule_errors(name):
        return await read_schedule(with_converter(client).get_schedule_handle(name))


async def pause_schedule(client: Client, name: str, reason: str = "") -> None:
    """Start no runs until `resume_schedule`. Raises `ScheduleError` for an unknown schedule."""
    with _schedule_errors(name):
        await client.get_schedule_handle(name).pause(note=reason or "paused")


async def resume_schedule(client: Client, name: str) -> None:
    """Start runs again. Raises `ScheduleError` for an unknown schedule."""
    with _schedule_errors(name):
        await client.get_schedule_handle(name).unpause(note="resumed")


async def run_schedule(client: Client, name: str) -> None:
    """Start a run now, even while the schedule is paused or another run is open.

    Raises `ScheduleError` for an unknown schedule.
    """
    with _schedule_errors(name):
        await client.get_schedule_handle(name).trigger(overlap=ScheduleOverlapPolicy.ALLOW_ALL)


async def delete_schedule(client: Client, name: str) -> None:
    """Delete the schedule; its open runs continue. Raises `ScheduleError` for an unknown
    schedule.
    """
    with _schedule_errors(name):
        await client.get_schedule_handle(name).delete()


def _spec(
    cron: str | Sequence[str], every: timedelta | float | None, timezone: str
) -> ScheduleSpec:
    crons = [cron] if isinstance(cron, str) else list(cron)
    if bool(crons) == (every is not None):
        raise ScheduleError(
            "expected either cron, such as '0 7 * * 1', or every, such as 3600 seconds"
        )
    # The server keeps the comment, and not the expression.
    expressions = [f"{text.partition('#')[0].strip()} # {text.strip()}" for text in crons]
    if every is None:
        return ScheduleSpec(cron_expressions=expressions, time_zone_name=timezone)
    interval = _interval(every)
    return ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)], time_zone_name=timezone)


def _interval(every: timedelta | float) -> timedelta:
    try:
        interval = every if isinstance(every, timedelta) else timedelta(seconds=every)
    except (OverflowError, ValueError, TypeError) as error:  # inf, nan
        raise ScheduleError(f"every {every!r}: expected seconds, or a timedelta") from error
    if not timedelta(seconds=1) <= interval <= LONGEST:
        raise ScheduleError(
            f"every {interval.total_seconds():g} s: expected a second at least, and {LONGEST} at "
            "most"
        )
    return interval


def _action(
    request: StartRequest, input: RunInput, attributes: TypedSearchAttributes
) -> ScheduleActionStartWorkflow:
    return ScheduleActionStartWorkflow(
        WORKFLOW, input, typed_search_attributes=attributes, **request.arguments
    )


async def _replace_existing(handle: ScheduleHandle, schedule: Schedule) -> bool:
    """Replace an existing schedule; return whether there was one."""
    try:
        before = await handle.describe()
        schedule.state.paused |= before.schedule.state.paused
        await handle.update(lambda _: ScheduleUpdate(schedule))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


@contextmanager
def _schedule_errors(name: str) -> Iterator[None]:
    """Raise the server's errors about a schedule as `ScheduleError`."""
    try:
        yield
    except ScheduleAlreadyRunningError as error:
        raise ScheduleError(
            f"there is a schedule {name!r}: choose another name, or replace that one "
            "(replace=True, --replace)"
        ) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise ScheduleError(
                f"there is no schedule {name!r}: `perdure schedule list` lists those of this "
                "namespace"
            ) from error
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise ScheduleError(
            f"the schedule {name!r} is not valid: {error.message}. {_advice(error.message)}"
        ) from error


def _advice(message: str) -> str:
    if "search attribute" in message:
        return "Expected registered search attributes: `perdure setup` registers perdure's own"
    if "time zone" in message:
        return "Expected a time zone such as Europe/Berlin"
    return "Expected a cron expression such as '0 7 * * 1' (Mondays at 7:00)"
