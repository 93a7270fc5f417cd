"""The Temporal workflow that runs an agent and records how the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.workflow import ContinueAsNewError

from ..conversation import ConversationRef, Operation, operation_bytes
from ..errors import LimitExceededError, OutputError, RunCancelled, RunError
from ..event_data import FailedData
from ..events import EventPage
from ..json_types import JsonObject
from ..loop.effects import Cancelled
from ..loop.loop import AgentLoop
from ..loop.state import LOOP_VERSION, Outcome
from ..messages import Message
from ..protocol import names
from ..protocol.names import vouched_signal
from ..protocol.outcome import RunFailure, RunOutput, RunStatus
from ..protocol.run import CallApproval, GoOn, RunInput, SteeringMessage
from ..text import MAX_TEXT_BYTES, bounded_text
from ..webhooks import PushChange
from .approvals import DECISIONS, Approvals, dropped_if_refused
from .approvers import require_entitled
from .continue_as_new import ContinueAsNew
from .effects import TemporalEffects
from .external_calls import COMPLETIONS
from .holding import REQUESTS
from .instructions import instruct
from .notices import Notices
from .offers import (
    Offers,
    report_unavailable,
    require_version,
    take_inventory,
    take_inventory_again,
)
from .policies import BUGS, describe_failure
from .received import Received, is_recorded, run_update
from .recording import load_beginning
from .run_state import MAX_UPDATES, RunState
from .turn_result import TurnResult
from .ui import next_model_call, show_end, show_status, show_waiting

SMALL_CONVERSATION_BYTES = 16 * 1024
"""Up to this size the workflow's result holds the conversation, so that a caller needs nothing
else."""

MAX_TAIL_BYTES = 256 * 1024
"""Limit of the part of the conversation in the result. The output is not counted and may exceed a
megabyte."""

MAX_FAILURE_BYTES = 2 * MAX_TEXT_BYTES
"""Limit of a failure's text: the words of the failed service and perdure's own."""


MAX_ANSWER_BYTES = 64 * 1024
"""Limit of an answer in the details of a failure; the conversation holds the whole answer."""


@dataclass
class Ending:
    """Makes the last command of a run."""

    state: RunState
    turn: TurnResult | None = None
    """Hands the additions of a session's turn over to the session."""

    def output(self, outcome: Outcome) -> RunOutput:
        """Return the result of a run that succeeded."""
        conversation, input = self.state.conversation, self.state.input
        is_alone = input.carried is None and input.lineage is None and self.turn is None
        is_small = is_alone and conversation.recorded_bytes <= SMALL_CONVERSATION_BYTES
        return RunOutput(
            output=outcome.output,
            is_incomplete=outcome.is_incomplete,
            cut_short=outcome.cut_short,
            messages=conversation.messages if is_small else None,
            agent=input.agent.name,
            raw=input.options.raw,
            **self._figures(self.state.unread),
        )

    def failure(self, error: RunError) -> ApplicationError:
        """Return the error of a run that failed."""
        details = RunFailure(
            kind=error.kind,
            reason=error.reason and bounded_text(error.reason, MAX_FAILURE_BYTES),
            option=error.option if isinstance(error, LimitExceededError) else None,
            text=bounded_text(error.text, MAX_ANSWER_BYTES)
            if isinstance(error, OutputError)
            else None,
            refused=len(self.turn.refused) if self.turn else 0,
            **self._figures(self.turn.unread if self.turn else 0),
        )
        return ApplicationError(
            bounded_text(str(error), MAX_FAILURE_BYTES),
            details,
            type=error.kind,
            non_retryable=True,
        )

    def _figures(self, unread: int) -> JsonObject:
        """Return the fields of `RunEnd`."""
        loop, input, turn = self.state.loop, self.state.input, self.turn
        return {
            "iterations": loop.iterations,
            "usage": loop.usage,
            "tail": self._tail(),
            "iteration": loop.iteration,
            "last_seq": self.state.events.last_seq,
            "tool_calls": loop.tool_calls if input.lineage else 0,
            "cost_usd": loop.cost_usd,
            "unpriced_calls": loop.unpriced_calls,
            "unread_steering": unread,
            "unchecked": turn.unchecked if turn else 0,
            "handed_over": turn.in_result if turn else None,
            "requested_by": turn.requesters(turn.in_result) if turn else None,
            "handed_to": input.handed_to,
        }

    def unforeseen_error(self, error: Exception) -> RunError:
        """Return the error of a run that the platform or a bug ended, and emit the event that the
        loop could not.
        """
        kind, text = describe_failure(error)
        self.state.emit("failed", FailedData(kind=kind, message=text))
        return RunError(text, kind=kind)

    def _tail(self) -> ConversationRef | None:
        """Return the unrecorded end of the conversation; None when it is too large: a replay then
        yields it.

        Also None where a turn's additions in the result contain it.
        """
        if self.turn and self.turn.has_the_end:
            return None
        size = sum(map(operation_bytes, self.state.conversation.unrecorded_operations))
        return self.state.conversation.ref() if size <= MAX_TAIL_BYTES else None


