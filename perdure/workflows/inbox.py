"""What has come in from outside and waits for the loop: a cancellation, steering messages, approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow

from ..protocol.run import CallApproval, PendingApproval
from ..tool_calls import ToolRequest

Value = TypeVar("Value", bound=BaseModel)


def understood(arguments: Sequence[Any], type_: type[Value]) -> Value | None:
    """The one value that a signal should have; None, and a warning in the log, if it has something else."""
    try:
        (value,) = arguments
        return type_.model_validate(value)
    except ValueError as error:
        workflow.logger.warning("a signal without a %s was dropped: %s", type_.__name__, error)
        return None


class OpenApproval:
    """A tool call that waits for a person's approval, and the approval once it has come."""

    def __init__(self, request: ToolRequest) -> None:
        self.call_id = request.call_id
        self.pending = PendingApproval(
            call_id=request.call_id, name=request.name, arguments=request.arguments, iteration=request.iteration
        )
        self.approval: CallApproval | None = None


class Inbox:
    """Signals fill it at any time; the loop empties it when it chooses to."""

    def __init__(self, steering: Sequence[str] = ()) -> None:
        self.cancelled = False
        self.steering = list(steering)
        self._approvals: list[OpenApproval] = []

    def drain(self) -> list[str]:
        """All steering messages, in the order they came; each is given once."""
        texts, self.steering = self.steering, []
        return texts

    def open_approval(self, request: ToolRequest) -> OpenApproval:
        """Note that a tool call waits for a person's approval."""
        opened = OpenApproval(request)
        self._approvals.append(opened)
        return opened

    def close(self, opened: OpenApproval) -> None:
        """Note that the call does not wait any longer."""
        self._approvals.remove(opened)

    def take(self, approval: CallApproval) -> None:
        """Accept a person's approval or denial of a call that waits for one.

        Any other is dropped: if it were kept, it could decide about a later call of the same id, which nobody has seen.
        """
        for opened in self._open:
            if opened.call_id == approval.call_id:
                opened.approval = approval
                return
        workflow.logger.warning("an approval of tool call %r, which does not wait for one", approval.call_id)

    @property
    def pending_approvals(self) -> list[PendingApproval]:
        """The calls that wait for a person's approval."""
        return [opened.pending for opened in self._open]

    @property
    def _open(self) -> list[OpenApproval]:
        return [opened for opened in self._approvals if opened.approval is None]
