"""A handle on one run, open or closed, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError

from ..errors import RUN_ERRORS, RunCancelled, RunError
from ..events import RunEvent
from ..history.chain import cancel_reason, last_link
from ..history.link import read_link
from ..messages import Message, Usage
from ..payloads.limits import require_sendable
from ..payloads.storage.missing import STORAGE_ERROR
from ..protocol.names import APPROVAL, STATUS, STEER
from ..protocol.run import CallApproval, RunFailure, RunOutput, RunResult, RunStatus, SteeringMessage
from .reading.conversation import complete_messages, conversation_at_end
from .reading.log import RunLog
from .reading.query import ask
from .reading.replay import replay
from .reading.watch import watch


class RunHandle:
    """Follows, steers and reads one run. Its calls raise `RPCError` when there is no run of that id."""

    def __init__(self, client: Client, id: str) -> None:
        self.id = id
        """The workflow id."""
        self._client = client
        self._workflow = client.get_workflow_handle(id, result_type=RunOutput)
        self._log = RunLog(client, id)

    async def result(self) -> RunResult:
        """Wait for the run's end. Raises a `RunError` that carries the conversation when there is no result."""
        try:
            output: RunOutput = await self._workflow.result()
        except WorkflowFailureError as failure:
            raise await self._error_of(failure.cause) from failure
        messages = output.messages
        if messages is None:
            messages = await conversation_at_end(self._client, self.id, await last_link(self._client, self.id))
        return RunResult(
            output=output.output,
            iterations=output.iterations,
            messages=messages,
            usage=output.usage,
            is_incomplete=output.is_incomplete,
            iteration_usage=[_usage(counts) for counts in output.iteration_usage],
        )

    async def steer(self, text: str) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5). Never interrupts a tool.

        Raises `PayloadTooLargeError`, as do the verdicts on tool calls.
        """
        message = SteeringMessage(text=text)
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        await self._workflow.signal(STEER, message)

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end (§13.2). A tool that has started is awaited for its grace period."""
        await self._workflow.cancel(reason=reason)

    async def approve(self, call_id: str, *, arguments: dict[str, Any] | None = None) -> None:
        """Let a tool call that waits for a person pass, with other arguments if any are given."""
        await self._decide(CallApproval(call_id=call_id, approved=True, arguments=arguments))

    async def deny(self, call_id: str, reason: str) -> None:
        """Refuse a tool call that waits for a person; the model is told the reason."""
        await self._decide(CallApproval(call_id=call_id, approved=False, reason=reason))

    async def _decide(self, decision: CallApproval) -> None:
        await require_sendable(self._client, decision, "The decision", lambda: "Give shorter arguments")
        await self._workflow.signal(APPROVAL, decision)

    async def events(self, after: int = 0) -> list[RunEvent]:
        """The events so far whose `seq` is above `after`; of a closed run, all of them."""
        await self._log.refresh()
        return [event for event in self._log.events if event.seq > after]

    def stream(self, after: int = 0) -> AsyncIterator[RunEvent]:
        """The events behind `after` as they come, until the terminal one.

        With `RunOptions.stream`, `token` and `thinking` events come while the model speaks; they carry
        the `seq` that their recorded event will have.
        """
        return watch(self._client, self.id, self._log, after)

    async def messages(self) -> list[Message]:
        """The complete conversation, what was trimmed from the model's view included."""
        return await complete_messages(self._client, self.id, self._log)

    async def status(self) -> RunStatus:
        """Where the run stands. Answered from the history when no worker is there to ask."""
        description = await self._workflow.describe()
        handle = self._client.get_workflow_handle(self.id, run_id=description.run_id)
        if description.status == WorkflowExecutionStatus.RUNNING:
            running = await ask(handle, STATUS, answer=RunStatus)
            if running is not None:
                return running
        link = await read_link(self._client, self.id, description.run_id)
        status = (await replay(self.id, link.history, self._client.data_converter)).status()
        ended = _ENDED.get(description.status) if description.status else None
        return status.model_copy(update={"status": ended}) if ended else status

    async def _error_of(self, cause: BaseException) -> RunError:
        try:
            return await self._run_error(cause)
        except ApplicationError as error:
            if error.type != STORAGE_ERROR or not isinstance(cause, ApplicationError):
                raise
            # What the run has said was stored outside Temporal and is lost: its last error is all that is left.
            kind = cause.type or "failed"
            return RUN_ERRORS.get(kind, RunError)(cause.message, kind=kind)

    async def _run_error(self, cause: BaseException) -> RunError:
        link = await last_link(self._client, self.id)
        messages = await conversation_at_end(self._client, self.id, link)
        if isinstance(cause, ApplicationError) and cause.details:
            failure = RunFailure.model_validate(cause.details[0])
            error_type = RUN_ERRORS.get(failure.kind, RunError)
            return error_type(
                cause.message,
                kind=failure.kind,
                reason=failure.reason,
                messages=messages,
                iterations=failure.iterations,
            )
        iterations = (await self.status()).model_calls
        if isinstance(cause, CancelledError):
            reason = cancel_reason(link)
            text = f"The run {self.id!r} was cancelled" + (f": {reason}" if reason else "")
            return RunCancelled(text, reason=reason, messages=messages, iterations=iterations)
        kinds: dict[type, str] = {TerminatedError: "terminated", TimeoutError: "timed_out"}
        kind = next((name for type_, name in kinds.items() if isinstance(cause, type_)), "failed")
        return RunError(f"The run {self.id!r} ended: {cause}", kind=kind, messages=messages, iterations=iterations)


_ENDED = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


def _usage(counts: tuple[int, int, int, int, int]) -> Usage:
    return Usage.model_validate(dict(zip(Usage.model_fields, counts, strict=True)))
