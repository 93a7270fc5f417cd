"""The handle on one run, open or closed: it follows and reads it, steers it, decides, and cancels it."""

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
from ..history.link import usage_of_calls
from ..messages import JsonObject, Message, ToolResult, Usage
from ..options import RunOptions
from ..payloads.encryption.codec import sealed_text
from ..payloads.failures import bytes_as_sent, require_sendable, size_of
from ..protocol.names import STEER
from ..protocol.outcome import ForkOf, RunOutput, RunResult, RunStatus
from ..protocol.run import SteeringMessage
from ..redaction import redactor
from ..text import bounded_text, valid_text
from ..vouching import Voucher
from .brakes import pause_runs, release_run
from .export import export_lines
from .fork import Changes, fork_of, fork_origin, other_model
from .output_type import OutputType
from .reading.children import events_with_children, status_with_children, stream_with_children
from .reading.events import Cursor
from .reading.log import RunLog
from .reading.results import complete_messages, complete_result, error_of_end, run_not_found, typed_result, whole_result
from .reading.status import StatusReader
from .reading.watch import Patience, ask_again, watch
from .starting import StartOptions, start_workflow
from .updates import GoOnRequest, send_decision

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from .reading.actions import RunActions

Sent = PlainTypeVar("Sent")

SMALL_BYTES = 64 * 1024
"""A steering message of this size is sent without a look at the history."""
MAX_STEERED_BYTES = 16 * 1024 * 1024
"""Of a history that is sent large steering messages: the conversation is recorded once more with them in it."""


