"""What a history records of one call: the try of a model call, and a tool call with its execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, FailureError

from ..json_types import JsonObject
from ..messages import ModelReply, ToolCall, ToolResult
from ..operations import Operation
from ..protocol.activities import MODEL_ERROR, NOT_HERE

ExecutedBy = Literal["tool", "local", "agent", "other"]
"""A tool of perdure's worker, as an activity or as a local one; another agent's run; what others have on Temporal."""


@dataclass
class Times:
    """When something happened, in seconds since the epoch; None for what has not, or was not recorded."""

    scheduled: float | None = None
    started: float | None = None
    """The attempt that ended it."""
    ended: float | None = None
    attempts: int = 0
    """How often it was started, as far as the history says: lost workers count, too."""
    worker: str | None = None
    """Who executed the last attempt."""


@dataclass
class ModelCall:
    """One try of the model call of an iteration."""

    iteration: int
    number: int
    """From 1; the loop tries again after some failures."""
    with_tools: bool
    operations: list[Operation]
    """How the conversation has changed since the try before it."""
    messages: int
    """How many the conversation had."""
    times: Times
    reply: ModelReply | None = None
    fallback: int = 0
    """Which model of the agent's `fallback` was called, from 1; 0 for its own."""
    failure: JsonObject | None = None
    """Why there is no reply; None, too, while the call is under way."""


@dataclass
class Execution:
    """How a tool call was executed."""

    by: ExecutedBy
    times: Times
    name: str = ""
    arguments: JsonObject | None = None
    """With which it was, after guardrails and persons; None where the history does not say."""
    payloads: Sequence[Payload] | None = None
    """The result; None as long as there is none, or after a failure."""
    refused: bool = False
    """Whether it has ended because no worker had it, or what it needs, and none had begun with it before."""
    outcome_unknown: bool = False
    """Whether it has ended without a result although a worker may have begun with it."""
    refused_before: bool = True
    """Whether the executions before it were refused, if there were any."""
    count: int = 1
    """How often it was executed because it had failed."""
    run: tuple[str, str] | None = None
    """The child workflow: its id, and the run id of its first link."""


@dataclass
class Called:
    """One tool call of the model, and what became of it."""

    iteration: int
    index: int
    call: ToolCall
    execution: Execution | None = None
    """None for a call that was not executed: refused, denied, answered by a person, cancelled."""
    result: ToolResult | None = None
    """Whole; None as long as there is none."""
    told: ToolResult | None = None
    """What the model was told; None as long as it was not."""


def seconds(moment: Timestamp) -> float | None:
    """The time in seconds since the epoch; None for one that is not set."""
    return moment.ToNanoseconds() / 1e9 if moment.seconds else None


async def was_refused(client: Client, failure: Failure) -> bool:
    """Whether the failure says that no worker had the activity, and that none had begun with it."""
    if failure.application_failure_info.type != NOT_HERE:
        return False
    error = await client.data_converter.decode_failure(failure)
    lacking = error.details[0] if isinstance(error, ApplicationError) and error.details else None
    return isinstance(lacking, dict) and lacking.get("starts") == 0


async def failure_data(client: Client, failure: Failure) -> JsonObject:
    """The kind and the text of a recorded failure, and what a provider said with it."""
    error = await client.data_converter.decode_failure(failure)
    if not isinstance(error, ApplicationError):
        kind = type(error).__name__.removesuffix("Error").lower()
        return {"kind": kind, "message": error.message if isinstance(error, FailureError) else str(error)}
    said: JsonObject = {"kind": error.type or "error", "message": error.message}
    if error.type == MODEL_ERROR and error.details and isinstance(error.details[0], dict):
        said |= {name: value for name, value in error.details[0].items() if value is not None}
    return said
