"""What anybody may send to a workflow, and this worker may be unable to read: values of signals and updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from ..errors import ConfigurationError
from ..payloads.failures import Unparsed, Unread
from ..payloads.unpacking import MAX_READ_WEIGHT, reading_weight_of
from ..protocol.names import dropped_signal, skipped_signal

Value = TypeVar("Value", bound=BaseModel)
MAX_SHOWN_PROBLEMS = 5


class Received:
    """Reads the values of one workflow's signals and updates, which anybody may send.

    A value that this worker can't read, for want of a key or of a storage, is dropped. Another worker may be able to
    read it, and has to drop it too when it replays the history: a marker in the history says so. Where there is none,
    a worker has read the value, and one that can't leaves the task to it.

    What is too much for one workflow task to read is dropped in the same way, with a marker of its own. On a replay
    nothing is weighed: what has no marker was read.
    """

    def __init__(self) -> None:
        self._signals = 0
        self._count = 0
        self._task = -1
        self._left = 0

    def read_signal(
        self, arguments: Sequence[Any], type_: type[Value], *, weigh: Callable[[Payload, int], int] = reading_weight_of
    ) -> Value | None:
        """Return the one value that a signal should have; None, and a warning in the log, if it has something else.

        `weigh` says what a value counts of `MAX_READ_WEIGHT`, of which the second argument is left in this task.
        Raises `ConfigurationError`, which fails the workflow task, for what only another worker can read.
        """
        self._signals += 1
        is_replaying = workflow.unsafe.is_replaying()
        is_too_much = not is_replaying and not self._has_room_for(arguments, weigh)
        if (is_too_much or is_replaying) and workflow.patched(skipped_signal(self._signals)):
            workflow.logger.warning("a signal was dropped: there was too much to read at once")
            return None
        try:
            arguments = _parse(arguments)
        except Exception as error:  # Whatever a stranger's bytes lead to.
            workflow.logger.warning("a signal that is no JSON was dropped: %s", str(error)[:200])
            return None
        self._count += 1
        unread = unread_in(arguments)
        if (unread or is_replaying) and workflow.patched(dropped_signal(self._count)):
            why = unread or "the worker that got it could not read it"
            workflow.logger.warning("a signal without a readable %s was dropped: %s", type_.__name__, why)
            return None
        if unread:
            raise unread
        try:
            (value,) = arguments
            return type_.model_validate(value)
        except ValueError as error:
            workflow.logger.warning("a signal without a %s was dropped: %s", type_.__name__, _problem(error))
            return None

    def read_update(self, arguments: Sequence[Any], refused: Callable[[str], ApplicationError]) -> Sequence[Any]:
        """Values of an update. Raises `refused`, of the reason, for what this worker can't read, or not now.

        On a replay raises `ConfigurationError`, which fails the workflow task: the worker that has accepted the update
        could read it. What a validator has accepted is read, whatever it weighs.
        """
        if workflow.unsafe.is_read_only() and not self._has_room_for(arguments):
            raise refused("the run has too much to read at once: send less, or send it again later")
        try:
            arguments = _parse(arguments)
        except Exception as error:  # Whatever a stranger's bytes lead to.
            raise refused(f"the value can't be read: {str(error)[:200]}") from None
        if unread := unread_in(arguments):
            raise unread if workflow.unsafe.is_replaying() else refused(str(unread))
        return arguments

    def _has_room_for(self, arguments: Sequence[Any], weigh: Callable[[Payload, int], int] = reading_weight_of) -> bool:
        """Return whether this workflow task may read the values too, which then count."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._left = task, MAX_READ_WEIGHT
        sent = [value.payload for value in arguments if isinstance(value, Unparsed)]
        size = sum(payload.ByteSize() for payload in sent)
        if not sent or size > self._left:
            return not sent
        weight = sum(weigh(payload, self._left) for payload in sent)
        has_room = weight <= self._left
        self._left -= weight if has_room else size // 2  # To weigh it has taken time, too.
        return has_room


def weight_of_own_part(payload: Payload, limit: int) -> int:
    """Return what a part of a turn's conversation counts, by its size alone: fifteen parts of many small messages
    fit.
    """
    return 2 * payload.ByteSize()


def unread_in(arguments: Sequence[Any]) -> ConfigurationError | None:
    """Return why this worker can't read one of the values; None if it can read all."""
    return next((value.error for value in arguments if isinstance(value, Unread)), None)


def _parse(arguments: Sequence[Any]) -> list[Any]:
    return [value.parse(value.payload) if isinstance(value, Unparsed) else value for value in arguments]


def _problem(error: ValueError) -> str:
    many = isinstance(error, ValidationError) and error.error_count() > MAX_SHOWN_PROBLEMS
    return f"{error.error_count()} parts of it are wrong" if many else str(error)  # type: ignore[attr-defined]
