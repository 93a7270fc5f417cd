"""The handle on one run, open or closed: it follows, reads, steers and cancels the run, and sends
decisions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic
from typing import TypeVar as PlainTypeVar

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import TypeVar

from ..agents import Agent
from ..commands import ways_to_settle
from ..errors import ApprovalError, GoOnError, PayloadTooLargeError
from ..events import RunEvent
from ..history.chain import Chain
from ..messages import JsonObject, Message, ToolResult
from ..options import RunOptions
from ..payloads.encryption.codec import sealed_text
from ..payloads.failures import bytes_as_sent, require_sendable, size_of
from ..protocol.names import STEER
from ..protocol.outcome import ForkOf, RunOutput, RunResult, RunStatus
from ..protocol.run import SteeringMessage
from ..protocol.signatures import Voucher
from ..redaction import redactor
from ..text import bounded_text, valid_text
from .export import export_lines
from .fork import Changes, fork_of, fork_origin, other_model
from .output_type import OutputType
from .pauses import pause_runs, release_run
from .reading.children import events_with_children, status_with_children, stream_with_children
from .reading.events import Cursor
from .reading.log import RunEvents
from .reading.results import (
    complete_messages,
    complete_result,
    error_of_end,
    run_not_found,
    typed_result,
    whole_result,
)
from .reading.status import StatusReader
from .reading.watch import ServerRetry, ask_again, watch
from .starting import StartOptions, start_workflow
from .updates import send_decision, send_go_on

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

Sent = PlainTypeVar("Sent")

SMALL_BYTES = 64 * 1024
"""A steering message up to this size is sent without reading the history first."""
MAX_STEERED_BYTES = 16 * 1024 * 1024
"""The limit for steering messages in a history: the conversation is recorded once more with
them."""


class Controls:
    """The half of a handle that changes the run; see `RunHandle` for the errors that every call may
    raise.
    """

    id: str
    _client: Client
    _chain: Chain
    _voucher: Voucher | None = None

    async def steer(
        self, text: str | Sequence[str], *, by: str | None = None, message_id: str = ""
    ) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5); a running
        tool continues.

        Several texts become as many messages, which the agent reads together. `by` names the
        sender, for readers of the history. The run reads a message once if it arrives again with
        the same `message_id`.

        Raises `PayloadTooLargeError` when the message does not fit into one message to Temporal,
        and when Temporal would end the run for the size of its history because of many large
        messages.
        """
        if not (
            texts := [valid_text(each) for each in ([text] if isinstance(text, str) else text)]
        ):
            return
        message = redactor().value(
            SteeringMessage(
                text=texts[0], further=texts[1:], by=by and valid_text(by), id=message_id
            )
        )
        message.requested_by = (
            self._voucher.request(self.id, message.content) if self._voucher else None
        )
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        if size_of(message) > SMALL_BYTES:
            await self._require_room(await bytes_as_sent(self._client, message))
        await self._send(lambda link: link.signal(STEER, message))

    async def _require_room(self, size: int) -> None:
        """Raises `PayloadTooLargeError` where a steering message of that size might end the run."""
        with run_not_found(self._chain):
            info = (await self._chain.describe()).raw_description.workflow_execution_info
        if (history := info.history_size_bytes) + size > MAX_STEERED_BYTES:
            raise PayloadTooLargeError(
                f"The steering message takes {size:,} bytes, and the history of run {self.id!r} "
                f"{history:,} already; together {MAX_STEERED_BYTES:,} are possible, because "
                "Temporal ends a run of 50 MB. Send less, wait until the run goes on in a new "
                "history, or configure external storage (PERDURE_STORAGE) for clients and workers"
            )

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end (§13.2). A tool that has started gets `RunOptions.cancel_grace`
        seconds to finish.

        perdure keeps 8 KiB of the reason.
        """
        text = await sealed_text(self._client.data_converter, redactor().text(bounded_text(reason)))
        with run_not_found(self._chain):
            link = self._client.get_workflow_handle(
                self.id, first_execution_run_id=await self._chain.origin()
            )
            try:
                await ask_again(lambda: link.cancel(reason=text))
            except RPCError as error:
                # If another run has this id by now, this one has ended: there is nothing to cancel.
                if (
                    error.status is not RPCStatusCode.NOT_FOUND
                    or (await self._chain.describe()).close_time is None
                ):
                    raise

    async def approve(
        self,
        call_id: str,
        *,
        arguments: dict[str, Any] | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> None:
        """Approve a tool call that waits for approval, optionally with other arguments.

        With the `digest` of the reviewed `PendingApproval`, the approval counts for exactly that
        call. `by` names the approver. The same approval once more succeeds and changes nothing.

        Raises `ApprovalError` when the approval is refused, and the call keeps waiting: for a call
        that does not wait or has another decision, a stale digest, arguments that do not fit the
        tool's parameters or that the tool guardrail denies, and when no worker answers within 10 s.
        Raises `PayloadTooLargeError` when the arguments do not fit into one message to Temporal.
        """
        await self._decide(
            call_id=call_id, approved=True, arguments=arguments, digest=digest, by=by
        )

    async def deny(
        self, call_id: str, reason: str, *, digest: str | None = None, by: str | None = None
    ) -> None:
        """Deny a tool call that waits for approval, or decline a question; the model receives the
        reason.

        Raises like `approve`.
        """
        await self._decide(call_id=call_id, approved=False, reason=reason, digest=digest, by=by)

    async def answer(
        self, call_id: str, text: str, *, digest: str | None = None, by: str | None = None
    ) -> None:
        """Answer a question that the model asked with the built-in tool `ask_user`; the text is the
        call's result.

        Raises like `approve`, also for an answer outside the choices of a question that accepts no
        other.
        """
        await self._decide(call_id=call_id, approved=True, answer=text, digest=digest, by=by)

    async def go_on(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        model: str | None = None,
        by: str | None = None,
    ) -> None:
        """Resume a held run from the point where it stopped: it repeats nothing, and retries the
        failed step.

        `options` are fields of `RunOptions` to change, such as the exhausted limit
        (`CHANGED_BY_GO_ON` lists them). `model` is the model for further calls: an id, or
        `PROVIDER/ID`. `by` names the sender.

        Raises ConfigurationError for a model without an id, and `GoOnError` when the run does not
        resume: it is not held, it would still reach a limit, the options are invalid, it has ended,
        or no worker answers within 10 s.
        """
        other = None if model is None else other_model(model)
        with run_not_found(self._chain):
            is_released = await release_run(self._client, self.id, by=by)
            try:
                await send_go_on(self._chain, options or {}, other, by)
            except GoOnError as error:
                if not (is_released and error.kind == "not_held"):
                    raise

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Pause the run, and those that it calls, before the next model or tool call, until
        `go_on`.

        Calls in progress finish and are recorded. `pause_runs` pauses all runs of an agent, a
        tenant or a task queue.
        """
        await pause_runs(self._client, runs=[self.id], reason=reason, by=by)

    @abstractmethod
    async def status(self) -> RunStatus:
        """Return the run's status, including approvals and questions pending in the runs that it
        called.
        """

    async def _decide(self, **decision: Any) -> None:
        try:
            with run_not_found(self._chain):
                await send_decision(self._chain, decision, self._voucher)
        except ApprovalError as error:
            waiting = (await self.status()).pending_approvals if error.kind == "unknown" else ()
            elsewhere = next(
                (each for each in waiting if each.run_id and each.call_id == decision["call_id"]),
                None,
            )
            if elsewhere is None:
                raise
            run = elsewhere.run_id or self.id
            how = ways_to_settle(run, elsewhere)[0]
            raise ApprovalError(
                f"{error}. One of that id waits in the run {run!r}, which this one has called, and "
                f"is decided there: run.called({run!r}), or {how}",
                kind=error.kind,
                pending=[elsewhere],
            ) from None

    async def _send(self, send: Callable[[WorkflowHandle[Any, Any]], Awaitable[Sent]]) -> Sent:
        """Send to the run's current link, which may change meanwhile."""
        with run_not_found(self._chain):
            return await self._chain.at_current(send)


