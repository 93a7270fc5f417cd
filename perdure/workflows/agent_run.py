"""The Temporal workflow that runs an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.workflow import ContinueAsNewError

from ..conversation import Conversation, ConversationRef, Operation, operation_bytes
from ..errors import LimitExceededError, OutputError, RunCancelled, RunError
from ..event_data import FailedData
from ..events import EventLog, EventPage
from ..loop.limits import deadline
from ..loop.loop import AgentLoop
from ..loop.state import LoopState, Outcome
from ..messages import Message
from ..protocol import names
from ..protocol.features import KNOWN_FEATURES
from ..protocol.inventory import Inventory
from ..protocol.outcome import RunFailure, RunOutput, RunStatus
from ..protocol.run import CallApproval, RunInput, SteeringMessage
from ..text import MAX_TEXT_BYTES, bounded_text
from .approvals import Approvals, dropped_if_refused, read_decision
from .child_runs import ChildRuns, RunRecord
from .continue_as_new import ContinueAsNew
from .effects import TemporalEffects
from .inbox import MAX_UPDATES, Inbox
from .offers import Offers, require_features, take_inventory, tell_unavailable
from .policies import BUGS, describe_failure
from .received import Received
from .recording import load_beginning
from .turn_result import HandOver
from .ui import Display, ShownStatus

SMALL_CONVERSATION_BYTES = 16 * 1024
"""Up to this size the workflow's result holds the conversation, so that a caller needs nothing else."""

MAX_TAIL_BYTES = 256 * 1024
"""What the result may hold of the conversation, besides an output that may take more than a megabyte."""

MAX_FAILURE_BYTES = 2 * MAX_TEXT_BYTES
"""For the text of a failure: what a stranger said, and what perdure says about it."""


MAX_ANSWER_BYTES = 64 * 1024
"""For an answer in the details of a failure; the conversation has all of it."""


@dataclass
class Ending:
    """Makes the last command of a run."""

    conversation: Conversation
    state: LoopState
    events: EventLog
    keeps_messages: bool
    """Whether the result holds the conversation, if that is small."""
    is_called: bool = False
    """Whether another run has called this one: that one needs the output and the counts."""
    turn: HandOver | None = None
    """What a turn of a session leaves to it."""

    def output(self, outcome: Outcome, unread_steering: int) -> RunOutput:
        """The result of a run that ended well, and has not answered that many of its last messages."""
        is_small = self.keeps_messages and self.conversation.recorded_bytes <= SMALL_CONVERSATION_BYTES
        return RunOutput(
            output=outcome.output,
            iterations=self.state.iterations,
            usage=self.state.usage,
            is_incomplete=outcome.is_incomplete,
            messages=self.conversation.messages if is_small else None,
            tail=self._tail(),
            iteration=self.state.iteration,
            last_seq=self.events.last_seq,
            tool_calls=self.state.tool_calls if self.is_called else 0,
            cost_usd=self.state.cost_usd,
            unpriced_calls=self.state.unpriced_calls,
            unread_steering=unread_steering,
            handed_over=self.turn.in_result if self.turn else None,
        )

    def failure(self, error: RunError) -> ApplicationError:
        """The error of a run that failed."""
        details = RunFailure(
            kind=error.kind,
            reason=error.reason and bounded_text(error.reason, MAX_FAILURE_BYTES),
            text=bounded_text(error.text, MAX_ANSWER_BYTES) if isinstance(error, OutputError) else None,
            option=error.option if isinstance(error, LimitExceededError) else None,
            iterations=self.state.iterations,
            tail=self._tail(),
            usage=self.state.usage,
            iteration=self.state.iteration,
            last_seq=self.events.last_seq,
            tool_calls=self.state.tool_calls if self.is_called else 0,
            cost_usd=self.state.cost_usd,
            unpriced_calls=self.state.unpriced_calls,
            unread_steering=self.turn.unread if self.turn else 0,
            handed_over=self.turn.in_result if self.turn else None,
            refused=len(self.turn.refused) if self.turn else 0,
        )
        return ApplicationError(
            bounded_text(str(error), MAX_FAILURE_BYTES), details, type=error.kind, non_retryable=True
        )

    def unforeseen(self, error: Exception, time: float) -> RunError:
        """The error of a run that the platform or a bug has ended. Emits the event that the loop could not emit."""
        kind, text = describe_failure(error)
        self.events.append("failed", self.state.iteration, FailedData(kind=kind, message=text), time=time)
        return RunError(text, kind=kind)

    def _tail(self) -> ConversationRef | None:
        """The end of the conversation, which is not recorded yet; None when it is too large: a replay tells it then.

        None, too, where what a turn hands over by its result has it.
        """
        if self.turn and self.turn.tells_the_end:
            return None
        size = sum(map(operation_bytes, self.conversation.unrecorded))
        return self.conversation.ref() if size <= MAX_TAIL_BYTES else None