class Controls:
    """The part of a handle that changes the run; what it raises in general is said of `RunHandle`."""

    id: str
    _client: Client
    _chain: Chain
    _voucher: Voucher | None = None

    async def steer(self, text: str | Sequence[str], *, by: str | None = None) -> None:
        """Send the agent a message, which it reads before its next model call (§13.5); a running tool goes on.

        Several texts become as many messages, which the agent reads together. `by` says who sends it, for those who
        read the history. Raises `PayloadTooLargeError` when that does not fit into one message to Temporal, and when so
        many large ones were sent already that Temporal would end the run for the size of its history.
        """
        if not (texts := [valid_text(each) for each in ([text] if isinstance(text, str) else text)]):
            return
        message = redactor().value(SteeringMessage(text=texts[0], further=texts[1:], by=by and valid_text(by)))
        message.requested_by = self._voucher.request(self.id, message.content) if self._voucher else None
        await require_sendable(self._client, message, "The steering message", lambda: "Send less")
        if size_of(message) > SMALL_BYTES:
            await self._require_room(await bytes_as_sent(self._client, message))
        await self._send(lambda link: link.signal(STEER, message))

    async def _require_room(self, size: int) -> None:
        """Raises `PayloadTooLargeError` where a steering message of that size might be the end of the run."""
        with run_not_found(self._chain):
            info = (await self._chain.describe()).raw_description.workflow_execution_info
        if (history := info.history_size_bytes) + size > MAX_STEERED_BYTES:
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
        with run_not_found(self._chain):
            link = self._client.get_workflow_handle(self.id, first_execution_run_id=await self._chain.origin())
            try:
                await ask_again(lambda: link.cancel(reason=text))
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

    async def go_on(
        self, *, options: Mapping[str, Any] | None = None, model: str | None = None, by: str | None = None
    ) -> None:
        """Let a held run go on where it stands: nothing that was done is repeated, and what failed is tried again.

        `options` are fields of `RunOptions` that change, such as the limit that is used up (`CHANGED_BY_GO_ON` can).
        `model` is called from now on: another model's id, or `PROVIDER/ID`. `by` says who lets it go on.

        Raises ConfigurationError for a model without an id, and `GoOnError` when the run does not go on: it is not
        held, a limit would still be reached, options can't be so, it has ended, or no worker answers within 10 s.
        """
        other = None if model is None else other_model(model)
        with run_not_found(self._chain):
            is_released = await release_run(self._client, self.id, by=by)
            try:
                await GoOnRequest(self._chain, options or {}, other, by).send()
            except GoOnError as error:
                if not (is_released and error.kind == "not_held"):
                    raise

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Keep the run, and those that it calls, from making a further model or tool call until `go_on`.

        What is under way ends, and is recorded. `pause_runs` pauses all of an agent, a tenant or a task queue.
        """
        await pause_runs(self._client, runs=[self.id], reason=reason, by=by)

    @abstractmethod
    async def status(self) -> RunStatus:
        """Return where the run stands, with what waits for a person in the runs that it has called."""

    async def _decide(self, **decision: Any) -> None:
        try:
            with run_not_found(self._chain):
                await send_decision(self._chain, decision, self._voucher)
        except ApprovalError as error:
            waiting = (await self.status()).pending_approvals if error.kind == "unknown" else ()
            elsewhere = next((each for each in waiting if each.run_id and each.call_id == decision["call_id"]), None)
            if elsewhere is None:
                raise
            run = elsewhere.run_id or self.id
            how = ways_to_settle(run, elsewhere)[0]
            raise ApprovalError(
                f"{error}. One of that id waits in the run {run!r}, which this one has called, and is decided there: "
                f"run.called({run!r}), or {how}",
                kind=error.kind,
                pending=[elsewhere],
            ) from None

    async def _send(self, send: Callable[[WorkflowHandle[Any, Any]], Awaitable[Sent]]) -> Sent:
        """Send something to the link that the run is at, which may change meanwhile."""
        with run_not_found(self._chain):
            return await self._chain.at_current(send)


T = TypeVar("T", default=Any)


class RunHandle(Controls, Generic[T]):
    """Follows, steers and reads one run: that run, also when a later one is given its id.

    `start_run` gives the handle on the run that it has started. That of `get_run` speaks of the latest run of the id at
    its first call, and stays with it.

    Every call raises `RunNotFound` when there is no such run. Those that read the run also raise `ConfigurationError`
    when a part of it is stored where this process can't look, and `NondeterminismError` when its history must be
    replayed and another version of perdure has made it. While the server does not answer, those that read the run's
    events, messages or result wait for it and say so in the log; the others raise `RPCError` after some seconds.
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
        self._voucher = voucher
        self._client = client
        self._chain = chain or Chain(client, id, origin, is_of_run=True)
        self._log = RunLog(self._chain)
        self._status = StatusReader(self._chain)
        self._patience = Patience(client)

    async def result(self) -> RunResult[T]:
        """Wait for the run's end and return its result: with `output_type`, its output is of that, unless it is raw.

        Raises a `RunError` with the conversation when the run ended without one: failed, cancelled or terminated; it is
        an `OutputError` when the output is not of that type.
        """
        with run_not_found(self._chain):
            try:
                output = await self._patience(self._output)
            except WorkflowFailureError as failure:
                cause = failure.cause
                raise await self._patience(lambda: error_of_end(self._chain, self._status, cause)) from failure
            result = await self._patience(lambda: complete_result(self._chain, output))
        return typed_result(result, output, **self._types)

    async def _output(self) -> RunOutput:
        """Return what the workflow returns, from whatever link it does so."""
        find = partial(self._client.get_workflow_handle, self.id, result_type=RunOutput)
        output: RunOutput = await self._chain.at_current(lambda link: find(run_id=link.run_id).result())
        return output

    def called(self, id: str, first_run_id: str | None = None) -> RunHandle:
        """Handle on a run that this one has called, by its id: `RunEvent.run_id`, `PendingApproval.run_id`."""
        return RunHandle(self._client, id, origin=first_run_id, voucher=self._voucher)

    async def events(self, after: int | str = 0, *, children: bool = False) -> list[RunEvent]:
        """Events after the one with that `seq` or `position`: those so far of an open run, all of a closed one.

        With `children`, those of the runs that it has called are among them; they have a `run_id`. Raises ValueError
        when `after` is neither.
        """
        if children:
            return await events_with_children(self, after)
        cursor = Cursor(after)
        with run_not_found(self._chain):
            await self._patience(self._log.refresh)
        return [seen for event in self._log.events_after(cursor.seq) for seen in cursor.recorded_news(event)]

    async def stream(self, after: int | str = 0, *, children: bool = False) -> AsyncIterator[RunEvent]:
        """Yield the events after the one with that `seq` or `position`, as they come, until the terminal one.

        With `children`, those of the runs that it has called come among them; see `events`.

        With `RunOptions.stream`, `token` and `thinking` events come while the model writes; they have the `seq` that
        their recorded event will have, and a `position` in the middle of the text. `text_reset` says that the model
        begins its text anew. Raises ValueError when `after` is neither.
        """
        with run_not_found(self._chain):
            source = (
                stream_with_children(self, after) if children else watch(self._chain, self._log, self._patience, after)
            )
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    def stream_output(self) -> AsyncIterator[Any]:
        """Yield the answer while the model writes it, then the checked output that `result` has.

        What is not whole yet is JSON, an object or a list as far as it goes, or a text where the agent has no
        `outputs`; it begins anew where the model does. Needs `RunOptions.stream`. Raises like `result`.
        """
        from .partial_output import partial_outputs

        return partial_outputs(self.stream(), self.result, lambda: self._log.link.input.agent.outputs)

    async def fork(
        self,
        at: int,
        *,
        steer: str | None = None,
        model: str | None = None,
        agent: Agent | str | PathLike[str] | None = None,
        options: RunOptions | Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        id: str | None = None,
        id_reuse_policy: WorkflowIDReusePolicy | None = None,
    ) -> RunHandle[T]:
        """Start a new run with the conversation as it stood before iteration `at` (from 1), repeating nothing.

        The run may be open or closed; after the end, `at` may be one more than its last iteration. `steer` is appended
        as a user's message. `model` is another model's id, or `PROVIDER/ID`. `agent` replaces the agent, with new
        instructions where they differ; `inputs` are for its prompt. `options` are fields that differ. Task queue,
        inputs, tenant and memo stay; limits and counts begin anew; what waits for a person is not carried over.

        Raises ValueError for an iteration that the run does not have or the namespace does not keep any more,
        ConfigurationError for an agent without a tool that the conversation has called, what `start_run` raises, and
        pydantic's ValidationError for options that there are not.
        """
        fields = RunOptions.model_validate(options or {}).model_dump(exclude_unset=True)
        with run_not_found(self._chain):
            fork = await fork_of(self._chain, at, Changes(steer, model, agent, fields, inputs))
        start = StartOptions(**{**fork.start, "id_reuse_policy": id_reuse_policy})
        more: dict[str, Any] = {"task_queue": fork.task_queue, "id": id, "options": fork.options}
        started = await start_workflow(self._client, fork.agent, fork.inputs, start, messages=fork.messages, **more)
        return RunHandle(self._client, started.id, origin=started.origin, **self._types)

    async def fork_of(self) -> ForkOf | None:
        """Return the run that this one is a fork of, and before which iteration; None for any other run."""
        with run_not_found(self._chain):
            return await fork_origin(await self._chain.describe())

    async def export(self, *, children: bool = True, events: bool = True) -> AsyncIterator[JsonObject]:
        """Everything that is recorded of the run, as objects of which each is a line of JSONL (`perdure docs export`).

        It has no secrets. Works on open runs too; with `children`, the lines of the runs that it has called are among
        them. One link of the run is in memory at a time.
        """
        with run_not_found(self._chain):
            async with aclosing(export_lines(self._chain, children=children, events=events)) as lines:
                async for line in lines:
                    yield line

    async def trace(self, *, content: bool | None = None, children: bool = True) -> list[ReadableSpan]:
        """Run as OpenTelemetry spans in the order in which they began (`perdure docs traces`), open runs too.

        `content` adds messages, arguments and results, without secrets; None asks the environment, as live tracing
        does. `children` adds the runs that this one has called.
        """
        from ..trace.content import captures_content
        from ..trace.rebuild import rebuild

        shown = captures_content() if content is None else content
        with run_not_found(self._chain):
            return await self._patience(lambda: rebuild(self._chain, content=shown, children=children))

    async def agent_name(self) -> str:
        """Return the name of the agent that runs, as Temporal shows it."""
        with run_not_found(self._chain):
            memo = await (await self._patience(self._chain.describe)).memo()
        return str(memo.get("agent", ""))

    async def messages(self) -> list[Message]:
        """Return the complete conversation, including what was trimmed from the model's view."""
        with run_not_found(self._chain):
            return await self._patience(lambda: complete_messages(self._chain, self._log))

    async def iteration_usage(self) -> list[Usage]:
        """Return the usage of each model call so far, in order: the histories have it, the result only the sum."""
        with run_not_found(self._chain):
            return await usage_of_calls(self._client, await self._patience(self._chain.last))

    async def actions(self) -> RunActions:
        """Return what the run takes on Temporal Cloud so far, as its histories show it (`perdure docs cost`)."""
        from .reading.actions import actions_of

        with run_not_found(self._chain):
            return await actions_of(self._chain)

    async def tool_result(self, call_id: str, *, iteration: int | None = None) -> ToolResult:
        """Result of one tool call, whole, also where the conversation has it shortened; works on closed runs too.

        Models reuse ids: without `iteration`, it is the last call of that id. Raises `UnknownCallError`, which names
        the calls that have results, when there is no such call, or no result of it yet.
        """
        with run_not_found(self._chain):
            return await self._patience(lambda: whole_result(self._chain, self._log, call_id, iteration))

    async def status(self) -> RunStatus:
        """Return where the run stands: the workflow's own answer or, when no worker gives one, what the history says.

        What waits for a person in the runs that it has called is listed too: it is decided there (`called`).
        """
        with run_not_found(self._chain):
            return await status_with_children(self, await self._status.read())
