"""Counts the Actions of a run in its histories, as Temporal Cloud bills them."""

from __future__ import annotations

from pydantic import BaseModel, Field, computed_field
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes

from ...history.chain import Chain
from ...history.link import RecordedLink

FIRED_BY_A_SCHEDULE = "TemporalScheduledById"
"""The search attribute of a workflow that a schedule has started."""


class RunActions(BaseModel):
    """The Actions of one run on Temporal Cloud; a server of your own bills nothing.

    Counted in the histories that the namespace keeps, which record no heartbeats and queries. The
    runs in `called` have Actions of their own.
    """

    starts: int = 0
    """1 for the run, or 3 if a schedule has started it, and 1 for each further link; a called run,
    and a turn of a session, is started by its caller (`children`)."""
    activities: int = 0
    """Model calls, executions of tools, and other activities."""
    retries: int = 0
    """Further attempts of ended activities."""
    local_activities: int = 0
    """Workflow tasks with local tools, plain guardrails, or both."""
    timers: int = 0
    messages: int = 0
    """Signals and updates, such as steering messages, approvals and answers."""
    search_attributes: int = 0
    """How often they were changed after the start."""
    children: int = 0
    """2 for the start of each workflow that the run has called."""
    called: list[str] = Field(default_factory=list)
    """Ids of the workflows that the run has called."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        """The sum."""
        calls = self.activities + self.retries + self.local_activities + self.timers + self.children
        return self.starts + calls + self.messages + self.search_attributes


async def actions_of(chain: Chain) -> RunActions:
    """Return the Actions of all links of a run so far. Raises as `Chain.links` does."""
    actions = RunActions()
    async for link in chain.links():
        count_actions(actions, link)
    return actions


def count_actions(actions: RunActions, link: RecordedLink) -> None:
    """Add what the next link of the run has taken."""
    actions.starts += _starts(link.history[0].workflow_execution_started_event_attributes)
    for event in link.history:
        if field := _FIELDS.get(event.event_type):
            setattr(actions, field, getattr(actions, field) + 1)
    signals = [
        event.workflow_execution_signaled_event_attributes
        for event in link.history
        if _is_signal(event)
    ]
    # One that a workflow has sent is the sender's.
    actions.messages += sum(not each.external_workflow_execution.workflow_id for each in signals)
    actions.local_activities += len({_task_of(event) for event in link.history} - {0})
    actions.children += 2 * len(link.work.children)
    actions.called += [each.id for each in link.work.children]
    actions.retries += sum(
        max(each.attempts - 1, 0) for each in link.work.activities if not each.is_local
    )


def _starts(started: WorkflowExecutionStartedEventAttributes) -> int:
    if started.continued_execution_run_id:
        return 1
    if started.parent_workflow_execution.workflow_id:
        return 0
    return 3 if FIRED_BY_A_SCHEDULE in started.search_attributes.indexed_fields else 1


_FIELDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "activities",
    EventType.EVENT_TYPE_TIMER_STARTED: "timers",
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: "messages",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: "messages",
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: "search_attributes",
}
"""By type of event, what each is one Action of."""


def _is_signal(event: HistoryEvent) -> bool:
    return event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED


def _task_of(event: HistoryEvent) -> int:
    """Return the workflow task that has recorded this marker, by which markers are billed; 0 for
    another event.
    """
    return event.marker_recorded_event_attributes.workflow_task_completed_event_id
