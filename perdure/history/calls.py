"""Model calls and tool calls of a run, in order, with their executions and their messages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, FailureError

from ..agents import Model
from ..conversation import Append, Conversation, ConversationRef, Operation, Rewrite
from ..json_types import JsonObject
from ..loop.state import CORRECTION
from ..messages import Message, ModelReply, ToolCall, ToolResult
from ..protocol import activities, names
from ..protocol.outcome import RunOutput
from ..tool_calls import PreparedRun
from .events import (
    InputFields,
    RecordedActivity,
    RecordedChild,
    Times,
    decode,
    error_of,
    is_refusal,
)
from .link import CONVERSATION_ACTIVITIES, RecordedLink

ToResult = Callable[[Any], ToolResult]
"""Makes a tool result of the answers of foreign activities and workflows, and of other agents."""

ExecutedBy = Literal["tool", "local", "agent", "other"]
"""A tool of perdure's worker, as an activity or a local activity; another agent's run; foreign code
on Temporal."""


@dataclass
class ModelCall:
    """One attempt of an iteration's model call."""

    iteration: int
    number: int
    """From 1; the loop retries after some failures."""
    with_tools: bool
    operations: list[Operation]
    """Changes of the conversation since the attempt before it."""
    messages: int
    """Number of messages in the conversation."""
    times: Times
    reply: ModelReply | None = None
    fallback: int = 0
    """Position of the called model in the agent's `fallback`, from 1; 0 for the agent's own
    model."""
    failure: JsonObject | None = None
    """The reason for the missing reply; also None while the call is open."""
    model: Model | None = None
    """The model that the run has switched to, called instead of all these."""


@dataclass
class Execution:
    """Execution of a tool call."""

    by: ExecutedBy
    times: Times
    arguments: JsonObject | None = None
    """The arguments, after guardrails and people; None if the history does not have them."""
    payloads: Sequence[Payload] | None = None
    """The result; None before it, and after a failure."""
    refused: bool = False
    """Whether it ended because all workers lacked it or its requirements, and none had begun it."""
    outcome_unknown: bool = False
    """Whether it ended without a result although a worker may have begun it."""
    count: int = 1
    """Number of executions, repeated after failures."""
    run: tuple[str, str] | None = None
    """The child workflow: its id, and the run id of its first link."""


@dataclass
class CallOutcome:
    """One tool call of the model, and its outcome."""

    iteration: int
    index: int
    call: ToolCall
    execution: Execution | None = None
    """None for a call that was not executed: refused, denied, answered by a person, cancelled."""
    result: ToolResult | None = None
    """The whole result; None before it."""
    shown_to_model: ToolResult | None = None
    """The result as the model saw it; None before that."""


_CALL = re.compile(r"(?:.*/)?(\d+)[.-](\d+)(?:\..*)?", re.DOTALL)
"""The ids of foreign activities and of children: iteration and index."""


def call_key(step: RecordedActivity | RecordedChild, workflow_id: str) -> tuple[int, int] | None:
    """Return iteration and index of a call that foreign code executes for this run; None for any
    other id.
    """
    id = step.id
    if isinstance(step, RecordedChild):
        if not id.startswith(f"{workflow_id}/"):
            return None
        id = id.removeprefix(workflow_id)
    found = _CALL.fullmatch(id)
    return (int(found[1]), int(found[2])) if found else None


def answers_call(activity: RecordedActivity) -> bool:
    """Return whether the activity's result may be a tool call's."""
    return activity.is_tool or activity.type == activities.FINISH_CALL


def executed_by(step: RecordedActivity | RecordedChild) -> ExecutedBy:
    """Return the executor of a tool call, by its record."""
    if isinstance(step, RecordedChild):
        return "agent" if step.type == names.WORKFLOW else "other"
    return "local" if step.is_local else "tool" if answers_call(step) else "other"


async def decoded_result(
    client: Client, by: ExecutedBy, payloads: Sequence[Payload], to_result: ToResult
) -> ToolResult | None:
    """Return the result of a call. None for an activity that only prepared a run, or whose call
    another system or a person's answer finishes. Raises like `decode`.
    """
    match by:
        case "agent":
            return to_result((await decode(client, payloads, RunOutput)).output)
        case "other":
            return to_result(await decode(client, payloads, object) if payloads else "")
        case _:
            prepared = await decode(client, payloads, PreparedRun)
            if prepared.messages is not None or prepared.later or prepared.needs:
                return None
            return ToolResult.model_validate(prepared.model_dump(exclude={"messages", "inputs"}))


