"""What a caller sends to a run: steering messages, decisions about tool calls, the request to end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from ..decision_commands import decision_command
from ..errors import ApprovalError, PayloadTooLargeError
from ..history.chain import Chain
from ..payloads.encryption.texts import sealed_text
from ..payloads.limits import bytes_as_sent, require_sendable, size_of
from ..protocol.names import STEER
from ..protocol.outcome import RunStatus
from ..protocol.run import PendingApproval, SteeringMessage
from ..redaction import redactor
from ..valid_text import bounded_text, valid_text
from .decisions import send_decision
from .reading.found import found

Sent = TypeVar("Sent")

SMALL_BYTES = 64 * 1024
"""A steering message of this size is sent without a look at the history."""
MAX_STEERED_BYTES = 16 * 1024 * 1024
"""Of a history that is sent large steering messages: the conversation is recorded once more with them in it."""


class Controls:
    """The part of a handle that changes the run; what it raises in general is said of `RunHandle`."""

    id: str
    _client: Client
    _chain: Chain

    async def steer(self, text: str | Sequence[str], *, by: str | None = None) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5); a running tool goes on.

        Several texts become as many messages, which the agent reads together. `by` says who sends it, for those who
        read the history. Raises `PayloadTooLargeError` when that does not fit into one message to Temporal, and when so
        many large ones were sent already that Temporal would end the run for the size of its history.
        """
        texts = [valid_text(each) for each in ([text] if isinstance(text, str) else text)]
        if not texts:
            return
        message = redactor().value(SteeringMessage(text=texts[0], further=texts[1:], by=by and valid_text(by)))
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        if size_of(message) > SMALL_BYTES:
            await self._require_room(await bytes_as_sent(self._client, message))
        await self._send(lambda link: link.signal(STEER, message))

    async def _require_room(self, size: int) -> None:
        """Raises `PayloadTooLargeError` where a steering message of that size might be the end of the run."""
        with found(self._chain):
            described = await self._chain.describe()
        history = described.raw_description.workflow_execution_info.history_size_bytes
        if history + size > MAX_STEERED_BYTES:
            raise PayloadTooLargeError(
                f"The steering message takes {size:,} bytes, and the history of run {self.id!r} {history:,} already; "
                f"together {MAX_STEERED_BYTES:,} are possible, because Temporal ends a run of 50 MB. Send less, wait "
                "until the run goes on in a new history, or configure external storage (PERDURE_STORAGE) for clients "
                "and workers"
            )

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end (§13.2). A tool that has started gets `RunOptions.cancel_grace` seconds to finish.

        Of the reason, 8 KiB are kept.
        """
        text = await sealed_text(self._client.data_converter, redactor().text(bounded_text(reason)))
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

    @abstractmethod
    async def status(self) -> RunStatus:
        """Where the run stands, with what waits for a person in the runs that it has called."""

    async def _decide(self, **decision: Any) -> None:
        try:
            with found(self._chain):
                await send_decision(self._chain, decision)
        except ApprovalError as error:
            if error.kind != "unknown" or not (elsewhere := await self._called_run_with(decision["call_id"])):
                raise
            run = elsewhere.run_id or self.id
            how = decision_command(run, elsewhere.call_id, elsewhere.digest, kind=elsewhere.kind)
            raise ApprovalError(
                f"{error}. One of that id waits in the run {run!r}, which this one has called, and is decided there: "
                f"run.called({run!r}), or {how}",
                kind=error.kind,
                pending=[elsewhere],
            ) from None

    async def _called_run_with(self, call_id: str) -> PendingApproval | None:
        pending = (await self.status()).pending_approvals
        return next((each for each in pending if each.run_id and each.call_id == call_id), None)

    async def _send(self, send: Callable[[WorkflowHandle[Any, Any]], Awaitable[Sent]]) -> Sent:
        """Send something to the link that the run is at, which may change meanwhile."""
        with found(self._chain):
            return await self._chain.at_current(send)
