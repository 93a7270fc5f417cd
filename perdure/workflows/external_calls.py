"""The tool calls that other systems finish: they wait in the workflow and occupy no worker."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from pydantic_core import to_json
from temporalio import workflow

from ..messages import Postponed
from ..protocol.descriptions import moment
from ..protocol.later import AwaitedCall, CompletedCall, Completion, mark_of
from ..protocol.names import COMPLETION_REFUSED
from ..text import one_line
from ..tool_calls import ToolRequest
from .received import Door, require_room

REMEMBERED = 50
"""The number of finished calls by which a repeated completion is recognized."""
SHOWN_CHARS = 200
"""Characters of the first completion in the refusal of a second one."""


COMPLETIONS = Door(Completion, COMPLETION_REFUSED, "proof, and value or error")
completion_refusal = COMPLETIONS.refusal


class OpenCall:
    """A call that waits, and its completion once that has arrived."""

    def __init__(self, request: ToolRequest, postponed: Postponed) -> None:
        now = workflow.time()
        self.mark = postponed.mark
        self.shown = AwaitedCall(
            call_id=request.call_id,
            name=request.name,
            arguments=request.arguments,
            iteration=request.iteration,
            since=now,
            deadline=None if postponed.seconds is None else now + postponed.seconds,
        )
        self.completion: Completion | None = None


class ExternalCalls:
    """The calls that tools open and updates finish, each once."""

    def __init__(self, completed: Sequence[CompletedCall] = ()) -> None:
        self.completed = list(completed)
        """The calls that no longer wait."""
        self.executing = 0
        """The number of tool executions under way, each of which may have handed out a token."""
        self._open: list[OpenCall] = []

    @property
    def open_calls(self) -> list[AwaitedCall]:
        """The calls that wait now."""
        return [call.shown for call in self._open if call.completion is None]

    def open(self, request: ToolRequest, postponed: Postponed) -> OpenCall:
        """Record that a call waits."""
        call = OpenCall(request, postponed)
        self._open.append(call)
        return call

    def close(self, call: OpenCall, why: str) -> None:
        """Record that the call no longer waits; `why` is the reason if it was not completed."""
        self._open.remove(call)
        if call.completion is None:
            text = f"its tool call {call.shown.call_id!r} does not wait any longer: {why}"
            self._remember(CompletedCall(mark=call.mark, account=text))

    def complete(self, completion: Completion) -> None:
        """Finish the call. Raises as `require_acceptable` does."""
        call = self.require_acceptable(completion)
        call.completion = completion
        account = f"tool call {call.shown.call_id!r} was finished {_time_and_outcome(completion)}"
        self._remember(CompletedCall(mark=call.mark, digest=digest_of(completion), account=account))

    def require_acceptable(self, completion: Completion) -> OpenCall:
        """Return the call that waits for the completion. Raises a refusal: `repeated` where an
        equal one finished it before.
        """
        mark = mark_of(completion.proof)
        if past := next((each for each in reversed(self.completed) if each.mark == mark), None):
            if past.digest and past.digest == digest_of(completion):
                raise completion_refusal("repeated", past.account)
            raise completion_refusal("completed" if past.digest else "ended", past.account)
        call = next((each for each in self._open if each.mark == mark), None)
        if call is None and self.executing:
            text = (
                "the tool that has given this token has not returned yet: send the completion "
                "again in a moment"
            )
            raise completion_refusal("early", text)
        if call is None:
            raise completion_refusal("unknown", "no tool call waits for this token")
        require_room(completion, [completion.value], 3, completion_refusal)
        return call

    def _remember(self, call: CompletedCall) -> None:
        self.completed = [*self.completed, call][-REMEMBERED:]


def digest_of(completion: Completion) -> str:
    """Return a digest that is equal for equal completions, from any sender."""
    return blake2b(to_json([completion.value, completion.error]), digest_size=8).hexdigest()


def _time_and_outcome(completion: Completion) -> str:
    """Return "at TIME by SENDER with the result …", for the refusal of a second completion."""
    kind, text = "error", completion.error
    if text is None:
        kind, value = "result", completion.value
        text = value if isinstance(value, str) else to_json(value).decode()
    by = f" by {one_line(completion.by)}" if completion.by else ""
    return f"at {moment(workflow.time())}{by} with the {kind} {one_line(text, SHOWN_CHARS)!r}"
