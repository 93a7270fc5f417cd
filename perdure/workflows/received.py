"""Reads the values of signals and updates, which anybody may send and this worker may be unable to
read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from ..arguments import deeper_than
from ..errors import ConfigurationError
from ..payloads.failures import Unparsed, Unread, size_of
from ..payloads.unpacking import MAX_READ_WEIGHT, reading_weight_of
from ..protocol.names import dropped_signal, postponed_signal
from ..text import one_line
from .history_size import MAX_HISTORY_BYTES

Value = TypeVar("Value", bound=BaseModel)
Refused = Callable[[str, str], ApplicationError]
MAX_SHOWN_PROBLEMS = 5
POSTPONED_BYTES = 512 * 1024
"""One workflow task reads this much of the postponed values, and at least one value. Changing it
changes the commands of recorded histories.
"""
MAX_POSTPONED_BYTES = 32 * 1024 * 1024
"""Limit of the waiting values, which is more than one turn adds to a conversation."""
MAX_WEIGHT_ALONE = MAX_READ_WEIGHT * 3 // 2
"""Limit of a value that a workflow task reads alone."""
MAX_LEVELS = 100
"""The depth of nesting in edited arguments, and in the result from another system."""
LARGE_BYTES = 64 * 1024
"""Smaller values always have room in a run's history."""
PAUSE_SECONDS = 0.01
"""Pause between two tasks that read postponed values."""


class Received:
    """Reads the values of one workflow's signals and updates, which anybody may send.

    A worker that lacks the key or the storage for a value drops it. Another worker may be able to
    read the value, and must drop it too when it replays the history: a marker in the history
    records this. Without a marker, a worker has read the value, and a worker that can't read it
    fails the task for another one.

    Values too large for one workflow task are dropped in the same way or postponed, each with a
    separate kind of marker. A replay weighs nothing: a value without a marker was read.
    """

    def __init__(self, part_bytes: int = 0) -> None:
        """`part_bytes` is the weight of each part of a value, in addition to its reading weight."""
        self._part_bytes = part_bytes
        self._signals = 0
        self._task = -1
        self._left = 0
        self._postponed: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def has_postponed(self) -> bool:
        """Return whether postponed signals are still unread."""
        return bool(self._postponed)

    def read_signal(self, arguments: Sequence[Any], type_: type[Value]) -> Value | None:
        """Return the single value of a signal. For any other content, return None and log a
        warning.

        Raises `ConfigurationError`, which fails the workflow task, for a value that only another
        worker can read.
        """
        self._signals += 1
        if self._is_dropped(arguments, lambda: not self._has_room_for(arguments)):
            return None
        return self._value_now(arguments, type_)

    def pass_on_signal(
        self, arguments: Sequence[Any], type_: type[Value], take: Callable[[Value], None]
    ) -> None:
        """Pass the result of `read_signal` to `take`: now or, if it is too large for this task, in
        a later one.

        Keeps the order of the signals. Raises as `read_signal` does.
        """
        self._signals += 1
        if self._is_dropped(arguments, lambda: self._is_never_read(arguments)):
            return

        def read() -> None:
            if (value := self._value_now(arguments, type_)) is not None:
                take(value)

        if not self._is_postponed(arguments):
            read()
            return
        self._postponed.append((_bytes_in(arguments), read))
        if len(self._postponed) == 1:
            self._reading = asyncio.create_task(self._read_postponed())

    async def _read_postponed(self) -> None:
        """Read the postponed values in order: `POSTPONED_BYTES` a task, or one larger value."""
        while self._postponed:
            await workflow.sleep(PAUSE_SECONDS, summary="reads what came with too much else")
            left = POSTPONED_BYTES
            while self._postponed and (left == POSTPONED_BYTES or self._postponed[0][0] <= left):
                size, read = self._postponed[0]
                read()
                self._postponed.popleft()
                left -= size

    def read_update(self, arguments: Sequence[Any], refused: Refused) -> Sequence[Any]:
        """Return the values of an update. Raises `refused`, called with a kind and a reason:
        `unreadable` for a value that this worker can't read, `crowded` for one that it has no time
        to read now.

        On a replay raises `ConfigurationError`, which fails the workflow task: the worker that
        accepted the update could read it. A value that a validator accepted is read, regardless of
        its weight.
        """
        if workflow.unsafe.is_read_only() and not self._has_room_for(arguments):
            if self._weight_of(arguments, MAX_READ_WEIGHT) > MAX_READ_WEIGHT:
                raise refused("unreadable", "the value has too many parts to be read: send less")
            raise refused("crowded", "there is too much to read at once: send it again later")
        try:
            arguments = _parse(arguments)
        except Exception as error:  # Whatever a stranger's bytes lead to.
            raise refused("unreadable", f"the value can't be read: {str(error)[:200]}") from None
        if unread := unread_in(arguments):
            raise unread if workflow.unsafe.is_replaying() else refused("unreadable", str(unread))
        return arguments

    def _is_dropped(self, arguments: Sequence[Any], is_too_much: Callable[[], bool]) -> bool:
        """Return whether the signal is dropped, which a marker records: it is too much, or this
        worker can't read it. Raises the reason on a replay of a worker that could read it.
        """
        unread = unread_in(arguments)
        if is_recorded(dropped_signal(self._signals), lambda: bool(unread) or is_too_much()):
            why = unread or "there was too much to read at once, or its worker could not read it"
            workflow.logger.warning("a signal was dropped: %s", why)
            return True
        if unread:
            raise unread
        return False

    def _is_never_read(self, arguments: Sequence[Any]) -> bool:
        waiting = sum(size for size, _ in self._postponed)
        if waiting + _bytes_in(arguments) > MAX_POSTPONED_BYTES:
            return True
        return self._weight_of(arguments, MAX_WEIGHT_ALONE) > MAX_WEIGHT_ALONE

    def _is_postponed(self, arguments: Sequence[Any]) -> bool:
        return is_recorded(
            postponed_signal(self._signals),
            lambda: self.has_postponed or not self._has_room_for(arguments),
        )

    def _value_now(self, arguments: Sequence[Any], type_: type[Value]) -> Value | None:
        parsed = _parsed(arguments)
        return None if parsed is None else _value(parsed, type_)

    def _has_room_for(self, arguments: Sequence[Any]) -> bool:
        """Return whether this workflow task may also read the values; if so, count their weight."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._left = task, MAX_READ_WEIGHT
        size = _bytes_in(arguments)
        if size > self._left or not size:
            return not size
        weight = self._weight_of(arguments, self._left)
        has_room = weight <= self._left
        self._left -= weight if has_room else size // 2  # Weighing has taken time, too.
        return has_room

    def _weight_of(self, arguments: Sequence[Any], limit: int) -> int:
        return sum(
            reading_weight_of(payload, limit, self._part_bytes) for payload in _unparsed(arguments)
        )


def require_room(value: BaseModel, parts: Sequence[Any], copies: int, refused: Refused) -> None:
    """Raise a refusal for a decision or a result that is too deep, or too large for the history,
    which holds that many copies of it; small ones always have room.
    """
    if any(deeper_than(part, MAX_LEVELS) for part in parts):
        raise refused("too_large", f"it is nested more than {MAX_LEVELS} levels deep")
    size, history = size_of(value), workflow.info().get_current_history_size()
    if size > LARGE_BYTES and history + copies * size > MAX_HISTORY_BYTES:
        raise refused(
            "too_large",
            f"it takes {size:,} bytes, and the run's history {history:,} already: give less",
        )


def is_recorded(patch: str, happens: Callable[[], bool]) -> bool:
    """Return whether the condition holds, which a marker records; a replay returns the record."""
    return (workflow.unsafe.is_replaying() or happens()) and workflow.patched(patch)


def unread_in(arguments: Sequence[Any]) -> ConfigurationError | None:
    """Return the reason why this worker can't read one of the values; None if it can read all."""
    return next((value.error for value in arguments if isinstance(value, Unread)), None)


