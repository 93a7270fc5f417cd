"""What one link of a run knows of itself: the loop's effects write it; the status query and Temporal's UI show it."""

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
    SleptData,
    StatusData,
    WentOnData,
)
from ..events import TERMINAL_EVENTS, EventLog, LogEntry
from ..loop.effects import Cancelled
from ..loop.limits import ChildEnd, deadline
from ..loop.state import LoopState
from ..messages import Message, ToolResult
from ..model_choice import ModelChoice, with_other_model
from ..options import cadence_of
from ..protocol.activities import Freshness, StaleAttempt
from ..protocol.brakes import RunFacts
from ..protocol.descriptions import shown_name
from ..protocol.inventory import Inventory, Missing
from ..protocol.outcome import HeldUp, RunStatus
from ..protocol.run import GoOn, RunInput, SteeringMessage, paced_with
from ..text import duration_text
from ..tool_calls import ToolRequest, ToolSpec
from ..vouching import with_request
from ..webhooks import Webhook
from .approvals import Approvals
from .awaited import AwaitedCalls
from .deciders import initial_requests, request_received
from .holding import Holds
from .logging import has_slept, is_held, is_let_go_on
from .waiting import now, wait_until

MAX_UPDATES = 1_000
"""After so many decisions, a run goes on in a new link as soon as it can."""

ShownStatus = Literal["running", "waiting", "held", "done", "failed", "cancelled"]
End = TypeVar("End", ToolResult, ChildEnd)


@dataclass
class DelegatedCall:
    """A tool call that others execute: a run of another agent, a child workflow, somebody else's activity."""

    request: ToolRequest
    since: float
    """Seconds since the epoch, by the workflow's clock."""
    workflow_id: str = ""
    """Of the run of another agent; "" for what is no run."""
    run_id: str = ""
    """Of that run's first link."""
    until: float | None = None
    """None while it is awaited."""
    error_kind: str | None = None

    async def wait_for(self, execution: Awaitable[End]) -> End:
        """Await the execution, and note its end. Raises what it raises."""
        end = await execution
        result = end.result if isinstance(end, ChildEnd) else end
        self.until = now()
        if result.status != "success":
            self.error_kind = result.error_kind or result.status
        return end


