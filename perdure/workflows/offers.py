"""Re-offers a task to other workers when this one lacks a tool, guardrails, a compactor or a
feature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from .._version import __version__
from ..errors import RUN_ERRORS, ConfigurationError, RunError
from ..loop.effects import Cancelled
from ..payloads.encryption import EncryptionError
from ..protocol.activities import (
    ASKING_SECONDS,
    CONFIGURATION_ERROR,
    INVENTORY,
    NOT_HERE,
    InventoryInput,
    Offer,
)
from ..protocol.inventory import Inventory, Missing, MissingPart
from . import logging as log_lines
from .pauses import await_permission, unbegun_attempt
from .policies import LOST_WORKER_RETRIES, MARGIN, describe_failure
from .run_state import RunState
from .waiting import activity_result

Result = TypeVar("Result")
SECONDS_AFTER_A_HOLD = 10.0
"""After a hold, the missing thing is offered to all workers of the queue for at least this long."""
NOBODY_ELSE = (
    "Calls of {} cannot be approved: the approver must not be a requester of the run "
    "(notRequester), and no gateway has "
    "verified its requesters. Start the run through a gateway"
)
Start = Callable[[Offer | None], Awaitable[Result]]
"""Starts an activity and awaits it. Raises `ActivityError`."""


class Offers:
    """Asks any worker first and, if that one lacks something, all workers of the queue for
    `missing_tool_grace`.

    The first attempt costs nothing extra. In the second one, a worker that also lacks it refuses,
    and Temporal gives the activity to the next polling worker. That adds no event to the history.
    """

    def __init__(self, state: RunState, *, may_hold: bool = True) -> None:
        """`may_hold` allows holding the run for a missing thing instead of raising an error."""
        self._state = state
        self._may_hold = may_hold
        self._seconds = state.options.missing_tool_grace

    async def run(self, start: Start[Result], *, starts: int = 1) -> Result:
        """Return the result of the activity that `start` begins. Once it is offered to other
        workers, at most `starts` of them may begin it and be lost.

        Raises a `RunError` that names the missing thing when no worker has it, `ActivityError`, and
        `Cancelled` while the run is paused.
        """

        while True:
            try:
                return await start(None)
            except FailureError as error:
                failure = error
            try:
                return await self.run_elsewhere(failure, start, starts=starts)
            except FailureError as error:
                if (unbegun := unbegun_attempt(error)) is None:
                    raise
            await await_permission(self._state, unbegun)

    async def run_elsewhere(
        self, error: FailureError, start: Start[Result], *, starts: int = 1
    ) -> Result:
        """Return the result from another worker after the first one failed with `error`. Raises as
        `run` does; and the error, if that worker lacked nothing.
        """
        if (lacking := _lack_in(error)) is None:
            raise error
        return await self.offer(lacking, start, starts=starts)

    async def offer(self, lacking: MissingPart, start: Start[Result], *, starts: int = 1) -> Result:
        """Return the result from a worker that has what the first one lacked. Raises as `run` does,
        and `Cancelled` while the run is held for the missing thing.
        """
        while True:
            try:
                return await self._offer(lacking, start, starts)
            except RunError as error:
                if not self._may_hold or not self._state.is_held_for("tool"):
                    raise
                await self._state.hold(error, "tool")
                self._seconds = max(self._seconds, SECONDS_AFTER_A_HOLD)

    async def _offer(self, lacking: MissingPart, start: Start[Result], starts: int) -> Result:
        if not self._seconds:
            raise _error(lacking, lacking.text)
        with self._search(lacking):
            try:
                return await start(Offer(seconds=self._seconds, starts=starts))
            except ActivityError as error:
                still_lacking = _lack_in(error)
                if still_lacking is None:
                    raise
                text = (
                    f"No worker of the task queue {lacking.task_queue!r} had it for "
                    f"{self._seconds:g} s."
                )
                raise _error(lacking, f"{still_lacking.text}. {text}") from error

    @contextmanager
    def _search(self, lacking: MissingPart) -> Iterator[None]:
        # Not `workflow.info().task_queue`, which differs when a reader replays the run.
        queue = lacking.task_queue
        search = Missing(what=lacking.what, task_queue=queue, since=workflow.time())
        self._state.searches.append(search)
        log_lines.lacks(lacking, self._seconds)
        self._state.emit_status(
            f"Waiting for a worker of the task queue {queue!r} that has {', '.join(lacking.what)}"
        )
        try:
            yield
        finally:
            self._state.searches.remove(search)


async def take_inventory(state: RunState) -> Inventory:
    """Return a worker's inventory for the run's agent: tools, guardrails, compactor. Empty if the
    run is cancelled meanwhile.

    A local activity asks the worker that executes the workflow task. Ordinary activities follow
    only where that worker lacks something, or a kind of tool must query a server for its offer.
    Raises an `ApplicationError` that names the things missing on every worker, and `ActivityError`.
    """
    while True:
        try:
            return await _ask_for_inventory(state)
        except Cancelled:
            return Inventory()
        except FailureError as error:
            kind, text = describe_failure(error)
            if kind != CONFIGURATION_ERROR or not state.is_held_for("tool"):
                raise
            failure = RunError(text, kind=kind)
        try:
            await state.hold(failure, "tool")
        except Cancelled:
            return Inventory()


async def _ask_for_inventory(state: RunState) -> Inventory:
    beginning = None if state.input.carried else state.input
    return await _whole_inventory(state, InventoryInput(beginning=beginning))


async def _whole_inventory(state: RunState, input: InventoryInput) -> Inventory:
    inventory = await _first_answer(input)
    if inventory.is_final:
        return inventory
    ask = partial(_ask, state)
    state.inventory = Inventory(on_failure=inventory.on_failure, webhooks=inventory.webhooks)
    try:
        if inventory.lacking is None:
            inventory = await ask(None)
        return (
            inventory
            if inventory.lacking is None
            else await Offers(state).offer(inventory.lacking, ask)
        )
    except RunError as error:
        raise ApplicationError(str(error), type=error.kind) from error


async def take_inventory_again(state: RunState) -> Inventory:
    """Return the inventory of another version's worker for a run that continues there. If that
    worker lacks something or cannot answer, return the run's previous inventory.
    """
    try:
        found = await _first_answer(InventoryInput())
        if found.unasked and found.lacking is None:
            found = await _ask(state, None)
    except Cancelled:
        return state.inventory
    except FailureError as error:
        workflow.logger.warning(
            "the tools of this version's workers are unknown: %s", error.cause or error
        )
        return state.inventory
    return found if found.is_final else state.inventory


async def _first_answer(input: InventoryInput) -> Inventory:
    """Return the answer of the worker that executes the workflow task, without asking others."""
    found: Inventory = await workflow.execute_local_activity(
        INVENTORY,
        input,
        result_type=Inventory,
        start_to_close_timeout=MARGIN,
        retry_policy=LOST_WORKER_RETRIES,
    )
    return found


async def _ask(state: RunState, offer: Offer | None) -> Inventory:
    summary = "a worker with everything that the run needs" if offer else "what the tools offer"
    return await activity_result(
        state, INVENTORY, InventoryInput(offer=offer), Inventory, ASKING_SECONDS, summary
    )


def report_unavailable(state: RunState) -> None:
    """Emit the unavailable tools and further warnings about the run's tools."""
    unavailable = [
        f"The model is not offered {tool.name}: {tool.why}" for tool in state.inventory.unavailable
    ]
    restricted = [
        tool.name
        for tool in state.inventory.tools
        if tool.approvers and tool.approvers.not_requester
    ]
    is_unknown = restricted and state.requests is None
    undecidable = [NOBODY_ELSE.format(", ".join(restricted))] if is_unknown else []
    for text in [*unavailable, *state.inventory.notes, *undecidable]:
        state.emit_status(text)


