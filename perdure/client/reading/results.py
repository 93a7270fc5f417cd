"""The result or error of a run, its conversation, and the results of its tool calls."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from temporalio.client import Client
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.workflow import NondeterminismError

from ...conversation import Operation
from ...errors import (
    RUN_ERRORS,
    LimitExceededError,
    OutputError,
    RunCancelled,
    RunError,
    RunNotFound,
)
from ...history.chain import Chain, cancel_reason, closing_tail
from ...history.link import RecordedLink
from ...history.results import read_result
from ...history.transcript import Transcript
from ...messages import Message, ToolResult
from ...payloads.encryption.keys import ENCRYPTION_ERROR
from ...payloads.storage.files import STORAGE_ERROR
from ...protocol.outcome import RunFailure, RunOutput, RunResult
from ...tool_results import STORED
from ...tools.results import to_result
from ...trace.replay import NOT_REPLAYED
from ..output_type import typed_output
from .log import RunEvents, replay
from .status import StatusReader

logger = logging.getLogger("perdure")


async def complete_messages(chain: Chain, log: RunEvents) -> list[Message]:
    """Return every message of the run, including trimmed ones.

    An open run is read through `log`, which has messages that no history has yet. Raises `RPCError`
    when there is no such run, and like `replay`.
    """
    transcript: Transcript | None = None
    async for link in chain.links():
        if link.is_open:
            await log.refresh()
            return list(log.transcript.messages)
        if transcript is None:
            transcript = Transcript(link.seed)
        else:
            transcript.begin_link(link.seed)
        conversation = link.conversation()
        transcript.follow(conversation.operations)
        if link.next_run_id is None:
            transcript.follow(await _last_operations(chain, link, conversation.version))
    return transcript.messages if transcript else []


async def _last_operations(chain: Chain, link: RecordedLink, version: int) -> Sequence[Operation]:
    """Return the changes of the conversation at the end of the run's last link since `version`."""
    if tail := await closing_tail(chain.client, link):
        return tail.operations
    run = await replay(chain.workflow_id, link.history, chain.client.data_converter)
    return run.operations_since(version)


async def conversation_at_end(
    client: Client, workflow_id: str, link: RecordedLink
) -> list[Message]:
    """Return the conversation that the model would see next; `link` is an ended run's last one.

    If its end can't be read, logs that, and returns the recorded part.
    """
    tail = await closing_tail(client, link)
    conversation = link.conversation()
    if tail is not None:
        conversation.follow(tail)
        return conversation.messages
    try:
        return (await replay(workflow_id, link.history, client.data_converter)).conversation
    except NOT_REPLAYED as error:
        # Another version of perdure made this history, or the run failed before it began.
        logger.warning("the end of the conversation of %s can't be read: %s", workflow_id, error)
    return conversation.messages


async def complete_result(chain: Chain, output: RunOutput) -> RunResult[Any]:
    """Return the result of a successful run. Raises like `Chain.last` and `conversation_at_end`."""
    messages = await _conversation(chain, output)
    return RunResult[Any](
        output=output.output,
        iterations=output.iterations,
        messages=messages,
        usage=output.usage,
        agent=output.agent,
        cost_usd=output.cost_usd,
        unpriced_calls=output.unpriced_calls,
        is_incomplete=output.is_incomplete,
        cut_short=output.cut_short,
        unread_steering=[
            message.text for message in messages[len(messages) - output.unread_steering :]
        ],
    )


async def _conversation(chain: Chain, output: RunOutput) -> list[Message]:
    if output.messages is not None:
        return output.messages
    return await conversation_at_end(chain.client, chain.workflow_id, await chain.last())


UNREADABLE = (STORAGE_ERROR, ENCRYPTION_ERROR)
"""The error types of lost, changed or refused values."""