IDLE_BYTES = 64 * 1024
"""What a run takes in a worker's cache, however short it is."""


@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=BUGS)
class AgentRun:
    """One link of one run of an agent; to everyone outside, all links of a run are one run.

    In Temporal's terms:

    - input: a `RunInput`. Result: a `RunOutput`. Failure: an `ApplicationError` whose details are a `RunFailure`.
    - activities and timers: what the loop does in the world (`TemporalEffects`).
    - signals: steering messages, and approvals of tool calls. They wait in the `Inbox` until the loop asks for them.
    - update: an approval again, which is answered at once: accepted, or refused and why (`Approvals`).
    - cancellation: noted in the `Inbox` too, for the loop to look at.
    - continue-as-new: between iterations (`ContinueAsNew`).
    - queries: the run's status, and its events.
    """

    known_features: ClassVar[frozenset[str]] = KNOWN_FEATURES
    max_updates: ClassVar[int] = MAX_UPDATES

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        carried = input.carried
        self._input = input
        self._state = carried.loop if carried else LoopState(started_at=workflow.time())
        self._inventory = carried.inventory if carried else Inventory()
        self._inbox = Inbox(
            carried.steering if carried else (),
            carried.decided if carried else (),
            max_updates=self.max_updates,
            on_waiting=lambda: self._display.show_waiting(),
        )
        self._received = Received()
        self._conversation = input.conversation()
        self._events = EventLog(self._conversation, last_seq=carried.last_seq if carried else 0)
        self._turn = HandOver(input, self._conversation, self._inbox, self._state) if input.session else None
        is_alone = carried is None and input.lineage is None and self._turn is None
        self._ending = Ending(self._conversation, self._state, self._events, is_alone, bool(input.lineage), self._turn)
        self._offers = Offers(input.options.missing_tool_grace, lambda text: self._display.tell(text))
        self._children = ChildRuns(input, self._inbox, self._events, lambda: self._display.show())
        self._display = Display(input, self._state, self._events, self._inbox, self._offers, self._children.running)
        self._ended: ShownStatus | None = None
        self.memory_bytes = self._measure_memory()
        """About what this object takes, as of the last iteration; a worker that has too many runs looks at it."""

    @property
    def approvals(self) -> Approvals:
        """What waits for a person in this link."""
        return self._inbox.approvals

    @property
    def current_details(self) -> str:
        """What Temporal shows of the run (`Display.details`)."""
        return self._display.details()

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        """Run the agent to its end, or to the end of this link.

        The agent runs in a task of its own. So a cancellation of the workflow is a fact that the loop looks at
        (§13.2), not an exception in the middle of whatever the loop waits for.
        """
        require_features(input.features, self.known_features)
        agent = asyncio.create_task(self._run_agent())
        while True:
            try:
                return await asyncio.shield(agent)
            except asyncio.CancelledError:
                if agent.done():
                    raise
                self._inbox.cancelled = True

    async def _run_agent(self) -> RunOutput:
        try:
            await self._begin_link()
            outcome = await self._loop().run()
        except RunCancelled:
            await self._end("cancelled")
            raise asyncio.CancelledError from None
        except RunError as error:
            await self._end("failed")
            raise self._ending.failure(error) from error
        except ContinueAsNewError:
            raise
        except Exception as error:
            unforeseen = self._ending.unforeseen(error, workflow.time())
            await self._end("failed")
            raise self._ending.failure(unforeseen) from error
        await self._end("done")
        return self._ending.output(outcome, self._inbox.unread)

    async def _end(self, status: ShownStatus) -> None:
        if self._turn is not None:
            await self._turn.hand_over(by_result=status != "cancelled")
        self._ended = status
        self._display.end(status)

    async def _begin_link(self) -> None:
        """Take the worker's inventory in the first link, and load a conversation that the link's input lacks."""
        if self._input.carried is None:
            self._inventory = await take_inventory(self._input, self._offers, self._inbox)
            tell_unavailable(self._inventory, self._events)
            if self._input.session is not None:
                self._state.unchecked = len(self._input.added) + self._input.session.unread
        await load_beginning(self._input, self._conversation)

    def _loop(self) -> AgentLoop:
        """The loop of §13.7, on Temporal."""
        self._continuing = ContinueAsNew(
            self._input,
            self._conversation,
            self._state,
            self._inventory,
            self._inbox,
            self._events,
            self._display.carried,
        )
        offered = self._input.agent.with_declarations(self._inventory.offered)
        asks = "tool" in self._inventory.hooks
        tools = {tool.name: tool.described(offered, may_ask=asks) for tool in self._inventory.tools}
        effects = TemporalEffects(
            options=self._input.options,
            hooks=self._inventory.hooks,
            tools=tools,
            offered=offered,
            events=self._events,
            inbox=self._inbox,
            offers=self._offers,
            children=self._children,
            display=self._display,
            paced=self._inventory.paced,
            deadline=deadline(self._input.options, self._state),
            mocked=None if self._inventory.mock_responses is None else self._state,
            on_checkpoint=self._checkpoint,
        )
        return AgentLoop(
            effects,
            self._conversation,
            self._input.options,
            tools=tools,
            guarded=frozenset(self._inventory.hooks),
            compacted="compactor" in self._inventory.hooks,
            structured=bool(self._input.agent.outputs),
            models=[model.name for model in self._input.agent.models],
            state=self._state,
        )

    async def _checkpoint(self, state: LoopState) -> None:
        """Before each iteration: show the progress, and continue as new if it is time to."""
        self.memory_bytes = self._measure_memory()
        self._display.begin_iteration()
        await self._continuing.when_suggested()

    def _measure_memory(self) -> int:
        # The history's size stands for the events, and for what trimming has dropped: readers of events still need it.
        return IDLE_BYTES + 2 * self._conversation.recorded_bytes + workflow.info().get_current_history_size()

    @property
    def has_ended(self) -> bool:
        """Whether the run is over, not only this link of it."""
        return self._ended is not None

    @property
    def record(self) -> RunRecord:
        """What this link has done so far, for the run's trace."""
        return RunRecord(self._input, self._state, self._events, self._children.delegated)

    @property
    def conversation(self) -> list[Message]:
        """The conversation as the model would see it next."""
        return self._conversation.messages

    def operations_since(self, version: int) -> Sequence[Operation]:
        """How the conversation has changed since that version, which must belong to this link."""
        return self._conversation.since(version)

    # Signals accept any arguments: what a stranger sends wrongly must neither end the run nor block it.
    @workflow.signal(name=names.STEER, description="Send the agent a message; it reads it before its next model call.")
    def steer(self, *arguments: Any) -> None:
        if message := self._received.understood(arguments, SteeringMessage):
            self._inbox.steering += [message.text, *message.further]

    @workflow.signal(name=names.APPROVAL, description="Approve, deny or answer a tool call that waits for a person.")
    async def approval(self, *arguments: Any) -> None:
        if decision := self._received.understood(arguments, CallApproval):
            with dropped_if_refused():
                await self._inbox.approvals.decide(decision)

    @workflow.update(
        name=names.APPROVAL,
        description="Approve, deny or answer a tool call that waits for a person; refused if that is not possible.",
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def decide(self, *arguments: Any) -> None:
        self._inbox.approvals.updates += 1
        await self._inbox.approvals.decide(read_decision(arguments, self._received))

    @decide.validator
    def _require_decision(self, *arguments: Any) -> None:
        self._inbox.approvals.require_acceptable(read_decision(arguments, self._received))

    @workflow.query(name=names.STATUS, description="Where the run stands.")
    def status(self) -> RunStatus:
        pending = self._inbox.approvals.pending
        return RunStatus.model_validate(
            {
                "status": self._ended or ("waiting_for_approval" if pending else "running"),
                "iteration": self._state.iteration,
                "model_calls": self._state.iterations,
                "usage": self._state.usage,
                "cost_usd": self._state.cost_usd,
                "unpriced_calls": self._state.unpriced_calls,
                "pending_approvals": pending,
                "last_seq": self._events.last_seq,
                "pending_steering": len(self._inbox.steering),
                "children": list(self._children.running),
                "missing": self._offers.missing,
                "waits_for_rate": self._display.waits_for_rate,
                "held_up": self._display.held_up,
            }
        )

    @workflow.query(name=names.EVENTS, description="The events of this link after a sequence number, page by page.")
    def events(self, after: int) -> EventPage:
        return self._events.page(after)