class RunState:
    """One link as it stands: the same in the worker that executes it and in whoever replays its history.

    Signals and updates fill it at any time; the loop looks at what has come in when it chooses to.
    """

    def __init__(self, input: RunInput, *, max_updates: int = MAX_UPDATES) -> None:
        carried = input.carried
        self.input = input
        self.options = input.options
        self.heartbeat_timeout = timedelta(seconds=cadence_of(input.options).lost_worker_seconds)
        """How long after the last heartbeat of an activity its worker counts as lost."""
        self.loop = carried.loop if carried else LoopState(started_at=now())
        self.inventory = carried.inventory if carried else Inventory()
        self.conversation = input.conversation()
        self.events = EventLog(self.conversation, last_seq=carried.last_seq if carried else 0)
        self.cancelled = False
        self.requests = initial_requests(input)
        """What was asked of the run, each signed; None where somebody has asked for whom nobody vouches."""
        self.steering = list(carried.steering) if carried else []
        """Messages that the loop has not read."""
        self.unread = 0
        """How many steering messages are in the conversation that no model call was sent."""
        self.approvals = Approvals(carried.decided if carried else (), max_updates=max_updates)
        self.awaited = AwaitedCalls(carried.completed if carried else ())
        """The tool calls that other systems finish."""
        self.push = {target.id: target for target in carried.push} if carried else {}
        """Whom A2A clients want to be told, by ids of theirs."""
        self.person_decided = 0
        """The last iteration in which a person has decided."""
        self._slept = 0.0
        """For how long no worker took the run up, as far as it has not done yet what `on_stale` says."""
        self._awake_since = 0.0
        """When the last sleep ended, in seconds since the epoch."""
        self.ready_at: float | None = workflow.info().workflow_start_time.timestamp()
        """Since when the run could have begun its next call; None where that is not known."""
        self._unbegun_after = 0.0
        """How long the last call waited, if that was not begun."""
        self.holds = Holds(self.options, self.loop)
        self.may_be_braked: Callable[[], bool] = bool
        """Whether a brake is on the run, as far as the worker knows that executes it; readers know none."""
        self.hand_off: Callable[[str], Awaitable[None]]
        """Goes on as the agent of that path, in a new link; set where the loop begins."""
        self.looks_at_brakes = 0
        """How often the run has looked at that."""
        self.other_model: Model | None = None
        """The model that this link calls in place of the one that its input had, since the run goes on with it."""
        self.models = [model.name for model in input.agent.models]
        """The agent's model and those of its `fallback`, as `PROVIDER/ID`."""
        self.children: list[str] = []
        """The ids of the called runs that are awaited."""
        self.delegated: list[DelegatedCall] = []
        """All calls of this link that others have executed."""
        self.searches: list[Missing] = []
        """For what this run is offered to other workers at this moment."""
        self.waits_for_rate: str | None = None
        """The rate that the next model call waits for."""
        self.held_up: HeldUp | None = None
        """Why a model call waits to be made again."""
        self.begun: float | None = None
        """When the iteration began, in seconds since the epoch; None before the first."""
        self.model_call = ""
        """What Temporal shows of the iteration's model calls."""
        self.ended: Literal["done", "failed", "cancelled"] | None = None
        """How the run has ended, once nothing of it is left to do."""
        self.shown_status: ShownStatus = "running"
        """What the search attribute says."""

    @cached_property
    def offered_agent(self) -> Agent:
        """Agent with the declarations that the model is offered; to be asked for when the inventory is known."""
        return self.input.agent.with_declarations(self.inventory.offered)

    @cached_property
    def tools(self) -> dict[str, ToolSpec]:
        """Tools that the model may call, by name; to be asked for when the inventory is known."""
        may_ask = "tool" in self.inventory.hooks
        return {tool.name: tool.described(self.offered_agent, may_ask=may_ask) for tool in self.inventory.tools}

    @cached_property
    def facts(self) -> RunFacts:
        """Return what decides whether a brake is on the run."""
        info = workflow.info()
        return RunFacts(
            id=info.workflow_id,
            agent=shown_name(self.input.agent),
            tenant=info.priority.fairness_key,
            task_queue=info.task_queue,
        )

    @property
    def webhooks(self) -> list[Webhook]:
        """Return who is told what becomes of the run; usually nobody."""
        return [*self.options.webhooks, *self.inventory.webhooks]

    @property
    def is_told(self) -> bool:
        """Return whether anybody is told what becomes of the run."""
        return bool(self.webhooks or self.push)

    @property
    def deadline(self) -> float | None:
        """Return when `max_seconds` ends the run's waits, in seconds since the epoch."""
        return deadline(self.options, self.loop)

    @property
    def label(self) -> str:
        """Iteration in progress, as people read it."""
        return self.label_of(max(self.loop.iteration, 1))

    def label_of(self, iteration: int) -> str:
        """That iteration, with the turn of the conversation before it, if that has a number."""
        turn = self.options.turn
        return f"{'' if turn is None else f'turn {turn}, '}iteration {iteration}"

    @property
    def end(self) -> LogEntry | None:
        """Terminal event."""
        last = self.events.entries(self.events.last_seq - 1)
        return last[0] if last and last[0].type in TERMINAL_EVENTS else None

    @property
    def missing(self) -> Missing | None:
        """Return what the run is offered to other workers for."""
        if not self.searches:
            return None
        what = dict.fromkeys(name for search in self.searches for name in search.what)
        return self.searches[0].model_copy(update={"what": list(what)})

    @property
    def status(self) -> RunStatus:
        """Return where the run stands."""
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
            slept_seconds=self.loop.slept_seconds,
        )

    @property
    def _standing(self) -> Literal["held", "waiting_for_approval", "running"]:
        if self.holds.held:
            return "held"
        return "waiting_for_approval" if self.approvals.pending_approvals else "running"

    def is_held_for(self, reason: HoldReason) -> bool:
        """Return whether the run is held for this, instead of failing.

        A limit of a called run is its share of its caller's: the caller is told. For want of a tool, no run fails that
        waits for a person, or goes on after one.
        """
        if reason == "budget" and self.input.lineage is not None:
            return False
        if (self.options.on_failure or self.inventory.on_failure) == "hold":
            return True
        is_decided = self.approvals.pending_approvals or self.person_decided == self.loop.iteration > 0
        return reason == "tool" and bool(is_decided)

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        """Wait until somebody lets the run go on, which would have failed with the error. Raises `Cancelled`."""
        held = self.holds.begin(error, reason)
        self.emit("held", HeldData(reason=reason, kind=held.kind, message=held.why, option=held.option))
        is_held(held)
        await wait_until(lambda: self.cancelled or self.holds.is_over(held))
        self.ready_at = None
        self.holds.give_up(held)
        if self.cancelled:
            raise Cancelled

    def let_go_on(self, go_on: GoOn) -> None:
        """Let the run go on that is held. Raises as `Holds.require_possible`."""
        self.holds.let_go_on(go_on)
        if go_on.model is not None:
            agent = with_other_model(self.input.agent, ModelChoice(go_on.model.id, go_on.model.provider))
            self.input = self.input.model_copy(update={"agent": agent})
            self.other_model, self.loop.fallback = agent.models[0], 0
            self.models[0] = agent.models[0].name
            paced = paced_with(self.inventory.paced, agent.models[0])
            self.inventory = self.inventory.model_copy(update={"paced": paced})
        model = self.models[0] if go_on.model else None
        self.emit("went_on", WentOnData(by=go_on.by, options=go_on.options, model=model))
        is_let_go_on(go_on)

    @property
    def freshness(self) -> Freshness | None:
        """Return after which time without a worker the next call is not begun.

        The time is doubled after a call that was not begun, so that a run goes on however long its calls always wait.
        """
        limit = self.options.stale_after
        if limit is None:
            return None
        return Freshness(seconds=max(limit, 2 * self._unbegun_after), ready_at=self.ready_at)

    def note_end(self, ended_at: float | None) -> None:
        """Note that a call has ended, at that time if it is known."""
        self.ready_at, self._unbegun_after = ended_at, 0.0

    def note_unbegun(self, attempt: StaleAttempt) -> None:
        """Note that no worker took up a call for too long. What several calls say of the same time counts once.

        The clock of the workflow is not asked: it may be another one on a replay, where somebody queries the run that
        a worker takes up (seen with the SDK 1.x).
        """
        self._unbegun_after, self.ready_at = attempt.until - attempt.since, None
        seconds = attempt.until - max(attempt.since, self._awake_since)
        self._awake_since = max(attempt.until, self._awake_since)
        self._note_sleep(seconds)

    def note_sleep_of_called(self, seconds: float) -> None:
        """Note for how long no worker took a called run up: if it asks a person, it has done so itself."""
        if self.options.on_stale != "hold":
            self._note_sleep(seconds)

    def _note_sleep(self, seconds: float) -> None:
        limit, then = self.options.stale_after, self.options.on_stale
        if limit is None or seconds <= limit:
            return
        self._slept = seconds
        self.loop.slept_seconds += seconds
        self.emit("slept", SleptData(seconds=seconds, then=then))
        has_slept(seconds, then)

    async def wake(self) -> None:
        """Do what `on_stale` says, once for each sleep. Raises the `RunError` of a run that fails, and `Cancelled`."""
        if self._slept and not self.cancelled:
            error = RunError(f"No worker took the run up for {duration_text(self._slept)} (stale_after)", kind="stale")
            if self.options.on_stale == "fail":
                raise error  # And again, should somebody take it for a failure of theirs.
            if self.options.on_stale == "tell":
                self.loop.untold_sleep = max(self.loop.untold_sleep, self._slept)
            self._slept = 0.0
            if self.options.on_stale == "hold":
                await self.hold(error, "stale")
        if self._asks_after_sleep():  # For another call of the round.
            await wait_until(lambda: self.cancelled or not self._asks_after_sleep())

    def _asks_after_sleep(self) -> bool:
        return any(held.reason == "stale" for held in self.holds.held)

    def note_request(self, message: SteeringMessage) -> None:
        """Note who has said something to the run, where that is known of all who have."""
        if self.requests is not None:
            self.requests = with_request(self.requests, request_received(message.requested_by, message.content))

    def drain_steering(self) -> list[str]:
        """Take all steering messages, in the order they came; each is given once."""
        texts, self.steering = self.steering, []
        self.unread += len(texts)
        return texts

    def instruct(self, instructions: Sequence[Message]) -> None:
        """Replace the instructions of the agent before by those of the run's own."""
        self.conversation.apply(Instruct(messages=list(instructions)))
        self.emit("messages_updated", LoggedMessagesUpdatedData())

    def emit(self, type: EventType, data: LoggedData, *, call_id: str | None = None) -> None:
        """Add an event of the iteration in progress to the log."""
        self.events.append(type, self.loop.iteration, data, time=now(), call_id=call_id)

    def emit_status(self, text: str) -> None:
        """Emit a `status` event."""
        self.emit("status", StatusData(message=text))
