"""The options of a run."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
)

from .messages import unless_none
from .webhooks import MAX_WEBHOOKS, Webhook, read_webhooks

MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years: Temporal's timers reach some hundred years, and nothing infinite."""
MIN_SECONDS = 0.001
"""The least time-out of a tool: Temporal ignores a time-out that rounds to 0 in its unit."""
MAX_USD = 1e9
DEFAULT_ANSWER_BYTES = 16 * 1024 * 1024


def _is_none(value: object) -> bool:
    return value is None


class RunOptions(BaseModel):
    """The options of a run (§13.7). Durations are in seconds, sizes in characters unless they say
    bytes.
    """

    model_config = ConfigDict(extra="forbid")

    max_iterations: int = Field(default=10, ge=1)
    """The most model calls that may complete; then `on_limit` decides (§9.1)."""
    max_llm_retries: int = Field(default=3, ge=1)
    """The most attempts of one model call, including the first (§9.10)."""
    context_budget: int | None = Field(default=None, gt=0)
    """The most characters to send to the model; by default all (§13.3)."""
    trim_to: float = Field(default=0.6, gt=0, le=1)
    """The share of `context_budget` that trimming leaves, system messages not counted. A smaller
    share trims less often, which prompt caches need; 1.0 trims no more than necessary (§13.3)."""
    keep_messages: int = Field(default=2, ge=2)
    """Always send at least this many of the last messages, system messages not counted
    (`context_budget`)."""
    parallel_tool_calls: bool = False
    """Whether the tool calls of one reply run at the same time (§13.6)."""
    max_parallel_tools: int = Field(default=100, ge=1, le=1000)
    """The most tool calls at the same time; Temporal allows 2,000 pending activities of one run."""
    raw: bool = False
    """Whether the output is the provider's own response, unchecked, even if the agent's file has
    outputs."""
    turn: int | None = None
    """The number of this turn of a conversation, for its trace (§14): shown with the run and with
    each model call."""
    stream: bool = False
    """Whether watchers see the model's text and thinking while it writes; an output guardrail
    judges them first."""
    guardrails: str | None = None
    """The name of guardrails that are registered on the worker; by default none."""
    compactor: str | None = None
    """The name of a compactor that is registered on the worker; by default the built-in summary
    (§13.3)."""
    prepare_tools: str | None = unless_none()
    """The name of a function that is registered on the worker, and chooses before each model call
    the tools offered to the model; by default all."""
    instructions_by: str | None = unless_none()
    """The name of a function registered on the worker that returns instructions at the beginning of
    a run or a turn."""
    instructions_replaced: bool = Field(default=False, exclude_if=operator.not_)
    """Whether these replace the agent's own; otherwise they follow them."""
    tool_timeout: float = Field(default=30.0, gt=0, le=MAX_SECONDS)
    """The time-out of one execution of a tool without a time-out of its own."""
    llm_timeout: float = Field(default=600.0, gt=0, le=MAX_SECONDS)
    """The time-out of one attempt of a model call."""
    retry_base_seconds: float = Field(default=2.0, ge=0, le=MAX_SECONDS)
    """The wait before the first retry of a model call. It doubles with each retry, up to a
    minute."""
    rate_limit_seconds: float = Field(default=300.0, ge=0, le=MAX_SECONDS)
    """The total time that one model call may wait for rate limits. Such waits do not count as
    attempts."""
    missing_tool_grace: float = Field(default=60.0, ge=0, le=MAX_SECONDS)
    """How long a run is offered to other workers if one lacks a tool, guardrails or a compactor
    that it needs."""
    cancel_grace: float = Field(default=30.0, ge=0, le=MAX_SECONDS)
    """How long a running tool may continue after the run was cancelled."""
    max_answer_bytes: int = Field(default=DEFAULT_ANSWER_BYTES, ge=1, le=1 << 40)
    """The most bytes of one answer of the model, decompressed; a longer one fails the call."""
    on_failure: Literal["fail", "hold"] | None = unless_none()
    """The reaction to a failure that waiting may fix (a provider's limit, a refused key, a missing
    tool or server, a budget): fail, or hold the run until a person resumes it. By default the
    worker's owner decides, else it fails (§9.10)."""
    output_retries: int = Field(default=2, ge=0)
    """How often to send back an answer that does not fit the file's outputs; then the run fails."""
    on_limit: Literal["raise", "partial", "final_answer"] = "raise"
    """The reaction to a limit: fail, return a partial result, or call the model once more without
    tools."""
    unknown_tools: Literal["recover", "raise"] = "recover"
    """The reaction to a call of an unknown tool: return a result that lists the known ones, or fail
    (§9.9)."""
    max_total_tokens: int | None = Field(default=None, gt=0)
    """Stop calling the model after this many tokens; by default there is no limit."""
    max_tool_calls: int | None = Field(default=None, gt=0)
    """Stop calling the model after this many tool calls."""
    max_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    """Stop calling the model after this time, waits included."""
    max_cost_usd: float | None = Field(default=None, gt=0, le=MAX_USD)
    """Stop calling the model after this cost in US dollars; the prices of the models must be
    known."""
    tool_protocol: Literal["native", "json", "auto"] = "native"
    """How the model calls tools: by its API; by JSON in its text, for models without native tool
    calls (KAOS's two phases); or by its API until the provider refuses tools."""
    limit_message: str | None = None
    """With `on_limit="partial"`, the output at a limit, with `{max_iterations}` replaced; by
    default perdure's own text."""
    progress: bool = False
    """Whether to emit an event "progress" before each tool call (`perdure docs kaos`)."""
    max_result: int | None = Field(default=None, ge=1)
    """The most bytes of a tool's result that the model reads, for tools without a limit of their
    own."""
    max_depth: int = Field(default=5, ge=0, le=8)
    """The most levels of called agents below this run."""
    lost_worker_seconds: float | None = Field(default=None, ge=1, le=3600, exclude_if=_is_none)
    """The time after which a worker counts as lost; by default 5, on Temporal Cloud 30. A call that
    lasts four fifths of it sends a heartbeat, which costs an Action there."""
    stream_seconds: float | None = Field(default=None, ge=0.05, le=60, exclude_if=_is_none)
    """The interval between updates of the model's and the tools' text for watchers; by default 0.1,
    on Temporal Cloud 1."""

    webhooks: list[Webhook] = Field(default=[], max_length=MAX_WEBHOOKS, exclude_if=operator.not_)
    """The webhooks to notify when the run waits for a person, is held, or ends: URLs, or objects
    that select the events and name the workers' variable with the signing secret (`perdure docs
    waiting`)."""

    @field_validator("webhooks", mode="before")
    @classmethod
    def _accept_urls(cls, given: Any) -> Any:
        return read_webhooks(given) if given else []