T = TypeVar("T", default=Any)


class RunHandle(Controls, Generic[T]):
    """Follows, steers and reads one run; it keeps to that run even when a later one gets the same
    id.

    `start_run` returns the handle on its run; a handle from `get_run` keeps to the latest run at
    its first call.

    Every call raises `RunNotFound` when there is no such run. Calls that read the run also raise
    `ConfigurationError` when a part of it is in a storage that this process can't reach, and
    `NondeterminismError` when its history must be replayed and comes from another version of
    perdure. While the server does not answer, calls that read the run's events, messages or result
    wait and log a warning; the others raise `RPCError` after some seconds.
    """

    def __init__(
        self,
        client: Client,
        id: str,
        *,
        origin: str | None = None,
        output_type: OutputType[T] | None = None,
        chain: Chain | None = None,
        voucher: Voucher | None = None,
        later_types: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = id
        """The workflow id."""
        self._types: dict[str, Any] = {"output_type": output_type, "later_types": later_types}
        """The agent's output type; and those of the agents it may hand over to, by path."""
        self._voucher = voucher
        self._client = client
        self._chain = chain or Chain(client, id, origin, is_of_run=True)
        """Begins at `origin`, the run id of the first link; without one, the latest run's."""
        self._log = RunEvents(self._chain)
        self._status = StatusReader(self._chain)
        self._retry = ServerRetry(client)

    async def result(self) -> RunResult[T]:
        """Wait for the run's end and return its result; with `output_type`, its output has that
        type, unless it is raw.

        Raises a `RunError` with the conversation when the run failed, was cancelled or was
        terminated: an `OutputError` when the output does not fit the type.
        """
        with run_not_found(self._chain):
            try:
                output = await self._retry(self._output)
            except WorkflowFailureError as failure:
                cause = failure.cause
                raise await self._retry(
                    lambda: error_of_end(self._chain, self._status, cause)
                ) from failure
            result = await self._retry(lambda: complete_result(self._chain, output))
        return typed_result(result, output, **self._types)

    async def _output(self) -> RunOutput:
        """Return the workflow's result, from whichever link it ends in."""
        find = partial(self._client.get_workflow_handle, self.id, result_type=RunOutput)
        output: RunOutput = await self._chain.at_current(
            lambda link: find(run_id=link.run_id).result()
        )
        return output

    def called(self, id: str, first_run_id: str | None = None) -> RunHandle:
        """Return the handle on a run that this one called, by its id: `RunEvent.run_id`,
        `PendingApproval.run_id`.
        """
        return RunHandle(self._client, id, origin=first_run_id, voucher=self._voucher)

    async def events(self, after: int | str = 0, *, children: bool = False) -> list[RunEvent]:
        """Return the events after the one with that `seq` or `position`: the events so far of an
        open run, all of a closed one.

        With `children`, the events of the runs that it called are included; they have a `run_id`.
        Raises ValueError for any other `after`.
        """
        if children:
            return await events_with_children(self, after)
        cursor = Cursor(after)
        with run_not_found(self._chain):
            await self._retry(self._log.refresh)
        return [
            seen
            for event in self._log.events_after(cursor.seq)
            for seen in cursor.recorded_news(event)
        ]

    async def stream(
        self, after: int | str = 0, *, children: bool = False
    ) -> AsyncIterator[RunEvent]:
        """Yield the events after the one with that `seq` or `position` as they occur, until the
        terminal one.

        With `children`, the events of the runs that it called are included; see `events`.

        With `RunOptions.stream`, `token` and `thinking` events arrive while the model writes; they
        have the `seq` of their later recorded event, and a `position` in the middle of the text.
        `text_reset` means that the model starts its text again. Raises ValueError for any other
        `after`.
        """
        with run_not_found(self._chain):
            source = (
                stream_with_children(self, after)
                if children
                else watch(self._chain, self._log, self._retry, after)
            )
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    def stream_output(self) -> AsyncIterator[Any]:
        """Yield the answer while the model writes it, then the checked output as in `result`.

        An incomplete answer is JSON, an object or a list so far, or a text for an agent without
        `outputs`; it starts again when the model does. Needs `RunOptions.stream`. Raises like
        `result`.
        """
        from .partial_output import partial_outputs

        return partial_outputs(
            self.stream(), self.result, lambda: self._log.link.input.agent.outputs
        )

    async def fork(
        self,
        at: int,
        *,
        steer: str | None = None,
        model: str | None = None,
        agent: Agent | str | PathLike[str] | None = None,
        options: RunOptions | Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        results: Mapping[str, str] | None = None,
        id: str | None = None,
        id_reuse_policy: WorkflowIDReusePolicy | None = None,
        memo: Mapping[str, Any] | None = None,
    ) -> RunHandle[T]:
        """Start a new run from this one's conversation before iteration `at` (from 1), repeating
        nothing.

        The run may be open or closed; after the end, `at` may be one more than its last iteration.
        `steer` is appended as a user's message. `model` is another model's id, or `PROVIDER/ID`.
        `agent` replaces the agent, with new instructions if they differ; `inputs` are for its
        prompt. `results` are other texts for results of earlier tool calls, by call id. `options`
        are fields that differ, `memo` are further values. Task queue, inputs, tenant and memo stay;
        limits and counts start again; pending approvals and questions are not carried over.

        Raises ValueError for an iteration that the run does not have or the namespace has deleted,
        and for a call without one result; the errors of `start_run`, and pydantic's ValidationError
        for unknown options.
        """
        fields = RunOptions.model_validate(options or {}).model_dump(exclude_unset=True)
        with run_not_found(self._chain):
            fork = await fork_of(
                self._chain, at, Changes(steer, model, agent, fields, inputs, results)
            )
        start = StartOptions(**{**fork.start, "id_reuse_policy": id_reuse_policy})
        start["memo"] = {**(start["memo"] or {}), **(memo or {})}
        more: dict[str, Any] = {"task_queue": fork.task_queue, "id": id, "options": fork.options}
        started = await start_workflow(
            self._client, fork.agent, fork.inputs, start, messages=fork.messages, **more
        )
        return RunHandle(self._client, started.id, origin=started.origin, **self._types)

    async def fork_of(self) -> ForkOf | None:
        """Return the source of this fork and the iteration before which it began; None for a run
        that is not a fork.
        """
        with run_not_found(self._chain):
            return await fork_origin(await self._chain.describe())

    async def export(
        self, *, children: bool = True, events: bool = True
    ) -> AsyncIterator[JsonObject]:
        """Yield the run's whole record as objects, each one line of JSONL (`perdure docs fork`).

        It has no secrets. Works on open runs too; with `children`, it includes the lines of the
        runs that it called. One link of the run is in memory at a time.
        """
        with run_not_found(self._chain):
            async with aclosing(
                export_lines(self._chain, children=children, events=events)
            ) as lines:
                async for line in lines:
                    yield line

    async def trace(
        self, *, content: bool | None = None, children: bool = True
    ) -> list[ReadableSpan]:
        """Return the run as OpenTelemetry spans, ordered by start (`perdure docs traces`); works on
        open runs too.

        `content` adds messages, arguments and results, without secrets; None follows the
        environment, as live tracing does. `children` adds the runs that this one called.
        """
        from ..trace.content import captures_content
        from ..trace.rebuild import rebuild

        shown = captures_content() if content is None else content
        with run_not_found(self._chain):
            return await self._retry(lambda: rebuild(self._chain, content=shown, children=children))

    async def agent_name(self) -> str:
        """Return the name of the running agent, as Temporal shows it."""
        with run_not_found(self._chain):
            memo = await (await self._retry(self._chain.describe)).memo()
        return str(memo.get("agent", ""))

    async def messages(self) -> list[Message]:
        """Return the complete conversation, including messages trimmed from the model's view."""
        with run_not_found(self._chain):
            return await self._retry(lambda: complete_messages(self._chain, self._log))

    async def tool_result(self, call_id: str, *, iteration: int | None = None) -> ToolResult:
        """Return the whole result of one tool call, even where the conversation has it shortened;
        works on closed runs too.

        Models reuse ids: without `iteration`, it is the last call of that id. Raises
        `UnknownCallError`, which lists the calls that have results, when there is no such call, or
        no result of it yet.
        """
        with run_not_found(self._chain):
            return await self._retry(lambda: whole_result(self._chain, call_id, iteration))

    async def status(self) -> RunStatus:
        """Return the status from the workflow itself or, when no worker answers, from the history.

        It includes approvals and questions pending in the runs that it called: send decisions to
        those runs (`called`).
        """
        with run_not_found(self._chain):
            return await status_with_children(self, await self._status.read())