def _unparsed(arguments: Sequence[Any]) -> list[Payload]:
    return [value.payload for value in arguments if isinstance(value, Unparsed)]


def _bytes_in(arguments: Sequence[Any]) -> int:
    return sum(payload.ByteSize() for payload in _unparsed(arguments))


def _parse(arguments: Sequence[Any]) -> list[Any]:
    return [
        value.parse(value.payload) if isinstance(value, Unparsed) else value for value in arguments
    ]


def _parsed(arguments: Sequence[Any]) -> list[Any] | None:
    try:
        return _parse(arguments)
    except Exception as error:  # Whatever a stranger's bytes lead to.
        workflow.logger.warning("dropped a signal that is not JSON: %s", str(error)[:200])
        return None


def _value(parsed: Sequence[Any], type_: type[Value]) -> Value | None:
    try:
        (value,) = parsed
        return type_.model_validate(value)
    except ValueError as error:
        workflow.logger.warning(
            "a signal without a %s was dropped: %s", type_.__name__, _problem(error)
        )
        return None


def _problem(error: ValueError) -> str:
    many = isinstance(error, ValidationError) and error.error_count() > MAX_SHOWN_PROBLEMS
    return f"{error.error_count()} parts of it are wrong" if many else str(error)  # type: ignore[attr-defined]


class Door(Generic[Value]):
    """Reads an update's value, or refuses it."""

    def __init__(
        self, model: type[Value], refused: str, expected: str, *, is_optional: bool = False
    ) -> None:
        """`refused` is the error type of refusals; an update with `is_optional` may have no
        value.
        """
        self._model, self._refused, self._expected, self._is_optional = (
            model,
            refused,
            expected,
            is_optional,
        )

    def refusal(self, kind: str, text: str) -> ApplicationError:
        """Return the error of a refused update."""
        return ApplicationError(text, {"kind": kind}, type=self._refused, non_retryable=True)

    def read(self, arguments: Sequence[Any], received: Received | None) -> Value:
        """Return the single value of an update; `received` in a workflow. Raises a refusal for any
        other content.
        """
        arguments = received.read_update(arguments, self.refusal) if received else arguments
        try:
            (value,) = arguments or (({},) if self._is_optional else ())
            return self._model.model_validate(value)
        except (
            ValueError
        ):  # No cause: it may list a hundred thousand parts, all of which would become text.
            got = one_line(repr(arguments), 200)
            raise self.refusal(
                "unreadable", f"expected one object with {self._expected}, got {got}"
            ) from None


def run_update(
    name: str,
    description: str,
    door: Door[Value],
    check: Callable[[Any, Value], object],
    take: Callable[[Any, Value], Awaitable[None] | None],
) -> Any:
    """Return the handler of a run's update: `check` raises a refusal before it is recorded, `take`
    carries it out.
    """

    @workflow.update(
        name=name,
        description=description,
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def handle(self: Any, *arguments: Any) -> None:
        self.state.approvals.updates += 1
        if (taking := take(self, door.read(arguments, self._received))) is not None:
            await taking

    @handle.validator
    def validate(self: Any, *arguments: Any) -> None:
        check(self, door.read(arguments, self._received))

    return handle
