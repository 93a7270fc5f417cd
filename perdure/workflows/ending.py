"""How a run ends, as Temporal records it: a result, or a failure."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.exceptions import ApplicationError

from ..conversation import Conversation, ConversationRef
from ..errors import OutputError, RunError
from ..event_data import FailedData
from ..events import EventLog
from ..loop.outputs import Outcome
from ..loop.state import LoopState
from ..operations import operation_bytes
from ..protocol.outcome import RunFailure, RunOutput
from ..valid_text import MAX_TEXT_BYTES, bounded_text
from .failures import describe_failure
from .handing_over import HandOver

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
