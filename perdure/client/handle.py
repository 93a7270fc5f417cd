"""The handle by which a caller follows, steers and reads one run, open or closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Generic

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import TypeVar

from ..events import RunEvent
from ..history.chain import Chain
from ..messages import Message, ToolResult
from ..payloads.limits import require_sendable
from ..protocol.names import STEER
from ..protocol.outcome import RunOutput, RunResult, RunStatus
from ..protocol.run import SteeringMessage
from ..redaction import redactor
from ..valid_text import valid_text
from .decisions import send_decision
from .output_type import typed_output
from .reading.conversation import complete_messages
from .reading.cursor import Cursor
from .reading.ending import error_of_end
from .reading.family import family_events, family_stream, with_called
from .reading.found import found
from .reading.log import RunLog
from .reading.patience import Patience
from .reading.result import complete_result
from .reading.status import StatusReader
from .reading.tool_results import whole_result
from .reading.watch import watch

Sent = TypeVar("Sent")
T = TypeVar("T", default=Any)


class RunHandle(Generic[T]):
    """Follows, steers and reads one run: that run, also when a later one is given its id.

    `start_run` gives the handle on the run that it has started. That of `get_run` speaks of the latest run of the id at
    its first call, and stays with it.

    Every call raises `RunNotFound` when there is no such run. Those that read the run also raise `ConfigurationError`
    when a part of it is stored where this process can't look, and `NondeterminismError` when its history must be
    replayed and another version of perdure has made it. While the server does not answer, those that read the run's
    events, messages or result wait for it and say so in the log; the others raise `RPCError` after some seconds.
    """

    def __init__(
        self, client: Client, id: str, *, origin: str | None = None, output_type: type[T] | None = None
    ) -> None:
        self.id = id
        """The workflow id."""
        self._output_type = output_type
        self._client = client
        self._chain = Chain(client, id, origin)
        self._log = RunLog(self._chain)
        self._status = StatusReader(self._chain)
        self._patience = Patience(client)

    async def result(self) -> RunResult[T]:
        """Wait for the run's end and return its result, whose output is of the handle's `output_type` if it has one.

        Raises a `RunError` with the conversation when the run ended without one: failed, cancelled or terminated; it is
        an `OutputError` when the output is not of that type.
        """
        with found(self._chain):
            try:
                output = await self._patience(self._output)
            except WorkflowFailureError as failure:
                cause = failure.cause
                raise await self._patience(lambda: error_of_end(self._chain, self._status, cause)) from failure
            result = await self._patience(lambda: complete_result(self._chain, output))
        if self._output_type is not None:
            result.output = typed_output(result, self._output_type)
        return result

    async def _output(self) -> RunOutput:
        """What the workflow returns, from whatever link it does so."""
        return await self._chain.at_current(self._output_after)

    async def _output_after(self, link: WorkflowHandle[Any, Any]) -> RunOutput:
        typed = self._client.get_workflow_handle(self.id, run_id=link.run_id, result_type=RunOutput)
        output: RunOutput = await typed.result()
        return output

    async def steer(self, text: str | Sequence[str], *, by: str | None = None) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5); a running tool goes on.

        Several texts become as many messages, which the agent reads together. `by` says who sends it, for those who
        read the history. Raises `PayloadTooLargeError` when that does not fit into one message to Temporal.
        """
        texts = [valid_text(each) for each in ([text] if isinstance(text, str) else text)]
        if not texts:
            return
        message = redactor().value(SteeringMessage(text=texts[0], further=texts[1:], by=by and valid_text(by)))
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        await self._send(lambda link: link.signal(STEER, message))

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end (§13.2). A tool that has started gets `RunOptions.cancel_grace` seconds to finish."""
        text = redactor().text(valid_text(reason))
        with found(self._chain):
            origin = await self._chain.origin()
            try:
                await self._client.get_workflow_handle(self.id, first_execution_run_id=origin).cancel(reason=text)
            except RPCError as error:
                # When another run has this id by now, this one has ended: there is nothing to cancel.
                if error.status is not RPCStatusCode.NOT_FOUND or (await self._chain.describe()).close_time is None:
                    raise

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
        await self._decide(call_id=call_id, approved=True, arguments=arguments, digest=digest, by=by)

    async def deny(self, call_id: str, reason: str, *, digest: str | None = None, by: str | None = None) -> None:
        """Refuse a tool call that waits for approval, or to answer a question; the model is told the reason.

        Raises like `approve`.
        """
        await self._decide(call_id=call_id, approved=False, reason=reason, digest=digest, by=by)

    async def answer(self, call_id: str, text: str, *, digest: str | None = None, by: str | None = None) -> None:
        """Answer a question that the model has put with the built-in tool `ask_user`; the text is the call's result.

        Raises like `approve`, also for an answer that is not among the choices of a question that takes no other.
        """
        await self._decide(call_id=call_id, approved=True, answer=text, digest=digest, by=by)

    async def _decide(self, **decision: Any) -> None:
        with found(self._chain):
            await send_decision(self._chain, decision)

    async def _send(self, send: Callable[[WorkflowHandle[Any, Any]], Awaitable[Sent]]) -> Sent:
        """Send something to the link that the run is at, which may change meanwhile."""
        with found(self._chain):
            return await self._chain.at_current(send)

    def called(self, id: str, first_run_id: str | None = None) -> RunHandle:
        """The handle on a run that this one has called, by its id: `RunEvent.run_id`, `PendingApproval.run_id`."""
        return RunHandle(self._client, id, origin=first_run_id)

    async def events(self, after: int | str = 0, *, children: bool = False) -> list[RunEvent]:
        """The events after the one with that `seq` or `position`: those so far of an open run, all of a closed one.

        With `children`, those of the runs that it has called are among them; they have a `run_id`. Raises ValueError
        when `after` is neither.
        """
        if children:
            return await family_events(self, after)
        cursor = Cursor(after)
        with found(self._chain):
            await self._patience(self._log.refresh)
        return [seen for event in self._log.events_after(cursor.seq) for seen in cursor.recorded(event)]

    async def stream(self, after: int | str = 0, *, children: bool = False) -> AsyncIterator[RunEvent]:
        """The events after the one with that `seq` or `position`, as they come, until the terminal one.

        With `children`, those of the runs that it has called come among them; see `events`.

        With `RunOptions.stream`, `token` and `thinking` events come while the model writes; they have the `seq` that
        their recorded event will have, and a `position` in the middle of the text. `text_reset` says that the model
        begins its text anew. Raises ValueError when `after` is neither.
        """
        with found(self._chain):
            source = family_stream(self, after) if children else watch(self._chain, self._log, self._patience, after)
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    async def messages(self) -> list[Message]:
        """The complete conversation, including what was trimmed from the model's view."""
        with found(self._chain):
            return await self._patience(lambda: complete_messages(self._chain, self._log))

    async def tool_result(self, call_id: str, *, iteration: int | None = None) -> ToolResult:
        """The result of one tool call, whole, also where the conversation has it shortened; works on closed runs too.

        Models reuse ids: without `iteration`, it is the last call of that id. Raises `UnknownCallError`, which names
        the calls that have results, when there is no such call, or no result of it yet.
        """
        with found(self._chain):
            return await self._patience(lambda: whole_result(self._chain, self._log, call_id, iteration))

    async def status(self) -> RunStatus:
        """Where the run stands: the workflow's own answer or, when no worker gives one, what the history says.

        What waits for a person in the runs that it has called is listed too: it is decided there (`called`).
        """
        with found(self._chain):
            return await with_called(self, await self._status.read())
