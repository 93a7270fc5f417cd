"""The state of one link of a run: the loop's effects write it; the status query and Temporal's UI
show it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Literal, TypeVar

from temporalio import workflow

from ..agents import Agent, Model
from ..conversation import Instruct
from ..errors import RunError
from ..event_data import (
    EventType,
    HeldData,
    HoldReason,
    LoggedData,
    LoggedMessagesUpdatedData,
    StatusData,
    WentOnData,
)
from ..events import EventLog
from ..loop.effects import Cancelled
from ..loop.limits import ChildEnd, deadline
from ..loop.state import LoopState
from ..messages import Message, ToolResult
from ..model_choice import ModelChoice, with_other_model
from ..options import heartbeat_intervals
from ..protocol.descriptions import shown_name
from ..protocol.inventory import Inventory, Missing
from ..protocol.outcome import HeldUp, RunStatus
from ..protocol.pauses import RunFacts
from ..protocol.run import GoOn, RunInput, SteeringMessage, paced_with
from ..protocol.signatures import content_of, with_request
from ..tool_calls import ToolRequest, ToolSpec
from ..webhooks import Webhook
from .approvals import REMEMBERED, Approvals
from .approvers import initial_requests, request_received
from .external_calls import ExternalCalls
from .holding import Holds
from .logging import is_held, is_let_go_on
from .waiting import now, wait_until

MAX_UPDATES = 1_000
"""After this many decisions, a run continues in a new link as soon as it can."""

ShownStatus = Literal["running", "waiting", "held", "done", "failed", "cancelled"]
End = TypeVar("End", ToolResult, ChildEnd)


@dataclass
class DelegatedCall:
    """A tool call executed elsewhere: by another agent's run, a child workflow or a foreign
    activity.
    """

    request: ToolRequest
    since: float
    """Seconds since the epoch, by the workflow's clock."""
    workflow_id: str = ""
    """The workflow id of the other agent's run; "" for other calls."""
    run_id: str = ""
    """The run id of that run's first link."""
    until: float | None = None
    """None while it is awaited."""
    error_kind: str | None = None

    async def wait_for(self, execution: Awaitable[End]) -> End:
        """Await the execution, and record its end. Raises the execution's error."""
        end = await execution
        result = end.result if isinstance(end, ChildEnd) else end
        self.until = now()
        if result.status != "success":
            self.error_kind = result.error_kind or result.status
        return end


