"""What a schedule left behind, as its judges read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perdure.messages import Message
from perdure.protocol import names
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.session.session import Session

from .history import Event, Execution
from .machine import Machine, Nondeterminism, TaskFailed
from .people import decoded

if TYPE_CHECKING:
    from .world import World

MODEL = "perdure.call_model"
TOOL = "perdure.tool."


def fingerprint(workflow: Any) -> str:
    """Return what a run knows, without times: it must be the same after each replay."""
    if isinstance(workflow, Session):
        return _session_fingerprint(workflow)
    if not isinstance(workflow, AgentRun):
        return ""
    state, loop = workflow.state, workflow.state.loop
    waiting = [each.call_id for each in state.approvals.pending_approvals]
    facts = (
        state.conversation.digest,
        state.conversation.version,
        len(state.conversation.unrecorded_operations),
        state.steering,
        state.unread,
        state.events.last_seq,
        loop.iteration,
        loop.iterations,
        loop.tool_calls,
        loop.usage.total_tokens,
        waiting,
        state.approvals.updates,
        len(state.holds.held),
        state.cancelled,
        state.ended,
    )
    return repr(facts)


def _session_fingerprint(session: Session) -> str:
    known, queue, turns = session._conversation, session._queue, session._turns
    facts = (
        known.conversation.digest,
        known.conversation.version,
        known.unread,
        known.unchecked,
        [each.id for each in queue.queued],
        list(queue.taken),
        queue.updates,
        queue.is_closing,
        turns.last,
        turns.is_busy,
        turns.handed_to,
    )
    return repr(facts)


@dataclass
class SessionOutcome:
    """One session: its links, and the workflow's state at the end of the last one."""

    links: list[Execution]
    last: Session
    turns: list[RunOutcome]

    @property
    def messages(self) -> list[Message]:
        """The conversation at the end."""
        return self.last.conversation

    @property
    def end(self) -> str:
        """How it ended; "" for an open session."""
        closing = self.links[-1].closing
        return closing.kind if closing else ""


@dataclass
class RunOutcome:
    """One run: its links, and the workflow's state at the end of each, from a replay."""

    world: World
    id: str
    links: list[Execution]
    states: list[AgentRun] = field(default_factory=list)

    @property
    def closing(self) -> Event | None:
        return self.links[-1].closing

    @property
    def end(self) -> str:
        """How it ended: completed, failed, canceled or terminated; "" for an open run."""
        return self.closing.kind if self.closing else ""

    @property
    def last(self) -> AgentRun:
        """The workflow's state at the end of the run."""
        return self.states[-1]

    @property
    def messages(self) -> list[Message]:
        """The conversation at the end."""
        return self.last.state.conversation.messages

    @cached_property
    def events(self) -> list[Event]:
        """The events of all links."""
        return [event for link in self.links for event in link.events]

    def scheduled(self, prefix: str) -> list[tuple[Execution, Event]]:
        """Return the scheduled activities whose type begins so, with their links."""
        return [
            (link, event)
            for link in self.links
            for event in link.events
            if event.kind == "activity_scheduled"
            and event.body.schedule_activity.activity_type.startswith(prefix)
        ]

    def end_of(self, link: Execution, scheduled: Event) -> Event | None:
        """Return the end of an activity."""
        return next(
            (
                event
                for event in link.events[scheduled.id :]
                if event.ref == scheduled.id
                and event.kind.startswith("activity_")
                and event.kind not in ("activity_started", "activity_cancel_requested")
            ),
            None,
        )

    @cached_property
    def answers(self) -> list[tuple[str, list[str]]]:
        """The recorded answers of the model: text, and the ids of calls."""
        recorded = []
        for link, event in self.scheduled(MODEL):
            end = self.end_of(link, event)
            if end is not None and end.kind == "activity_completed":
                message = decoded(end.body)["message"]
                text = "".join(part.get("value", "") for part in message["parts"])
                calls = (message.get("metadata") or {}).get("tool_calls") or ()
                recorded.append((text, [call["id"] for call in calls]))
        return recorded

    @cached_property
    def results(self) -> dict[str, Message]:
        """The tool results of the conversation, by call id."""
        return {
            str(message.metadata.get("tool_call_id")): message
            for message in self.messages
            if message.role == "tool"
        }

    @cached_property
    def steered(self) -> list[str]:
        """The texts of the steering messages that the histories have, each once, in their order."""
        sent = [
            decoded(event.body[1][0])
            for event in self.events
            if event.kind == "signaled" and event.body[0] == "steer"
        ]
        return list({each.get("id", each["text"]): each["text"] for each in sent}.values())


def outcomes(world: World) -> tuple[list[RunOutcome], SessionOutcome | None]:
    """Replay each history; return the runs that could be replayed, and the session, if any."""
    found: dict[str, RunOutcome] = {}
    links: list[Execution] = []
    session: Session | None = None
    for execution in world.links:
        machine = replayed(world, execution)
        workflow = workflow_of(machine) if machine is not None else None
        if execution.start.type == names.SESSION_WORKFLOW:
            links.append(execution)
            session = workflow
            continue
        first = execution.start.first_run_id
        run = found.setdefault(first, RunOutcome(world, execution.id, []))
        run.links.append(execution)
        if isinstance(workflow, AgentRun):
            run.states.append(workflow)
    runs = [run for run in found.values() if len(run.states) == len(run.links)]
    return runs, SessionOutcome(links, session, runs) if session is not None else None


def workflow_of(machine: Machine) -> Any:
    """Return the workflow object of a machine."""
    return getattr(machine.instance, "_object", None)


def replayed(world: World, execution: Execution) -> Machine | None:
    """Replay one history, compare what the run knew after each task, and note violations."""
    machine = Machine(execution)
    world.abandoned.append(machine)

    def compare(task: int) -> None:
        live = world.states.get((execution.run_id, task))
        if live is not None and live != (now := fingerprint(workflow_of(machine))):
            world.fails(
                "REPLAY_STATE", execution, f"after the task of event {task}: {live} != {now}"
            )

    asyncio._set_running_loop(world.loop)
    try:
        machine.replay(execution.events, compare)
    except (Nondeterminism, TaskFailed) as error:
        world.fails("REPLAY", execution, str(error))
        return None
    finally:
        asyncio._set_running_loop(None)
    return machine


def answers_in(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    """Return the answers in a conversation, as `RunOutcome.answers` has them."""
    return [
        (message.text, [call["id"] for call in message.metadata.get("tool_calls") or ()])
        for message in messages
        if message.role == "assistant"
    ]


def value_of(arguments: Any) -> Any:
    """Return the JSON value in an activity's first argument."""
    return json.loads(arguments[0].data)
