"""What a schedule left behind, as its judges read it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perdure.messages import Message
from perdure.workflows.agent_run import AgentRun

from .history import Event, Execution
from .machine import Machine, Nondeterminism, TaskFailed
from .people import decoded

if TYPE_CHECKING:
    from .world import World

MODEL = "perdure.call_model"
TOOL = "perdure.tool."


def fingerprint(workflow: Any) -> str:
    """Return what a run knows, without times: it must be the same after each replay."""
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
        len(state.holds.held),
        state.cancelled,
        state.ended,
    )
    return repr(facts)


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
    def results(self) -> dict[str, Message]:
        """The tool results of the conversation, by call id."""
        return {
            str(message.metadata.get("tool_call_id")): message
            for message in self.messages
            if message.role == "tool"
        }

    @cached_property
    def steered(self) -> list[str]:
        """The texts of the steering messages that the histories have, in their order."""
        return [
            decoded(event.body[1][0])["text"]
            for event in self.events
            if event.kind == "signaled" and event.body[0] == "steer"
        ]


def outcomes(world: World) -> list[RunOutcome]:
    """Replay each history, and return the runs that could be replayed."""
    found: dict[str, RunOutcome] = {}
    for execution in world.links:
        machine = replayed(world, execution)
        first = execution.start.first_run_id
        run = found.setdefault(first, RunOutcome(world, execution.id, []))
        run.links.append(execution)
        if machine is not None and isinstance(workflow := workflow_of(machine), AgentRun):
            run.states.append(workflow)
    return [run for run in found.values() if len(run.states) == len(run.links)]


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


def value_of(arguments: Any) -> Any:
    """Return the JSON value in an activity's first argument."""
    return json.loads(arguments[0].data)
