"""The data of each event type (`perdure docs events`), for readers and emitters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

from .json_types import JsonObject, JsonView
from .messages import CutShort, Message


class RestrictedData(TypedDict, total=False):
    approvers: JsonObject
    """The people who may decide (`approval` in the agent's file), unless everybody may."""


class PermissionRequestedData(RestrictedData):
    name: str
    arguments: JsonObject
    kind: str
    """`approval`, or `question`: then `arguments` has its text."""
    reason: str | None
    """The reason to ask a person, if the tool or a guardrail gave one."""
    deadline: float | None
    """When it is denied automatically, in seconds since the epoch; None for never."""
    choices: list[str]
    """The answers that a question suggests, or allows."""
    description: str | None
    schema: JsonObject | None
    """The JSON Schema that edited arguments must fit; None if unknown."""
    digest: str
    """Identifies the call with these arguments: `approve(digest=…)`."""


class VouchedData(TypedDict, total=False):
    vouched: list[JsonObject]
    """The approvers, as signed by a gateway: name, tenant, roles, the key's id, and the time."""


class PermissionCompletedData(VouchedData):
    name: str
    approved: bool
    by: str | None
    """The approver; without `vouched`, an unverified claim."""
    reason: str | None
    arguments: JsonObject | None
    """The arguments that ran instead of the model's; None if they were not edited."""
    answer: str | None
    """The answer to a question; None without an answer, and for approvals."""
    digest: str
    """The call's digest, as in `permission_requested`."""


class PermissionVoteData(TypedDict):
    """One of several required approvers has approved."""

    name: str
    vote: JsonObject
    """Name, tenant, roles, the key's id, time; `arguments` or `answer`, as in an approval."""
    votes: int
    """The number of equal approvals up to now, of `count` required ones."""
    count: int
    digest: str


EventType = Literal[
    "token",
    "thinking",
    "text_reset",
    "tool_call_start",
    "child_started",
    "tool_progress",
    "progress",
    "tool_result",
    "status",
    "messages_updated",
    "done",
    "error",
    "cancelled",
    "failed",
    "compaction_start",
    "compaction_complete",
    "compaction_failed",
    "llm_start",
    "llm_complete",
    "model_fallback",
    "provider_tool",
    "permission_requested",
    "permission_vote",
    "permission_completed",
    "held",
    "went_on",
    "handoff",
]
NotWhole = Literal["cut_short", "paused"]
HoldReason = Literal["rate_limit", "credentials", "server", "context", "tool", "budget", "paused"]
"""The reason why a run is held (`perdure docs waiting`)."""


class TokenData(TypedDict):
    token: str


class ThinkingData(TypedDict):
    token: str


class TextResetData(TypedDict):
    pass


class ToolCallStartData(TypedDict):
    name: str
    arguments: str
    """JSON text, as the model wrote it."""


class ChildStartedData(TypedDict):
    name: str
    run_id: str
    """The id of the run that the tool call started."""
    first_run_id: str
    """The run id of that run's first link, which distinguishes it from a later run of the same
    id."""


class ToolProgressData(TypedDict):
    name: str
    callId: str
    done: float
    total: float | None
    text: str


class UnusualResultData(TypedDict, total=False):
    isShortened: bool
    """The model reads a part of the tool's result; `RunHandle.tool_result` returns all of it."""
    size: int
    """The bytes of text that the tool returned."""
    isDenied: bool
    """A guardrail or a person denied the call."""
    isCancelled: bool
    """The run was cancelled before or during the call's execution."""
    outcomeUnknown: bool
    """The call may have taken effect although it did not succeed."""


class ToolResultData(UnusualResultData):
    name: str
    result: str
    """In the form for the model."""


class StatusReason(TypedDict, total=False):
    reason: str
    """The reason for another attempt: the failure of the last one."""


class StatusData(StatusReason):
    message: str


class LoggedMessagesUpdatedData(TypedDict):
    """The form in logs: without the messages, which the conversation's version represents."""


class MessagesUpdatedData(LoggedMessagesUpdatedData):
    messages: list[Message]


class LoggedDoneData(TypedDict):
    """The form in logs: without the messages."""

    response: str
    cutShort: NotRequired[CutShort]


class DoneData(LoggedDoneData):
    messages: list[Message]


class ErrorData(TypedDict):
    message: str


class CancelledData(TypedDict):
    pass


class HeldData(TypedDict):
    """The run waits until a person resumes or cancels it."""

    reason: HoldReason
    kind: str
    """The kind of the error with which the run would have failed."""
    message: str
    option: str | None
    """The field of `RunOptions` whose limit is reached; None for another reason."""


class WentOnData(TypedDict):
    """A person resumed the held run."""

    by: str | None
    """The person, if given."""
    options: JsonObject
    """The changed fields of `RunOptions`."""
    model: str | None
    """The model from now on, as `PROVIDER/ID`; None for the same."""


class HandoffData(TypedDict):
    """From its next model call on, the run is another agent."""

    name: str
    """The agent's name, as in the tool `transfer_to_NAME`."""
    reason: str
    """The model's reason; "" for none."""


class FailedData(TypedDict):
    kind: str
    message: str


class CompactionStartData(TypedDict):
    pass


class CompactionCompleteData(TypedDict):
    removed: int
    remaining: int


class CompactionFailedData(TypedDict):
    message: str


class LlmStartData(TypedDict, total=False):
    turn: int
    """`RunOptions.turn`, if it is set."""
    tools: list[str]
    """The tools offered to the model, if a function chooses them (`RunOptions.prepare_tools`)."""


class CountedData(TypedDict):
    """The counts of each model call."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cache_write_tokens: int


class UsageData(CountedData, total=False):
    """The fields of `Usage`."""

    cache_write_1h_tokens: int
    """Absent if it is 0, like the next one."""
    lost_tokens: int


class AnsweredData(TypedDict, total=False):
    model: str
    """If the agent has a `fallback`: the model that answered, as `PROVIDER/ID`."""
    lostAttempts: int
    """The number of attempts lost together with their workers, after they had called the model."""
    text: str
    """With `stream=True`: the model's text before its tool calls (§9.3)."""
    ended: NotWhole  # Absent for a complete reply.


class LlmCompleteData(AnsweredData):
    usage: UsageData
    finishReason: str | None
    costUsd: float | None
    """The call's cost, in US dollars; None if its price is unknown."""


class ModelFallbackData(TypedDict):
    """A model failed for good, and another one replaces it from now on."""

    failed: str
    """As `PROVIDER/ID`, like `model`."""
    kind: str
    """The kind of the failure, such as `quota_exhausted`."""
    message: str
    model: str


class ProviderToolData(TypedDict):
    """A tool call that the provider itself executed during a model call (`kind: provider`)."""

    name: str
    id: str
    status: str
    details: JsonObject
    """The provider's details, such as the query of a web search; long values are cut."""


class ProgressData(TypedDict):
    """Emitted before a tool is executed, with `RunOptions.progress`: the whole of KAOS's progress
    block.
    """

    type: str
    """`progress`."""
    step: int
    """The number of the model call that asked for it, of those in which the model may act, from
    1."""
    max_steps: int
    """`RunOptions.max_iterations`."""
    action: str
    """`tool_call`, or `delegate` if the tool is another agent."""
    target: str
    """The name of the tool or, without `delegate_to_`, of the agent."""


LoggedData = JsonView
"""The data that a run emits: one of the types above. The reader adds the messages to two of them.
`text_reset` comes from the reader, and `tool_progress` is only sent live."""

EVENT_DATA: Mapping[EventType, type] = MappingProxyType(
    {type: globals()[f"{type.title().replace('_', '')}Data"] for type in get_args(EventType)}
)
"""Event type → the type of its data for readers: a `tool_result` has `ToolResultData`."""
