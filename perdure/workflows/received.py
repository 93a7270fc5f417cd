"""What anybody may send to a workflow, and this worker may be unable to read: values of signals and updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from ..errors import ConfigurationError
from ..payloads.unread import Unread

Value = TypeVar("Value", bound=BaseModel)


class Signals:
    """Reads the values of one workflow's signals, which anybody may send.

    A value that this worker can't read, for want of a key or of a storage, is dropped. Another worker may be able to
    read it, and has to drop it too when it replays the history: a marker in the history says so. Where there is none,
    a worker has read the value, and one that can't leaves the task to it.
    """

    def __init__(self) -> None:
        self._count = 0

    def understood(self, arguments: Sequence[Any], type_: type[Value]) -> Value | None:
        """The one value that a signal should have; None, and a warning in the log, if it has something else.

        Raises `ConfigurationError`, which fails the workflow task, for what only another worker can read.
        """
        self._count += 1
        unread = unread_in(arguments)
        if (unread or workflow.unsafe.is_replaying()) and workflow.patched(f"perdure-dropped-signal-{self._count}"):
            why = unread or "the worker that got it could not read it"
            workflow.logger.warning("a signal without a readable %s was dropped: %s", type_.__name__, why)
            return None
        if unread:
            raise unread
        try:
            (value,) = arguments
            return type_.model_validate(value)
        except ValueError as error:
            workflow.logger.warning("a signal without a %s was dropped: %s", type_.__name__, error)
            return None


def unread_in(arguments: Sequence[Any]) -> ConfigurationError | None:
    """Why this worker can't read one of the values; None if it can read all."""
    return next((value.error for value in arguments if isinstance(value, Unread)), None)


def require_read(arguments: Sequence[Any], refused: Callable[[str], ApplicationError]) -> None:
    """Raises `refused`, of the reason, for an update that this worker can't read.

    On a replay raises `ConfigurationError`, which fails the workflow task: the worker that has accepted the update
    could read it.
    """
    if error := unread_in(arguments):
        raise error if workflow.unsafe.is_replaying() else refused(str(error))
