"""The updates of workflows: each has one value of a model, which is checked when it comes, and then taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from ..text import one_line
from .received import Received

Value = TypeVar("Value", bound=BaseModel)


class Door(Generic[Value]):
    """How an update's value is read, and how it is refused."""

    def __init__(self, model: type[Value], refused: str, expected: str, *, is_optional: bool = False) -> None:
        """`refused` is the error type of refusals; an update that `is_optional` may come without a value."""
        self._model, self._refused, self._expected, self._is_optional = model, refused, expected, is_optional

    def refusal(self, kind: str, text: str) -> ApplicationError:
        """Return the error of an update that is not taken."""
        return ApplicationError(text, {"kind": kind}, type=self._refused, non_retryable=True)

    def read(self, arguments: Sequence[Any], received: Received | None) -> Value:
        """Return the one value that an update should have; `received` in a workflow. Raises a refusal for any other."""
        arguments = received.read_update(arguments, self.refusal) if received else arguments
        try:
            (value,) = arguments or (({},) if self._is_optional else ())
            return self._model.model_validate(value)
        except ValueError:  # No cause: it may tell of a hundred thousand parts, and would become text.
            got = one_line(repr(arguments), 200)
            raise self.refusal("unreadable", f"expected one object with {self._expected}, got {got}") from None


def run_update(
    name: str,
    description: str,
    door: Door[Value],
    check: Callable[[Any, Value], object],
    take: Callable[[Any, Value], Awaitable[None] | None],
) -> Any:
    """Return the handler of an update of a run: `check` raises a refusal before it is recorded, `take` does it."""

    @workflow.update(name=name, description=description, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def handle(self: Any, *arguments: Any) -> None:
        self.state.approvals.updates += 1
        if (taking := take(self, door.read(arguments, self._received))) is not None:
            await taking

    @handle.validator
    def validate(self: Any, *arguments: Any) -> None:
        check(self, door.read(arguments, self._received))

    return handle