IDLE_BYTES = 64 * 1024
"""Bytes that the shortest run takes in a worker's cache."""


@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=BUGS)
class AgentRun:
    """One link of an agent's run; callers see all links of a run as one.

    In Temporal's terms:

    - input: a `RunInput`. Result: a `RunOutput`. Failure: an `ApplicationError` whose details are a
      `RunFailure`.
    - activities and timers: the loop's effects (`TemporalEffects`).
    - signals: steering messages, and approvals of tool calls. They wait in the `RunState` until the
      loop asks for them.
    - updates: an approval, which the worker accepts at once or refuses with a reason (`Approvals`);
      `go_on`, also a signal, which releases a held run (`Holds`); `complete`, which finishes a tool
      call (`ExternalCalls`).
    - cancellation: sets a flag in the `RunState`, which the loop checks.
    - continue-as-new: between iterations (`ContinueAsNew`).
    - queries: the run's status, and its events.
    """

    loop_version: ClassVar[int] = LOOP_VERSION
    max_updates: ClassVar[int] = MAX_UPDATES
    is_being_read = False
    """Whether a reader replays the recorded part of its history, without a worker: nothing is
    logged then."""

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        self.state = RunState(input, max_updates=self.max_updates)
        """The progress of this link, for the workflow's readers."""
        self._info = workflow.info()
        self._received = Received()
        self._signed = 0
        """The number of signed decisions that arrived as signals."""
        self._turn = TurnResult(self.state, input.session) if input.session else None
        self._ending = Ending(self.state, self._turn)
        self._notices = Notices(self.state)
        self.state.approvals.listen(self._show_waiting)
        self.state.holds.listen(self._show_waiting)
        self.memory_bytes = self._measure_memory()
        """Approximate size of this object after the last iteration. A worker with too many runs
        evicts by it."""
        self.on_cancel: Callable[[], object] = bool
        """Called when the run is cancelled. The worker then cancels its calls at once, not at their
        next heartbeat."""
        self.labels: dict[str, str] = {}
        """Labels of the run's metrics; set by a worker that serves metrics."""

    @property
    def approvals(self) -> Approvals:
        """Return the calls of this link that wait for a person."""
        return self.state.approvals

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        """Run the agent to its end, or to the end of this link.

        The agent runs in a separate task. A cancellation of the workflow is therefore a flag that
        the loop checks (§13.2), not an exception in the middle of a wait.
        """
        require_version(input.loop_version, self.loop_version)
        agent = asyncio.create_task(self._run_agent())
        while True:
            try:
                return await asyncio.shield(agent)
            except asyncio.CancelledError:
                if agent.done():
                    raise
                self.state.cancelled = True
                self.on_cancel()

    async def _run_agent(self) -> RunOutput:
        try:
            await self._begin_link()
            outcome = await self._loop().run()
        except RunCancelled:
            await self._end("cancelled")
            raise asyncio.CancelledError from None
        except RunError as error:
            await self._end("failed", error)
            raise self._ending.failure(error) from error
        except ContinueAsNewError:
            raise
        except Exception as error:
            unforeseen = self._ending.unforeseen_error(error)
            await self._end("failed", unforeseen)
            raise self._ending.failure(unforeseen) from error
        await self._end("done")
        return self._ending.output(outcome)

    async def _end(
        self, status: Literal["done", "failed", "cancelled"], error: RunError | None = None
    ) -> None:
        if self._turn is not None:
            await self._turn.hand_over(by_result=status != "cancelled")
        if self.state.has_subscribers:
            await self._notices.send_end(status, error)
        self.state.ended = status
        show_end(self.state, status)

    def _show_waiting(self) -> None:
        show_waiting(self.state)
        if self.state.has_subscribers:
            self._notices.look()

    async def _begin_link(self) -> None:
        """Take the workers' inventory in the first link, and again after a change of the workers'
        version.

        Load a conversation that the link's input lacks.
        """
        state, input = self.state, self.state.input
        if input.carried is None and input.session is not None:
            before = max(input.session.unread, input.session.unchecked)
            state.loop.unchecked = len(input.added_messages) + before
        if input.carried is None or input.carried.is_handoff:
            state.inventory = await take_inventory(state)
            report_unavailable(state)
        elif input.carried.is_upgrade:
            state.inventory = await take_inventory_again(state)
        with suppress(Cancelled):
            await Offers(state).run(lambda offer: load_beginning(input, state.conversation))
            if input.carried.is_handoff if input.carried else state.options.instructions_by:
                await instruct(state)

    def _loop(self) -> AgentLoop:
        """Return the loop of §13.7, on Temporal."""
        state, hooks, agent = self.state, self.state.inventory.hooks, self.state.input.agent
        self._continuing = ContinueAsNew(state, self.loop_version)
        state.hand_off = self._continuing.hand_off
        return AgentLoop(
            TemporalEffects(state, self._checkpoint),
            state.conversation,
            state.options,
            tools=state.tools,
            guarded=frozenset(hooks),
            compacted="compactor" in hooks,
            structured=bool(agent.outputs),
            models=state.models,
            state=state.loop,
        )

    async def _checkpoint(self) -> None:
        """Before each iteration, show the progress, and continue as new when due."""
        self.memory_bytes = self._measure_memory()
        show_status(self.state, "running")
        self.state.model_call = next_model_call(self.state)
        if self.state.has_subscribers:
            await self._notices.settle()
        await self._continuing.when_suggested()

    def _measure_memory(self) -> int:
        # The history's size approximates the events and the trimmed messages: readers of events
        # still need both.
        return (
            IDLE_BYTES
            + 2 * self.state.conversation.recorded_bytes
            + self._info.get_current_history_size()
        )

    @property
    def has_ended(self) -> bool:
        """Return whether the run is over, not only this link of it."""
        return self.state.ended is not None

    @property
    def conversation(self) -> list[Message]:
        """The conversation as the next model call would send it."""
        return self.state.conversation.messages

    def operations_since(self, version: int) -> Sequence[Operation]:
        """Return the changes of the conversation since that version, which must belong to this
        link.
        """
        return self.state.conversation.since(version)

    # Signals accept any arguments: a malformed signal must neither end the run nor block it.
    @workflow.signal(
        name=names.STEER,
        description="Send the agent a message; it reads it before its next model call.",
    )
    def steer(self, *arguments: Any) -> None:
        if message := self._received.read_signal(arguments, SteeringMessage):
            self.state.take_steering(message)

    @workflow.signal(
        name=names.APPROVAL,
        description="Approve, deny or answer a tool call that waits for a person.",
    )
    async def approval(self, *arguments: Any) -> None:
        if decision := self._received.read_signal(arguments, CallApproval):
            with dropped_if_refused("an approval"):
                await self.state.approvals.decide(self._with_vouch_that_holds(decision))

    def _with_vouch_that_holds(self, decision: CallApproval) -> CallApproval:
        """Return a decision that came as a signal. No validator has checked its signature, so a
        marker records the check.
        """
        if decision.vouch is None:
            return decision
        self._signed += 1
        if is_recorded(vouched_signal(self._signed), lambda: self._is_entitled(decision)):
            return decision
        return decision.model_copy(update={"vouch": None})

    def _is_entitled(self, decision: CallApproval) -> bool:
        with dropped_if_refused("the signature of an approval"):
            require_entitled(decision, self.state.approvals.find(decision), self.state.requests)
            return True
        return False

    def _require_decision(self, decision: CallApproval) -> None:
        require_entitled(
            decision, self.state.approvals.require_acceptable(decision), self.state.requests
        )

    decide = run_update(
        names.APPROVAL,
        "Approve, deny or answer a tool call that waits for a person; refused if that is not "
        "possible.",
        DECISIONS,
        check=_require_decision,
        take=lambda run, decision: run.state.approvals.decide(decision),
    )

    @workflow.signal(name=names.GO_ON, description="Continue the held run.")
    def go_on_by_signal(self, *arguments: Any) -> None:
        if go_on := self._received.read_signal(arguments, GoOn):
            with dropped_if_refused("a request to go on"):
                self.state.let_go_on(go_on)

    go_on = run_update(
        names.GO_ON,
        "Let a held run continue, with other options if given.",
        REQUESTS,
        check=lambda run, go_on: run.state.holds.require_possible(go_on),
        take=lambda run, go_on: run.state.let_go_on(go_on),
    )

    @workflow.signal(name=names.PUSH, description="Notify an A2A client of the run's status.")
    def push(self, *arguments: Any) -> None:
        if change := self._received.read_signal(arguments, PushChange):
            self._notices.take(change)

    complete = run_update(
        names.COMPLETE,
        "Finish a tool call that waits for another system.",
        COMPLETIONS,
        check=lambda run, completion: run.state.awaited.require_acceptable(completion),
        take=lambda run, completion: run.state.awaited.complete(completion),
    )

    @workflow.query(name=names.STATUS, description="The status of the run.")
    def status(self) -> RunStatus:
        return self.state.status

    @workflow.query(
        name=names.EVENTS,
        description="The events of this link after a sequence number, page by page.",
    )
    def events(self, after: int) -> EventPage:
        return self.state.events.page(after)