async def error_of_end(chain: Chain, status: StatusReader, cause: BaseException) -> RunError:
    """Return the error of a run, with its conversation if that can be read; `cause` is Temporal's.

    Raises like `Chain.last` and `StatusReader.read`.
    """
    try:
        return await _complete_error(chain, status, cause)
    except (ApplicationError, NondeterminismError) as error:
        # The reader may be less strict than the worker was.
        seen = cause if isinstance(error, NondeterminismError) else error
        if not isinstance(cause, ApplicationError) or getattr(seen, "type", None) not in UNREADABLE:
            raise
        # The conversation is lost or changed: only the run's last error remains.
        kind = cause.type or "failed"
        return RUN_ERRORS.get(kind, RunError)(cause.message, kind=kind)


async def _complete_error(chain: Chain, status: StatusReader, cause: BaseException) -> RunError:
    link, id = await chain.last(), chain.workflow_id
    messages = await conversation_at_end(chain.client, id, link)
    if isinstance(cause, ApplicationError) and cause.details:
        return _failure_error(cause.message, RunFailure.model_validate(cause.details[0]), messages)
    iterations = (await status.read()).model_calls
    if isinstance(cause, CancelledError):
        reason = await cancel_reason(chain.client, link)
        text = f"The run {id!r} was cancelled" + (f": {reason}" if reason else "")
        return RunCancelled(text, reason=reason, messages=messages, iterations=iterations)
    return RunError(
        f"The run {id!r} ended: {cause}",
        kind=_kind_of(cause),
        messages=messages,
        iterations=iterations,
    )


def _failure_error(text: str, failure: RunFailure, messages: list[Message]) -> RunError:
    error_type = RUN_ERRORS.get(failure.kind, RunError)
    error = error_type(
        text,
        kind=failure.kind,
        reason=failure.reason,
        messages=messages,
        iterations=failure.iterations,
    )
    if isinstance(error, LimitExceededError):
        error.option = failure.option
    if isinstance(error, OutputError):
        error.text = next(
            (message.text for message in reversed(messages) if message.role == "assistant"), ""
        )
    return error


def _kind_of(cause: BaseException) -> str:
    kinds: dict[type, str] = {TerminatedError: "terminated", TimeoutError: "timed_out"}
    return next((kind for type_, kind in kinds.items() if isinstance(cause, type_)), "failed")


async def whole_result(chain: Chain, call_id: str, iteration: int | None) -> ToolResult:
    """Return the whole result of a tool call. Raises `UnknownCallError`, and like `read_result` and
    `replay`.
    """
    return await read_result(
        chain.client,
        chain.workflow_id,
        (await chain.describe()).run_id,
        call_id,
        iteration=iteration,
        to_result=partial(to_result, limits=STORED),
        last_operations=partial(_last_operations, chain),
    )


_HAS_ENDED = "already completed"


@contextmanager
def run_not_found(chain: Chain) -> Iterator[None]:
    """Raise `RunNotFound` where the block raises Temporal's "not found"."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise RunNotFound(_not_found_text(chain, error)) from error


def _not_found_text(chain: Chain, error: RPCError) -> str:
    if _HAS_ENDED in error.message:
        return f"the run {chain.workflow_id!r} has ended: it takes no more messages"
    client = chain.client
    return (
        f"there is no run {chain.workflow_id!r} in the namespace {client.namespace!r} of the "
        f"server at {client.service_client.config.target_host} ({error.message}). Expected an id "
        "that `perdure ls` lists"
    )


def typed_result(
    result: RunResult[Any],
    output: RunOutput,
    output_type: Any,
    later_types: Mapping[str, Any] | None,
) -> RunResult[Any]:
    """Return the result, with its output as a value of its type, if there is one. Raises as
    `typed_output` does.

    After a handoff, that is the type of the agent's path in `later_types`, if these are known.
    """
    if output.handed_to and later_types is not None:
        output_type = later_types.get(output.handed_to)
    if output_type is not None and not output.raw:
        result.output = typed_output(result, output_type)
    return result