class _Round:
    """Tool calls of one reply, with the known facts of each."""

    def __init__(self, iteration: int = 0, calls: Sequence[ToolCall] = ()) -> None:
        self.iteration = iteration
        self._calls = calls
        self._steps: dict[int, list[RecordedActivity | RecordedChild]] = {}
        """The executions of each call, by its index in the reply."""
        self._arguments: dict[int, JsonObject] = {}
        self._local: list[RecordedActivity] = []
        """The history has only the tool's name of these."""
        self._shown: list[ToolResult] = []
        """In the order of the calls."""

    def take_results(self, messages: Sequence[Message]) -> None:
        """Take the results from messages added to the conversation."""
        for message in messages:
            if message.role == "tool" and len(self._shown) < len(self._calls):
                status = message.metadata.get("status", "success")
                result = ToolResult.model_validate({"parts": message.parts, "status": status})
                result.error_kind = message.metadata.get("error_kind")
                result.outcome_unknown = bool(message.metadata.get("outcome_unknown"))
                self._shown.append(result)

    async def add(
        self, client: Client, workflow_id: str, step: RecordedActivity | RecordedChild
    ) -> None:
        """Take a step of the link, if it executes a call of this round. Raises like `decode`."""
        if isinstance(step, RecordedActivity) and answers_call(step):
            if step.is_local:
                self._local += [step] if step.result is not None else []
            elif (
                request := (await step.input_fields(client)).request
            ) and request.iteration == self.iteration:
                self._arguments[request.index] = request.arguments
                self._steps.setdefault(request.index, []).append(step)
        elif (key := call_key(step, workflow_id)) and key[0] == self.iteration:
            # Earlier steps only prepared it.
            self._steps[key[1]] = [step]
            if isinstance(step, RecordedActivity):
                self._arguments.pop(key[1], None)

    async def outcomes(self, client: Client, to_result: ToResult) -> list[CallOutcome]:
        """Return all calls, with their results. Raises like `decode`."""
        found = []
        for index, call in enumerate(self._calls):
            shown = self._shown[index] if index < len(self._shown) else None
            steps = self._steps.get(index) or await self._local_of(client, call, shown)
            execution = (
                await _execution(client, steps, self._arguments.get(index)) if steps else None
            )
            result = await _result(client, execution, shown, to_result)
            found.append(CallOutcome(self.iteration, index, call, execution, result, shown))
        return found

    async def _local_of(
        self, client: Client, call: ToolCall, shown: ToolResult | None
    ) -> list[RecordedActivity]:
        """Return the local execution of the call: the one with its result, or the only one of its
        tool.
        """
        own = [each for each in self._local if each.type == f"{activities.TOOL_PREFIX}{call.name}"]
        is_only = len(own) == 1 == sum(each.name == call.name for each in self._calls)
        for activity in own:
            result = await decode(client, activity.result or (), ToolResult)
            if is_only or (shown is not None and result.text == shown.text):
                self._local.remove(activity)
                return [activity]
        return []


async def _execution(
    client: Client, steps: Sequence[RecordedActivity | RecordedChild], arguments: JsonObject | None
) -> Execution:
    """Combine the executions of one call: the last one counts."""
    last = steps[-1]
    count = sum(
        not isinstance(step, RecordedActivity)
        or (step.type != activities.FINISH_CALL and not is_refusal(step.failure))
        for step in steps
    )
    execution = Execution(executed_by(last), last.times, arguments, last.result, count=count)
    execution.times.scheduled = steps[0].times.scheduled
    execution.times.refusals = sum(step.times.refusals for step in steps)
    if isinstance(last, RecordedChild):
        execution.run = (last.id, last.run_id)
    elif last.failure is not None:
        execution.refused = all([await _is_refusal(client, step.failure) for step in steps])
        execution.outcome_unknown = _may_have_begun(last, last.failure)
    return execution


async def _is_refusal(client: Client, failure: Failure | None) -> bool:
    """Return whether all workers lacked the activity and none had begun it, by the failure."""
    if failure is None or failure.application_failure_info.type != activities.NOT_HERE:
        return False
    error = await error_of(client, failure)
    lacking = error.details[0] if isinstance(error, ApplicationError) and error.details else None
    return isinstance(lacking, dict) and lacking.get("starts") == 0


def _may_have_begun(activity: RecordedActivity, failure: Failure) -> bool:
    if activity.state == "timed_out":
        return (
            failure.timeout_failure_info.timeout_type != TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
        )
    return activity.is_tool and failure.application_failure_info.type not in activities.NOT_EXECUTED


async def _result(
    client: Client, execution: Execution | None, shown: ToolResult | None, to_result: ToResult
) -> ToolResult | None:
    """Return the whole result if the history has it; otherwise the result as the model saw it."""
    if execution is None or execution.payloads is None:
        return shown
    try:
        return await decoded_result(client, execution.by, execution.payloads, to_result) or shown
    except Exception:
        if execution.by != "other":
            raise
        # Foreign answers may be unreadable here, by any converter; the model saw the result made
        # from them.
        return shown


async def failure_data(client: Client, failure: Failure) -> JsonObject:
    """Return the kind and the text of a recorded failure, with the provider's details."""
    error = await error_of(client, failure)
    if not isinstance(error, ApplicationError):
        kind = type(error).__name__.removesuffix("Error").lower()
        return {
            "kind": kind,
            "message": error.message if isinstance(error, FailureError) else str(error),
        }
    said: JsonObject = {"kind": error.type or "error", "message": error.message}
    if (
        error.type == activities.MODEL_ERROR
        and error.details
        and isinstance(error.details[0], dict)
    ):
        said |= {name: value for name, value in error.details[0].items() if value is not None}
    return said


