"""What is known of a schedule of runs, as the server describes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleListActionStartWorkflow,
    ScheduleListDescription,
    ScheduleSpec,
)

from ..errors import ConfigurationError
from ..payloads.encryption import EncryptionError
from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import AGENT


class ScheduleError(ConfigurationError):
    """A schedule can't be made, or there is none of that name."""


class ScheduledRuns(BaseModel):
    """A schedule of runs."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    name: str
    agent: str
    cron: list[str] = []
    """As they were given."""
    every: float | None = None
    """In seconds."""
    timezone: str = "UTC"
    overlap: str = ""
    """What becomes of a run whose time has come while the one before it is under way, in Temporal's words."""
    paused: bool = False
    task_queue: str = ""
    next: list[datetime] = []
    """The next times."""
    runs: list[str] = []
    """The ids of the latest runs, the last one first."""
    running: list[str] = []
    """The ids of those that are under way."""
    started: int = 0
    """How many runs it has started."""
    encrypted_with: str | None = None
    """The id of the key without which its agent can't be read here."""


def is_of_runs(entry: ScheduleListDescription) -> bool:
    """Whether it starts runs, and not some other workflow."""
    action = entry.schedule.action if entry.schedule else None
    return isinstance(action, ScheduleListActionStartWorkflow) and action.workflow == WORKFLOW


async def described(handle: ScheduleHandle) -> ScheduledRuns:
    """The schedule as it is now. Raises `RPCError`, and `ScheduleError` for one of another workflow."""
    found = await handle.describe()
    action = found.schedule.action
    if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != WORKFLOW:
        raise ScheduleError(f"the schedule {found.id!r} starts no runs of agents, but something else")
    agent, key = await _agent(found, action)
    spec, info = found.schedule.spec, found.info
    latest = [run.action for run in reversed(info.recent_actions)]
    return ScheduledRuns(
        name=found.id,
        agent=agent,
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
        encrypted_with=key,
    )


async def _agent(found: ScheduleDescription, action: ScheduleActionStartWorkflow) -> tuple[str, str | None]:
    """The agent's name, as far as it can be read here; and the key that this would take."""
    payload = (action.memo or {}).get("agent")
    shown = str(action.typed_search_attributes.get(AGENT, "?"))
    if not isinstance(payload, Payload):
        return shown, None
    try:
        [name] = await found.data_converter.decode([payload], [str])
    except EncryptionError as error:
        return shown, error.key_id
    return str(name), None


def _expressions(spec: ScheduleSpec) -> list[str]:
    written = [calendar.comment.strip() for calendar in spec.calendars if calendar.comment]
    return written or (["a calendar"] if spec.calendars else [])


def _ids(actions: Sequence[Any]) -> list[str]:
    return [action.workflow_id for action in actions if isinstance(action, ScheduleActionExecutionStartWorkflow)]
