"""How a run ended without a result, as the error that its caller gets."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError
from temporalio.workflow import NondeterminismError

from ...errors import RUN_ERRORS, OutputError, RunCancelled, RunError
from ...history.chain import Chain, cancel_reason
from ...messages import Message
from ...payloads.encryption.problems import ENCRYPTION_ERROR
from ...payloads.storage.missing import STORAGE_ERROR
from ...protocol.outcome import RunFailure
from .conversation import conversation_at_end
from .status import StatusReader

UNREADABLE = (STORAGE_ERROR, ENCRYPTION_ERROR)
"""The types of the errors for values that are lost, changed or refused."""


async def error_of_end(chain: Chain, status: StatusReader, cause: BaseException) -> RunError:
    """How the run ended, as an error with its conversation, as far as that can be read; `cause` is Temporal's.

    Raises what `Chain.last` and `StatusReader.read` raise.
    """
    try:
        return await _complete_error(chain, status, cause)
    except (ApplicationError, NondeterminismError) as error:
        # A reader that is less strict than the worker was would not have refused what the worker did.
        seen = cause if isinstance(error, NondeterminismError) else error
        if not isinstance(cause, ApplicationError) or getattr(seen, "type", None) not in UNREADABLE:
            raise
        # What was said in the run is lost, in a storage or to whoever changed it: its last error is all that is left.
        kind = cause.type or "failed"
        return RUN_ERRORS.get(kind, RunError)(cause.message, kind=kind)


async def _complete_error(chain: Chain, status: StatusReader, cause: BaseException) -> RunError:
    link, id = await chain.last(), chain.workflow_id
    messages = await conversation_at_end(chain.client, id, link)
    if isinstance(cause, ApplicationError) and cause.details:
        return _failed(cause.message, RunFailure.model_validate(cause.details[0]), messages)
    iterations = (await status.read()).model_calls
    if isinstance(cause, CancelledError):
        reason = await cancel_reason(chain.client, link)
        text = f"The run {id!r} was cancelled" + (f": {reason}" if reason else "")
        return RunCancelled(text, reason=reason, messages=messages, iterations=iterations)
    return RunError(f"The run {id!r} ended: {cause}", kind=_kind_of(cause), messages=messages, iterations=iterations)


def _failed(text: str, failure: RunFailure, messages: list[Message]) -> RunError:
    error_type = RUN_ERRORS.get(failure.kind, RunError)
    error = error_type(text, kind=failure.kind, reason=failure.reason, messages=messages, iterations=failure.iterations)
    if isinstance(error, OutputError):
        error.text = next((message.text for message in reversed(messages) if message.role == "assistant"), "")
    return error


def _kind_of(cause: BaseException) -> str:
    kinds: dict[type, str] = {TerminatedError: "terminated", TimeoutError: "timed_out"}
    return next((kind for type_, kind in kinds.items() if isinstance(cause, type_)), "failed")
