"""A run as an A2A task: its status, with a message if there is one, and its output as an
artifact.
"""

from __future__ import annotations

from collections.abc import Sequence

from a2a.helpers import new_text_artifact, new_text_message
from a2a.types import (
    Message,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from ..client.callers import text_after
from ..events import RunEvent
from ..protocol.outcome import Held
from ..tool_calls import PendingApproval
from .gateway import FoundRun, session_of
from .held import held_text
from .words import CUT_SHORT, output_text, with_approvers

ANSWER = "answer"
"""The name of the artifact with a run's output."""


def context_of(run_id: str) -> str:
    """Return a run's session as its context; a run without a session is its own context."""
    return session_of(run_id) or run_id


def piece(found: FoundRun, text: str, goes_on: bool) -> TaskArtifactUpdateEvent:
    """Return a piece of the output, which extends or replaces the text sent so far."""
    artifact = new_text_artifact(ANSWER, text, artifact_id=ANSWER)
    context = context_of(found.id)
    return TaskArtifactUpdateEvent(
        task_id=found.id, context_id=context, artifact=artifact, append=goes_on
    )


def status_update(found: FoundRun, status: TaskStatus) -> TaskStatusUpdateEvent:
    """Return the update that reports the status."""
    return TaskStatusUpdateEvent(task_id=found.id, context_id=context_of(found.id), status=status)


def still_working(found: FoundRun) -> TaskStatusUpdateEvent:
    """Return the last update of a stream that ends before its task."""
    told = _agent_message(
        found, "The stream ends here, the task goes on: SubscribeToTask, or GetTask."
    )
    return status_update(found, TaskStatus(state=TaskState.TASK_STATE_WORKING, message=told))


def working_status(found: FoundRun, held: Sequence[Held]) -> TaskStatus:
    """Return the status of a task that has not ended; its message gives the reason of a hold."""
    told = _agent_message(found, held_text(found.id, held[0])) if held else None
    return TaskStatus(state=TaskState.TASK_STATE_WORKING, message=told)


def _agent_message(found: FoundRun, text: str) -> Message:
    return new_text_message(
        text, context_id=context_of(found.id), task_id=found.id, role=Role.ROLE_AGENT
    )


def failure_status(found: FoundRun, text: str) -> TaskStatus:
    """Return the status of a task that has failed."""
    return TaskStatus(state=TaskState.TASK_STATE_FAILED, message=_agent_message(found, text))


def completed_status(found: FoundRun, cut_short: str | None) -> TaskStatus:
    """Return the status of a task with an answer; its message names a missing part of the
    answer.
    """
    told = _agent_message(found, CUT_SHORT[cut_short]) if cut_short else None
    return TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=told)


def waiting_status(found: FoundRun, pending: Sequence[PendingApproval]) -> TaskStatus:
    """Return the status of a task that waits for a person, with the question and the way to
    decide.
    """
    first = pending[0]
    if first.question:
        text = with_approvers(first.question, first)
    else:
        asked = with_approvers(
            f"May {first.name} be called with {output_text(first.arguments)}?", first
        )
        data = f'{{"digest": "{first.digest}", "approved": true}}'
        text = f"{asked} Answer `approve`, or `deny` and why, or send the data {data}."
    return TaskStatus(
        state=TaskState.TASK_STATE_INPUT_REQUIRED, message=_agent_message(found, text)
    )


class ArtifactText:
    """The client's copy of the artifact: text that does not extend the sent text replaces it."""

    def __init__(self, held_back: int | None) -> None:
        """`held_back` is the number of a text's first characters that are held back until more
        follow; None for all.
        """
        self._held_back = held_back
        self._text = ""
        self._sent = ""

    def more(self, event: RunEvent) -> tuple[str, bool] | None:
        """Return a piece, and whether it extends the sent text; None if nothing is new."""
        match event.type:
            case "llm_start" | "text_reset":
                self._text = ""
            case "token" | "llm_complete":
                self._text = text_after(event, self._text)
                if self._held_back is not None and len(self._text) > self._held_back:
                    return self._send(self._text)
            case "done":
                return self._send(event.data["response"])
        return None

    def _send(self, text: str) -> tuple[str, bool] | None:
        if text == self._sent:
            return None
        goes_on = bool(self._sent) and text.startswith(self._sent)
        piece = text[len(self._sent) :] if goes_on else text
        self._sent = text
        return piece, goes_on
