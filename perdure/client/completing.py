"""Completes a tool call that waits for another system, by its token."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..arguments import deeper_than
from ..errors import CompletionError, RunNotFound
from ..history.chain import Chain
from ..history.events import RecordedWork, decode
from ..payloads.converter import with_converter
from ..payloads.failures import require_sendable
from ..protocol.later import Completion, read_token
from ..protocol.names import COMPLETE
from ..redaction import redactor
from ..text import one_line, valid_json, valid_text
from .updates import MAX_LEVELS, RefusedUpdate, send

EARLY_SECONDS = 0.5
"""Pause before resending a completion that arrived before its tool returned."""
UNKNOWN = "no tool call waits for this token: the token is wrong, or the call's run has ended"
"""The same text for both cases, so that guessing tokens does not reveal which runs exist."""


async def complete_call(
    client: Client,
    token: str,
    result: Any = None,
    *,
    error: str | None = None,
    by: str | None = None,
) -> None:
    """Complete a tool call, by the token from `context.later()`, with a result or an error.

    The result is any JSON value within the size limit of tool results; the model receives an
    error's text. `by` names the sender. A call completes once: sending the same completion again
    succeeds and changes nothing.

    Raises `CompletionError` when the completion is not accepted, ValueError for both a result and
    an error, `PayloadTooLargeError` for a completion that does not fit into one message to
    Temporal, and `RPCError`.
    """
    if result is not None and error is not None:
        raise ValueError("a tool call is finished with a result or with an error, not with both")
    if deeper_than(result, MAX_LEVELS):
        raise CompletionError(
            f"the result is nested more than {MAX_LEVELS} levels deep", kind="too_large"
        )
    try:
        run_id, proof = read_token(token)
    except ValueError as none:
        raise CompletionError(str(none), kind="unknown") from none
    completion = Completion(
        proof=proof,
        value=valid_json(result),
        error=error if error is None else valid_text(error),
        by=by and valid_text(by),
    )
    completion = redactor().value(completion)
    client = with_converter(client)
    await require_sendable(client, completion, "The result of the tool call", lambda: "Give less")
    chain, early = Chain(client, run_id, is_of_run=True), False

    async def is_passing(kind: str) -> bool:
        nonlocal early
        if early := kind == "early":
            await asyncio.sleep(EARLY_SECONDS)
        return early

    try:
        await send(chain, COMPLETE, completion, uuid.uuid4().hex, is_passing=is_passing)
    except RunNotFound:
        raise CompletionError(UNKNOWN, kind="unknown") from None
    except RPCError as problem:
        if problem.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            raise
        raise CompletionError(UNKNOWN, kind="unknown") from None
    except RefusedUpdate as refusal:
        kind, text = refusal.kind or "unreadable", str(refusal)
        if kind == "ended":
            await _require_completed(chain, completion, text)
            return
        if kind == "unconfirmed" and early:
            kind, text = "early", "the tool that gave this token has not returned yet"
        elif kind == "unconfirmed":
            text = (
                f"the completion of the tool call is unconfirmed, because {text}. The server may "
                "still deliver it: start a worker, and send the same completion again"
            )
        raise CompletionError(text, kind=kind) from refusal


async def _require_completed(chain: Chain, completion: Completion, ended: str) -> None:
    """Raises `CompletionError` unless the last link of the ended run received the same
    completion.
    """
    link = await chain.describe()
    history = chain.handle(link.run_id).fetch_history_events()
    work = RecordedWork([event async for event in history])
    for update in reversed([each for each in work.updates if each.type == COMPLETE]):
        first = await decode(chain.client, update.input, Completion)
        if first.proof != completion.proof:
            continue
        if (first.value, first.error) == (completion.value, completion.error):
            return
        how = "a result" if first.error is None else f"the error {one_line(first.error, 200)!r}"
        by = f" by {one_line(first.by)}" if first.by else ""
        raise CompletionError(
            f"the tool call was finished{by} with {how} before, and {ended}", kind="completed"
        )
    raise CompletionError(UNKNOWN, kind="unknown")