_UNREAD = (EncryptionError.__name__, ConfigurationError.__name__)
"""Types of the causes when the SDK cannot decode an activity's input."""


def _lack_in(error: FailureError) -> MissingPart | None:
    """Return the thing that the activity's worker lacks; None if it failed for another reason."""
    cause = (
        error.cause if isinstance(error, ActivityError) else error
    )  # A local activity's error arrives unwrapped.
    if isinstance(cause, ApplicationError) and cause.type == NOT_HERE and cause.details:
        return MissingPart.model_validate(cause.details[0])
    unread = cause.cause if isinstance(cause, ApplicationError) and not cause.type else None
    if isinstance(unread, ApplicationError) and unread.type in _UNREAD:
        # Nothing was executed: the worker could not read its input.
        what, queue = ["the key, codec or storage of the run's values"], workflow.info().task_queue
        return MissingPart(what=what, kind="configuration", text=unread.message, task_queue=queue)
    return None


def _error(lacking: MissingPart, text: str) -> RunError:
    return RUN_ERRORS.get(lacking.kind, RunError)(text, kind=lacking.kind)


class NewerRunError(Exception):
    """The run uses a newer loop than this worker has.

    It fails the workflow task, not the run: it is not one of the workflow's
    `failure_exception_types`. Temporal then offers the task again, until a newer worker takes it.
    The SDK logs the text as a warning.
    """


def require_version(needed: int, known: int) -> None:
    """Raise `NewerRunError`, which names the run, if its loop version exceeds `known`."""
    if needed > known:
        info = workflow.info()
        raise NewerRunError(
            f"the run {info.workflow_id!r} (link {info.run_id}) needs version {needed} of the "
            "loop, and this worker "
            f"(perdure {__version__}) has version {known}: the run waits for a newer worker"
        )
