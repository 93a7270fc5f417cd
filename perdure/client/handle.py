"""The handle by which a caller follows, steers and reads one run, open or closed."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError

from ..errors import RUN_ERRORS, RunCancelled, RunError
from ..events import RunEvent
from ..history.chain import cancel_reason, last_link
from ..history.link import read_link
from ..loop.state import usages
from ..messages import Message
from ..payloads.limits import require_sendable
from ..payloads.storage.missing import STORAGE_ERROR
from ..protocol.names import STATUS, STEER
from ..protocol.run import CallApproval, RunFailure, RunOutput, RunResult, RunStatus, SteeringMessage
from ..redaction import redactor
from .decisions import Decision
from .reading.conversation import complete_messages, conversation_at_end
from .reading.log import RunLog
from .reading.query import ask
from .reading.replay import replay
from .reading.watch import watch

_ENDED_FROM_OUTSIDE = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


class RunHandle:
    """Follows, steers and reads one run.

    Every call raises `RPCError` when there is no run of that id. Those that read the run also raise
    `ConfigurationError` when a part of it is stored where this process can't look, and `NondeterminismError` when its
    history must be replayed and another version of perdure has made it.
    """

    def __init__(self, client: Client, id: str) -> None:
        self.id = id
        """The workflow id."""
        self._client = client
        self._workflow = client.get_workflow_handle(id, result_type=RunOutput)
        self._log = RunLog(client, id)

    async def result(self) -> RunResult:
        """Wait for the run's end and return its result.

        Raises a `RunError` with the conversation when the run ended without one: failed, cancelled or terminated.
        """
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
            iteration_usage=usages(output.iteration_usage),
        )

    async def steer(self, text: str) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5); a running tool goes on.

        Raises `PayloadTooLargeError` when the text does not fit into one message to Temporal.
        """
        message = redactor().value(SteeringMessage(text=text))
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        await self._workflow.signal(STEER, message)

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end (§13.2). A tool that has started gets `RunOptions.cancel_grace` seconds to finish."""
        await self._workflow.cancel(reason=redactor().text(reason))

    async def approve(
        self,
        call_id: str,
        *,
        arguments: dict[str, Any] | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> None:
        """Let a tool call that waits for approval be executed, with other arguments if any are given.

        With the `digest` of the `PendingApproval` that was looked at, it counts for exactly that call. `by` says who
        approves. The same approval once more succeeds and changes nothing.

        Raises `ApprovalError` when it is not accepted, and the call goes on waiting: for a call that does not wait, or
        was decided in another way, a stale digest, arguments that do not fit the tool's parameters or that the tool
        guardrail denies, and when no worker answers within 10 s. Raises `PayloadTooLargeError` when the arguments do
        not fit into one message to Temporal.
        """
        await self._decide(CallApproval(call_id=call_id, approved=True, arguments=arguments, digest=digest, by=by))

    async def deny(self, call_id: str, reason: str, *, digest: str | None = None, by: str | None = None) -> None:
        """Refuse a tool call that waits for approval; the model is told the reason. Raises like `approve`."""
        await self._decide(CallApproval(call_id=call_id, approved=False, reason=reason, digest=digest, by=by))

    async def _decide(self, approval: CallApproval) -> None:
        approval = redactor().value(approval)
        await require_sendable(self._client, approval, "The approval", lambda: "Give shorter arguments")
        identified = approval.model_copy(update={"id": uuid.uuid4().hex})
        await Decision(self._client, self._workflow, identified).send()

    async def events(self, after: int = 0) -> list[RunEvent]:
        """The events after the one numbered `after`: those so far of an open run, all of a closed one."""
        await self._log.refresh()
        return self._log.events_after(after)

    def stream(self, after: int = 0) -> AsyncIterator[RunEvent]:
        """The events after the one numbered `after`, as they come, until the terminal one.

        With `RunOptions.stream`, `token` and `thinking` events come while the model writes; they have
        the `seq` that their recorded event will have.
        """
        return watch(self._client, self.id, self._log, after)

    async def messages(self) -> list[Message]:
        """The complete conversation, including what was trimmed from the model's view."""
        return await complete_messages(self._client, self.id, self._log)

    async def status(self) -> RunStatus:
        """Where the run stands: the workflow's own answer or, when no worker gives one, a replay of the history."""
        description = await self._workflow.describe()
        handle = self._client.get_workflow_handle(self.id, run_id=description.run_id)
        if description.status == WorkflowExecutionStatus.RUNNING:
            running = await ask(handle, STATUS, answer=RunStatus)
            if running is not None:
                return running
        link = await read_link(self._client, self.id, description.run_id)
        status = (await replay(self.id, link.history, self._client.data_converter)).status()
        ended = _ENDED_FROM_OUTSIDE.get(description.status) if description.status else None
        return status.model_copy(update={"status": ended}) if ended else status

    async def _error_of(self, cause: BaseException) -> RunError:
        """How the run ended, as an error with its conversation, as far as that can be read."""
        try:
            return await self._complete_error(cause)
        except ApplicationError as error:
            if error.type != STORAGE_ERROR or not isinstance(cause, ApplicationError):
                raise
            # What was said in the run was stored outside Temporal and is lost: its last error is all that is left.
            kind = cause.type or "failed"
            return RUN_ERRORS.get(kind, RunError)(cause.message, kind=kind)

    async def _complete_error(self, cause: BaseException) -> RunError:
        link = await last_link(self._client, self.id)
        messages = await conversation_at_end(self._client, self.id, link)
        if isinstance(cause, ApplicationError) and cause.details:
            return _failed(cause.message, RunFailure.model_validate(cause.details[0]), messages)
        iterations = (await self.status()).model_calls
        if isinstance(cause, CancelledError):
            reason = cancel_reason(link)
            text = f"The run {self.id!r} was cancelled" + (f": {reason}" if reason else "")
            return RunCancelled(text, reason=reason, messages=messages, iterations=iterations)
        return RunError(
            f"The run {self.id!r} ended: {cause}", kind=_kind_of(cause), messages=messages, iterations=iterations
        )


def _failed(text: str, failure: RunFailure, messages: list[Message]) -> RunError:
    error_type = RUN_ERRORS.get(failure.kind, RunError)
    return error_type(text, kind=failure.kind, reason=failure.reason, messages=messages, iterations=failure.iterations)


def _kind_of(cause: BaseException) -> str:
    kinds: dict[type, str] = {TerminatedError: "terminated", TimeoutError: "timed_out"}
    return next((kind for type_, kind in kinds.items() if isinstance(cause, type_)), "failed")