class CallReader:
    """Reads a run link by link; keeps the conversation and the unfinished calls."""

    def __init__(self, client: Client, workflow_id: str, to_result: ToResult) -> None:
        self._client = client
        self._id = workflow_id
        self._to_result = to_result
        self._conversation: Conversation | None = None
        self._news: list[Operation] = []
        self._round = _Round()
        self._last = (0, 0)
        """Iteration and number of the last model attempt."""
        self._under_way: list[ModelCall] = []

    @property
    def version(self) -> int:
        """Version of the conversation read so far."""
        return self._conversation.version if self._conversation else 0

    async def read(self, link: RecordedLink) -> AsyncIterator[ModelCall | CallOutcome]:
        """Yield the calls of this link; links must come in order. Raises like `decode`.

        A tool call comes once the history has its consequences.
        """
        self._begin_link(link)
        for step in link.work.executions:
            if isinstance(step, RecordedActivity) and step.type in CONVERSATION_ACTIVITIES:
                for call in await self._calls_completed_by(step):
                    yield call
            else:
                await self._round.add(self._client, self._id, step)

    async def end(self, operations: Sequence[Operation]) -> list[ModelCall | CallOutcome]:
        """Return the remaining calls after the last link; `operations` are the changes not shown by
        any call.
        """
        self._apply(operations)
        return [*self._under_way, *await self._round.outcomes(self._client, self._to_result)]

    def take_news(self) -> list[Operation]:
        """Return the changes of the conversation since the last model call began, once."""
        news, self._news = self._news, []
        return news

    def _begin_link(self, link: RecordedLink) -> None:
        known = self._conversation.messages if self._conversation else None
        if known is not None:
            # After its last call, the previous link may have added messages that only this link's
            # beginning has.
            if link.seed[: len(known)] != known:
                self._apply([Rewrite(messages=list(link.seed))])
            elif rest := link.seed[len(known) :]:
                self._apply([Append(messages=list(rest))])
        begun = link.initial_conversation
        self._conversation = Conversation(begun.messages, version=begun.version)

    def _apply(self, operations: Sequence[Operation]) -> None:
        assert self._conversation is not None
        for operation in operations:
            self._conversation.apply(operation)
            self._news.append(operation)
            if isinstance(operation, Append):
                self._round.take_results(operation.messages)
        self._conversation.operations.clear()
        self._conversation.first_version = self._conversation.version

    def _follow(self, reference: ConversationRef) -> None:
        known = self.version - reference.base
        if 0 <= known < len(reference.operations):
            self._apply(reference.operations[known:])

    async def _calls_completed_by(
        self, activity: RecordedActivity
    ) -> list[ModelCall | CallOutcome]:
        """Return the calls completed by this activity: for a model call, the tool calls before it,
        and the call itself.
        """
        if activity.is_local:
            return []
        asked = await activity.input_fields(self._client)
        if asked.conversation is not None:
            self._follow(asked.conversation)
        if activity.type != activities.CALL_MODEL:
            return []
        called = await self._round.outcomes(self._client, self._to_result)
        call = await self._model_call(activity, asked)
        if call.reply or call.failure:
            return [*called, call]
        self._under_way.append(call)
        return [*called]

    async def _model_call(self, activity: RecordedActivity, asked: InputFields) -> ModelCall:
        """Read one attempt of a model call; its reply begins the next round."""
        iteration, number = self._last
        self._last = (asked.iteration, number + 1 if asked.iteration == iteration else 1)
        messages = len(self._conversation.messages) if self._conversation else 0
        news, times = self.take_news(), activity.times
        call = ModelCall(
            *self._last, asked.with_tools, news, messages, times, fallback=asked.fallback
        )
        call.model = None if asked.fallback else asked.model
        self._round = _Round()
        if activity.result is not None:
            call.reply = await decode(self._client, activity.result, ModelReply)
            self._round = _Round(call.iteration, call.reply.message.tool_calls)
        elif activity.failure is not None:
            call.failure = await failure_data(self._client, activity.failure)
        elif activity.state == "canceled":
            call.failure = {"kind": "cancelled", "message": "the run was cancelled"}
        return call


def end_of_round(operations: Sequence[Operation]) -> int:
    """Return the number of operations between two model calls that belong to the first one's
    iteration.

    These add the model's message, the results of its tools, and a correction of its answer. The
    following operations belong to the next iteration: steering messages, a trim, an input
    guardrail's rewrite.
    """
    for number, operation in enumerate(operations):
        if not (isinstance(operation, Append) and all(map(_ends_round, operation.messages))):
            return number
    return len(operations)


def steering_in(operations: Sequence[Operation]) -> list[str]:
    """Return the steering messages read between two model calls; `operations` are those between the
    calls.
    """
    later = operations[end_of_round(operations) :]
    added = [
        message
        for operation in later
        if isinstance(operation, Append)
        for message in operation.messages
    ]
    return [message.text for message in added if message.role == "user"]


def _ends_round(message: Message) -> bool:
    return message.role in ("assistant", "tool") or (
        message.role == "user" and message.text.startswith(CORRECTION)
    )