class RunState:
    """The current state of one link: the same in the executing worker and in a replay of its
    history.

    Signals and updates change it at any time; the loop reads new input at points of its choice.
    """

    def __init__(self, input: RunInput, *, max_updates: int = MAX_UPDATES) -> None:
        carried = input.carried
        self.input = input
        self.options = input.options
        self.heartbeat_timeout = timedelta(
            seconds=heartbeat_intervals(input.options).lost_worker_seconds
        )
        """The time after an activity's last heartbeat at which its worker counts as lost."""
        self.loop = carried.loop if carried else LoopState(started_at=now())
        self.inventory = carried.inventory if carried else Inventory()
        self.conversation = input.conversation()
        self.events = EventLog(self.conversation, last_seq=carried.last_seq if carried else 0)
        self.cancelled = False
        self.requests = initial_requests(input)
        """The signed requests to the run; None after a request without a valid signature."""
        self.steering = list(carried.steering) if carried else []
        """Messages that the loop has not read yet."""
        self.steered = list(carried.steered) if carried else []
        """Digests of recent messages that have an id."""
        self.unread = 0
        """The number of steering messages in the conversation that no model call has carried
        yet."""
        self.approvals = Approvals(carried.decided if carried else (), max_updates=max_updates)
        self.awaited = ExternalCalls(carried.completed if carried else ())
        """The tool calls that other systems finish."""
        self.push = {target.id: target for target in carried.push} if carried else {}
        """The push targets of A2A clients, by the clients' ids."""
        self.person_decided = 0
        """The last iteration with a person's decision."""
        self.holds = Holds(self.options, self.loop)
        self.may_be_paused: Callable[[], bool] = bool
        """Whether the executing worker knows of a pause of the run; always false for readers."""
        self.hand_off: Callable[[str], Awaitable[None]]
        """Continues as the agent of that path, in a new link; set at the start of the loop."""
        self.looks_at_pauses = 0
        """The number of times that the run has checked for a pause."""
        self.other_model: Model | None = None
        """The model that replaces the input's model in this link, since the run was released with
        it."""
        self.models = [model.name for model in input.agent.models]
        """The agent's model and those of its `fallback`, as `PROVIDER/ID`."""
        self.children: list[str] = []
        """The ids of the awaited child runs."""
        self.delegated: list[DelegatedCall] = []
        """All calls of this link that were executed elsewhere."""
        self.searches: list[Missing] = []
        """The missing things for which this run is currently offered to other workers."""
        self.waits_for_rate: str | None = None
        """The rate that the next model call waits for."""
        self.held_up: HeldUp | None = None
        """The reason why a model call waits for its next attempt."""
        self.model_call = ""
        """Temporal's display text of the iteration's model calls."""
        self.ended: Literal["done", "failed", "cancelled"] | None = None
        """The outcome of the run, once no work is left."""
        self.shown_status: ShownStatus = "running"
        """The value of the search attribute."""

    @cached_property
    def offered_agent(self) -> Agent:
        """The agent with the declarations offered to the model; valid once the inventory is
        known.
        """
        return self.input.agent.with_declarations(self.inventory.offered)

    @cached_property
    def tools(self) -> dict[str, ToolSpec]:
        """The tools that the model may call, by name; valid once the inventory is known."""
        may_ask = "tool" in self.inventory.hooks
        return {
            tool.name: tool.described(self.offered_agent, may_ask=may_ask)
            for tool in self.inventory.tools
        }

    @cached_property
    def facts(self) -> RunFacts:
        """Return the facts of the run that the conditions of pauses match against."""
        info = workflow.info()
        return RunFacts(
            id=info.workflow_id,
            agent=shown_name(self.input.agent),
            tenant=info.priority.fairness_key,
            task_queue=info.task_queue,
        )

    @property
    def webhooks(self) -> list[Webhook]:
        """Return the webhooks that receive notices of the run; usually none."""
        return [*self.options.webhooks, *self.inventory.webhooks]

    @property
    def has_subscribers(self) -> bool:
        """Whether any webhook or push target receives notices of the run."""
        return bool(self.webhooks or self.push)

    @property
    def deadline(self) -> float | None:
        """Return the time at which `max_seconds` ends the run's waits, in seconds since the
        epoch.
        """
        return deadline(self.options, self.loop)

    @property
    def label(self) -> str:
        """The label of the iteration in progress, for display."""
        return self.label_of(max(self.loop.iteration, 1))

    def label_of(self, iteration: int) -> str:
        """The label of an iteration, preceded by the conversation's turn if it has a number."""
        turn = self.options.turn
        return f"{'' if turn is None else f'turn {turn}, '}iteration {iteration}"

    @property
    def missing(self) -> Missing | None:
        """Return the missing things for which the run is offered to other workers."""
        if not self.searches:
            return None
        what = dict.fromkeys(name for search in self.searches for name in search.what)
        return self.searches[0].model_copy(update={"what": list(what)})

    @property
    def status(self) -> RunStatus:
        """Return the run's status."""
        return RunStatus(
            status=self.ended or self._standing,
            iteration=self.loop.iteration,
            model_calls=self.loop.iterations,
            usage=self.loop.usage,
            cost_usd=self.loop.cost_usd,
            unpriced_calls=self.loop.unpriced_calls,
            pending_approvals=self.approvals.pending_approvals,
            last_seq=self.events.last_seq,
            pending_steering=len(self.steering),
            children=list(self.children),
            missing=self.missing,
            waits_for_rate=self.waits_for_rate,
            held_up=self.held_up,
            held=list(self.holds.held),
            awaited=self.awaited.open_calls,
            push=list(self.push.values()),
        )

    @property
    def _standing(self) -> Literal["held", "waiting_for_approval", "running"]:
        if self.holds.held:
            return "held"
        return "waiting_for_approval" if self.approvals.pending_approvals else "running"

    def is_held_for(self, reason: HoldReason) -> bool:
        """Return whether the run is held for this error instead of failing.

        A child run's limit is a share of its caller's limit, so the caller receives the error. A
        run that waits for a person, or continues after one, does not fail for a missing tool.
        """
        if reason == "budget" and self.input.lineage is not None:
            return False
        if (self.options.on_failure or self.inventory.on_failure) == "hold":
            return True
        is_decided = (
            self.approvals.pending_approvals or self.person_decided == self.loop.iteration > 0
        )
        return reason == "tool" and bool(is_decided)

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        """Hold the run instead of failing with the error, until somebody releases it. Raises
        `Cancelled`.
        """
        held = self.holds.begin(error, reason)
        self.emit(
            "held", HeldData(reason=reason, kind=held.kind, message=held.why, option=held.option)
        )
        is_held(held)
        await wait_until(lambda: self.cancelled or self.holds.is_over(held))
        self.holds.give_up(held)
        if self.cancelled:
            raise Cancelled

    def let_go_on(self, go_on: GoOn) -> None:
        """Release the held run. Raises as `Holds.require_possible` does."""
        self.holds.let_go_on(go_on)
        if go_on.model is not None:
            agent = with_other_model(
                self.input.agent, ModelChoice(go_on.model.id, go_on.model.provider)
            )
            self.input = self.input.model_copy(update={"agent": agent})
            self.other_model, self.loop.fallback = agent.models[0], 0
            self.models[0] = agent.models[0].name
            paced = paced_with(self.inventory.paced, agent.models[0])
            self.inventory = self.inventory.model_copy(update={"paced": paced})
        model = self.models[0] if go_on.model else None
        self.emit("went_on", WentOnData(by=go_on.by, options=go_on.options, model=model))
        is_let_go_on(go_on)

    def take_steering(self, message: SteeringMessage) -> None:
        """Keep a message until the loop reads it, unless it came before under its id. Record its
        sender, while all senders so far are known.
        """
        if message.id:
            if (digest := content_of(message.id, message.content)) in self.steered:
                return
            self.steered = [*self.steered, digest][-REMEMBERED:]
        if self.requests is not None:
            self.requests = with_request(
                self.requests, request_received(message.requested_by, message.content)
            )
        self.steering += [message.text, *message.further]

    def drain_steering(self) -> list[str]:
        """Take all steering messages in order of arrival; each is returned once."""
        texts, self.steering = self.steering, []
        self.unread += len(texts)
        return texts

    def instruct(self, instructions: Sequence[Message]) -> None:
        """Replace the previous agent's instructions by those of the run's agent."""
        self.conversation.apply(Instruct(messages=list(instructions)))
        self.emit("messages_updated", LoggedMessagesUpdatedData())

    def emit(self, type: EventType, data: LoggedData, *, call_id: str | None = None) -> None:
        """Add an event of the iteration in progress to the log."""
        self.events.append(type, self.loop.iteration, data, time=now(), call_id=call_id)

    def emit_status(self, text: str) -> None:
        """Emit a `status` event."""
        self.emit("status", StatusData(message=text))
