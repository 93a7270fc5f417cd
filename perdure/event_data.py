"""The data of each event type (`perdure docs events`), for readers and for those who emit events."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

from .json_types import JsonObject, JsonView
from .messages import CutShort, Message


class RestrictedData(TypedDict, total=False):
    deciders: JsonObject
    """Who may decide (`approval` in the agent's file), where not everybody may."""


class PermissionRequestedData(RestrictedData):
    name: str
    arguments: JsonObject
    kind: str
    """`approval`, or `question`: then `arguments` has its text."""
    reason: str | None
    """Why a person is asked, if the tool or a guardrail has said so."""
    deadline: float | None
    """When it is denied by itself, in seconds since the epoch; None for never."""
    choices: list[str]
    """The answers that a question suggests, or allows."""
    description: str | None
    schema: JsonObject | None
    """The JSON Schema that edited arguments must fit; None where that is not known."""
    digest: str
    """Identifies the call with these arguments: `approve(digest=…)`."""


class VouchedData(TypedDict, total=False):
    vouched: list[JsonObject]
    """Who has decided, as a gateway vouches for it: name, tenant, roles, the key's id, and when."""


class PermissionCompletedData(VouchedData):
    name: str
    approved: bool
    by: str | None
    """Who decided; without `vouched`, as far as they said."""
    reason: str | None
    arguments: JsonObject | None
    """What ran in place of the model's arguments; None where nothing was edited."""
    answer: str | None
    """To a question; None where it was not answered, and for approvals."""
    digest: str
    """Of the call, as in `permission_requested`."""


class PermissionVoteData(TypedDict):
    """One of several who have to agree has approved."""

    name: str
    vote: JsonObject
    """Name, tenant, roles, the key's id, when; `arguments` or `answer`, as an approval has them."""
    votes: int
    """So many have approved the same by now, of `count` who have to."""
    count: int
    digest: str


class PermissionEscalatedData(TypedDict):
    """Nobody has decided in time: a further role is asked to."""

    name: str
    to: str
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
    "cost_warning",
    "permission_requested",
    "permission_vote",
    "permission_escalated",
    "permission_completed",
    "held",
    "went_on",
    "slept",
    "handoff",
]
NotWhole = Literal["cut_short", "paused"]
OnStale = Literal["tell", "go_on", "hold", "fail"]
HoldReason = Literal["rate_limit", "credentials", "server", "context", "tool", "budget", "paused", "stale"]
"""Why a run is held (`perdure docs holding`)."""


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
    """The id of the run that the tool call has started."""
    first_run_id: str
    """Temporal's id of that run's first link, which tells it from a later run of the same id."""


class ToolProgressData(TypedDict):
    name: str
    callId: str
    done: float
    total: float | None
    text: str


class UnusualResultData(TypedDict, total=False):
    isShortened: bool
    """The model reads less than the tool returned, which `RunHandle.tool_result` gives."""
    size: int
    """How many bytes of text the tool returned."""
    isDenied: bool
    """A guardrail or a person has denied the call."""
    isCancelled: bool
    """The run was cancelled before the call was executed, or while it was."""
    outcomeUnknown: bool
    """The call may have taken effect although this is no success."""


class ToolResultData(UnusualResultData):
    name: str
    result: str
    """As the model reads it."""


class StatusReason(TypedDict, total=False):
    reason: str
    """Why a model call is made again: what its last attempt failed of."""


class StatusData(StatusReason):
    message: str


class LoggedMessagesUpdatedData(TypedDict):
    """As logs keep it: without the messages, which the conversation's version stands for."""


class MessagesUpdatedData(LoggedMessagesUpdatedData):
    messages: list[Message]


class LoggedDoneData(TypedDict):
    """As logs keep it: without the messages."""

    response: str
    cutShort: NotRequired[CutShort]


class DoneData(LoggedDoneData):
    messages: list[Message]


class ErrorData(TypedDict):
    message: str


class CancelledData(TypedDict):
    pass


class HeldData(TypedDict):
    """The run does nothing more until somebody lets it go on, or cancels it."""

    reason: HoldReason
    kind: str
    """Of the error with which the run would have failed."""
    message: str
    option: str | None
    """The field of `RunOptions` whose limit is reached; None for another reason."""


class WentOnData(TypedDict):
    """Somebody has let the held run go on."""

    by: str | None
    """Who, as far as they said."""
    options: JsonObject
    """The fields of `RunOptions` that have changed."""
    model: str | None
    """The model that is called from now on, as `PROVIDER/ID`; None for the same."""


class SleptData(TypedDict):
    """No worker took the run up for longer than `RunOptions.stale_after`."""

    seconds: float
    then: OnStale
    """What the run does now (`RunOptions.on_stale`)."""


class HandoffData(TypedDict):
    """From its next model call on, the run is another agent."""

    name: str
    """Of the agent, as the tool `transfer_to_NAME` has it."""
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
    """`RunOptions.turn`, where it is set."""
    tools: list[str]
    """The tools that the model is offered, where a function decides that (`RunOptions.prepare_tools`)."""


class CountedData(TypedDict):
    """What each model call counts."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cache_write_tokens: int


class UsageData(CountedData, total=False):
    """The fields of `Usage`."""

    cache_write_1h_tokens: int
    """Absent where it is 0, as the next one."""
    lost_tokens: int


class AnsweredData(TypedDict, total=False):
    model: str
    """Where the agent has a `fallback`: which model has answered, as `PROVIDER/ID`."""
    lostAttempts: int
    """How many attempts were lost together with their workers, after they had asked the model."""
    text: str
    """With `stream=True`: what the model has said before the tools that it asks for (§9.3)."""
    ended: NotWhole  # Absent for a reply that is whole.


class LlmCompleteData(AnsweredData):
    usage: UsageData
    finishReason: str | None
    costUsd: float | None
    """What the call has cost, in US dollars; None where its price is not known."""


class ModelFallbackData(TypedDict):
    """A model has failed for good, and another one is called in its place from now on."""

    failed: str
    """As `PROVIDER/ID`, as `model` is."""
    kind: str
    """Of the failure, such as `quota_exhausted`."""
    message: str
    model: str


class ProviderToolData(TypedDict):
    """What the provider has executed itself during a model call (`kind: provider`)."""

    name: str
    id: str
    status: str
    details: JsonObject
    """What the provider says of it, such as the query of a web search; long values are cut."""


class CostWarningData(TypedDict):
    """Of the event that comes once, when a run has cost `warn_cost_usd`."""

    costUsd: float
    """So far, with the runs that it has called."""
    warnCostUsd: float
    maxCostUsd: float | None
    """`RunOptions.max_cost_usd`, at which the run ends; None for no limit."""


class ProgressData(TypedDict):
    """Before a tool is executed, with `RunOptions.progress`: the whole of KAOS's progress block."""

    type: str
    """`progress`."""
    step: int
    """Which of the model calls in which the model may act has asked for it, from 1."""
    max_steps: int
    """`RunOptions.max_iterations`."""
    action: str
    """`tool_call`, or `delegate` where the tool is another agent."""
    target: str
    """The name of the tool or, without `delegate_to_`, of the agent."""


LoggedData = JsonView
"""What a run emits: one of the types above. To two of them the reader adds the messages. `text_reset` is the reader's
own, and `tool_progress` is told live alone."""

EVENT_DATA: Mapping[EventType, type] = MappingProxyType(
    {type: globals()[f"{type.title().replace('_', '')}Data"] for type in get_args(EventType)}
)
"""Event type → the type of its data, as a reader sees it: a `tool_result` has `ToolResultData`."""
