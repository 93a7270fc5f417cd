"""Passes the approvals and questions of an awaited run, and of the runs that it calls, to a
caller's functions.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError

from ..commands import ways_to_settle
from ..errors import ApprovalError, PayloadTooLargeError, RunNotFound
from ..json_types import JsonObject, JsonView
from ..text import one_line, visible
from ..tool_calls import Approval, PendingApproval
from ..tools.signature import is_async
from ..tools.threads import end_in_thread
from ..workflows.agent_run import AgentRun
from ..workflows.approvals import Approvals
from ..workflows.interceptors import RunObserver
from .handle import RunHandle

logger = logging.getLogger("perdure")

Decision = bool | str | JsonView | Approval | None
"""True approves, a mapping approves with other arguments. False denies, and so does a text, which
is the reason. None leaves the call waiting for another person.
"""
Approve = Callable[[PendingApproval], Decision | Awaitable[Decision]]
Answer = Callable[[PendingApproval], str | Approval | None | Awaitable[str | Approval | None]]
"""The text answers the question; None leaves it open."""

DENIED = "denied by the caller"
_MOOT = ("decided", "stale", "unknown", "ended")
"""Kinds of refusals after which the call no longer needs this decision."""
_SHOWN_CHARACTERS = 500


class Persons(RunObserver[AgentRun]):
    """Asks about each call once. It is an interceptor of the worker that executes the runs, and
    learns of the calls there.

    Create it on the caller's event loop: async functions run there, plain ones in threads. If a
    function raises, or the run does not accept the decision, the call is denied. Without a
    function, or without a decision, the log has the command to type.
    """

    def __init__(self, client: Client, approve: Approve | None, answer: Answer | None) -> None:
        self._client = client
        self._approve = approve
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._told: set[tuple[str, int, str, str]] = set()
        self._deciding: set[asyncio.Task[None]] = set()

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        run.approvals.listen(partial(self._ask_for, info.workflow_id, run.approvals))

    def _ask_for(self, run_id: str, approvals: Approvals) -> None:
        for pending in approvals.pending_approvals:
            with suppress(RuntimeError):  # The caller's loop was closed: the caller has left.
                self._loop.call_soon_threadsafe(self._ask, run_id, pending)

    @asynccontextmanager
    async def attend(self) -> AsyncIterator[None]:
        """Ask while the block runs; a question still open at its end stays open."""
        try:
            yield
        finally:
            for task in self._deciding:
                task.cancel()
            if self._deciding:
                await asyncio.wait(self._deciding)

    def _ask(self, run_id: str, pending: PendingApproval) -> None:
        place = (run_id, pending.iteration, pending.call_id, pending.digest)
        if place in self._told:
            return
        self._told.add(place)
        task = self._loop.create_task(self._ask_and_decide(run_id, pending))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)

    async def _ask_and_decide(self, run_id: str, pending: PendingApproval) -> None:
        function = self._answer if pending.kind == "question" else self._approve
        decision = None if function is None else await _decision(function, pending)
        if decision is None:
            _say_who_waits(run_id, pending)
            return
        run = RunHandle(self._client, run_id)
        try:
            await _decide(run, pending, decision)
        except (ApprovalError, PayloadTooLargeError) as refusal:
            if getattr(refusal, "kind", "") in _MOOT:
                return
            logger.error("the decision about %s was not accepted: %s", pending.name, refusal)
            with suppress(ApprovalError, RunNotFound):
                await run.deny(
                    pending.call_id,
                    f"the decision was not accepted: {refusal}",
                    digest=pending.digest,
                )
        except RunNotFound:
            pass
        except RPCError as error:
            logger.error("the decision about %s was not sent: %s", pending.name, error)
            _say_who_waits(run_id, pending)


async def _decision(function: Callable[..., Any], pending: PendingApproval) -> Approval | None:
    """Return the function's decision; a denial when it fails."""
    try:
        if is_async(function):
            value = await function(pending)
        else:
            value = (await end_in_thread(partial(function, pending), "perdure-decision")).result()
            if inspect.isawaitable(value):
                value = await value
        return decision_of(value, pending)
    except Exception as error:
        logger.exception(
            "deciding about the call of tool %r has failed, so it is denied", pending.name
        )
        return Approval(approved=False, reason=f"no decision was possible: {type(error).__name__}")


def decision_of(value: Any, pending: PendingApproval) -> Approval | None:
    """Return the decision for a function's value. Raises TypeError for a value that is not a
    decision.
    """
    match value:
        case None | Approval():
            return value
        case str() if pending.kind == "question":
            return Approval(approved=True, answer=value)
        case bool() if pending.kind == "approval":
            return Approval(approved=value, reason=None if value else DENIED)
        case str():
            return Approval(approved=False, reason=value)
        case Mapping() if pending.kind == "approval":
            return Approval(approved=True, arguments=dict(value))
    expected = (
        "a text"
        if pending.kind == "question"
        else "True, False, a text (why not), or a mapping of arguments"
    )
    raise TypeError(
        f"{value!r:.80} is not a decision about a {pending.kind}: expected {expected}, or None"
    )


async def _decide(run: RunHandle, pending: PendingApproval, decision: Approval) -> None:
    call: JsonObject = {"digest": pending.digest, "by": decision.by}
    if not decision.approved:
        await run.deny(pending.call_id, decision.reason or DENIED, **call)
    elif decision.answer is not None:
        await run.answer(pending.call_id, decision.answer, **call)
    else:
        await run.approve(pending.call_id, arguments=decision.arguments, **call)


def _say_who_waits(run_id: str, pending: PendingApproval) -> None:
    if pending.kind == "question":
        asked = visible(one_line(pending.question or "", _SHOWN_CHARACTERS))
        what, argument = f"answers the question {asked!r}", "answer"
    else:
        call = f"{pending.name} with {json.dumps(pending.arguments, ensure_ascii=False)}"
        what, argument = (
            f"approves the call of {visible(one_line(call, _SHOWN_CHARACTERS))}",
            "approve",
        )
    logger.warning(
        "the run %s waits until a person %s:\n  %s\nIn Python, invoke_agent(%s=…) is a function "
        "that decides",
        run_id,
        what,
        "\n  ".join(ways_to_settle(run_id, pending)),
        argument,
    )