def options_of(given: RunOptions | Mapping[str, Any] | None) -> RunOptions:
    """Return the options; a mapping has some of their fields. Raises ValidationError."""
    return RunOptions.model_validate(given or {})


CHANGED_BY_GO_ON = (
    *(
        "max_iterations",
        "max_total_tokens",
        "max_tool_calls",
        "max_seconds",
        "max_cost_usd",
    ),
    *(
        "max_llm_retries",
        "retry_base_seconds",
        "rate_limit_seconds",
        "missing_tool_grace",
        "on_failure",
    ),
    *("context_budget", "keep_messages"),
)
"""The options that may change when a held run is resumed. The workflow alone reads these: workers
read the recorded ones."""


class HeartbeatIntervals(NamedTuple):
    """The two settings that decide the cost of running and watching an agent, in seconds."""

    lost_worker_seconds: float
    stream_seconds: float


OWN_SERVER_INTERVALS = HeartbeatIntervals(lost_worker_seconds=5.0, stream_seconds=0.1)
"""For a self-hosted server, where a request costs nothing."""
CLOUD_INTERVALS = HeartbeatIntervals(lost_worker_seconds=30.0, stream_seconds=1.0)
"""For Temporal Cloud, where each heartbeat is an Action."""


def heartbeat_intervals(options: RunOptions) -> HeartbeatIntervals:
    """Return the cadence of a run."""
    return HeartbeatIntervals(
        options.lost_worker_seconds or OWN_SERVER_INTERVALS.lost_worker_seconds,
        options.stream_seconds or OWN_SERVER_INTERVALS.stream_seconds,
    )
