"""The context of a tool's execution, as its function sees it."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from ..json_types import JsonObject
from ..messages import Answered, Message
from ..options import MAX_SECONDS
from ..protocol.later import CompletionToken
from ..redaction import get_logger, redact
from ..text import bounded_text
from ..tool_calls import ToolProgress
from ..tool_results import KeptResults

T = TypeVar("T")
D = TypeVar("D", default=Any)

MAX_PROGRESS_BYTES = 1000
"""Limit for the text of one progress report."""

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


def _no_heartbeat(*details: object) -> None:
    """Do nothing: outside a worker, no one listens."""


def _not_cancelled() -> bool:
    """Outside a worker, nothing cancels the call."""
    return False


async def _not_superseded() -> bool:
    """Outside a worker, the call has only one attempt."""
    return False


class OpenDeps(JsonObject):
    """A run's deps without a more precise type: a JSON object whose members are also attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the run's deps have no {name!r}: they have {', '.join(self) or 'nothing'}"
            ) from None


def open_deps(value: Any) -> Any:
    """Return a copy of a JSON value, with `OpenDeps` for objects."""
    if isinstance(value, dict):
        return OpenDeps({name: open_deps(member) for name, member in value.items()})
    return [open_deps(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class ToolContext(Generic[D]):
    """Passed to a tool function that has a parameter annotated with this class. The model never
    sees that parameter.

    Annotated with `ToolContext[Deps]`, it has the run's deps as a value of that type.
    """

    run_id: str = ""
    iteration: int = 0
    call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one tool call, and unique to that call: pass it to services
    that deduplicate."""
    attempt: int = 1
    """1 for the first execution; higher for a repetition after a lost worker."""
    may_repeat: bool = False
    """Whether an earlier call of the same tool with the same arguments has an unknown outcome, in
    this run or in one that it continues: that call may have taken effect.
    """
    deps: D = cast(Any, None)
    """The run's deps (`start_run(deps=…)`), as the annotated type."""
    retries_left: int = 0
    """How many more executions follow if this one fails (`retries`)."""
    tool: str = ""
    """The tool's name."""
    heartbeat: Callable[..., None] = _no_heartbeat
    """Reports to Temporal that a long execution is alive, optionally with details. Callable from
    any thread."""
    last_heartbeat: tuple[Any, ...] = ()
    """Heartbeat details of the previous attempt, in their JSON form; () without any."""
    superseded: Callable[[], Awaitable[bool]] = _not_superseded
    """After a cancellation: whether another attempt continues the call, because this worker stops
    or was considered lost. If not, the run was cancelled or the call's time is over: then end the
    work begun elsewhere.
    """
    report: Callable[[ToolProgress], None] = _no_heartbeat
    """Receives `progress`."""
    is_cancelled: Callable[[], bool] = _not_cancelled
    """Answers `cancelled`."""
    kept_results: KeptResults | None = field(default=None, repr=False)
    """For perdure's own tools: the complete results of the run's calls."""
    max_result: int | None = field(default=None, repr=False)
    """For perdure's own tools: bytes of a result's text that the model gets
    (`RunOptions.max_result`)."""
    conversation: Sequence[Message] = field(default=(), repr=False)
    """The conversation's last messages before the call, if the tool's declaration requests any
    (`context`)."""
    answered: Answered | None = field(default=None, repr=False)
    """A person's answer to the question with which the previous call ended (`ToolResult.needs`)."""
    traceparent: str = ""
    """The call's span as a W3C `traceparent`, for services that continue the trace; "" outside a
    worker."""
    secret: Callable[[], str] | None = field(default=None, repr=False)
    """Returns the secret of the call's token, the same for each attempt; None if no one could
    finish a call."""
    resources: Mapping[type, Any] = field(default_factory=dict, repr=False)
    """The values of `resource`, by type; an exception for one that can't be opened."""

    def resource(self, type: type[T]) -> T:
        """Return a resource shared by this worker's tools, such as a database
        (`create_worker(resources={…})`).

        Raises KeyError for a type without a resource, and ResourceError for a resource that can't
        be opened.
        """
        if type not in self.resources:
            known = ", ".join(sorted(each.__name__ for each in self.resources)) or "none"
            raise KeyError(f"no resource of type {type.__name__}: this worker has {known}")
        found = self.resources[type]
        if isinstance(found, Exception):
            raise found
        opened: T = found
        return opened

    def later(self, timeout: float | None = None) -> CompletionToken:
        """Return the token with which another system finishes this call. Return it from the tool,
        and the call waits.

        It is a text, for that system alone: with it, the system can give the call its result, once
        (`perdure docs waiting`). The call waits for `timeout` seconds, or without a limit, across
        restarts, and occupies no worker. Raises ValueError for an invalid time-out, and
        RuntimeError in a run without a server.
        """
        if timeout is not None and not 0 < _number("timeout", timeout) <= MAX_SECONDS:
            raise ValueError(
                f"timeout is {timeout!r}, expected seconds, more than 0 and at most {MAX_SECONDS}"
            )
        if self.secret is None:
            raise RuntimeError(
                "context.later() needs a run on a Temporal server: here, no system could finish "
                "this call"
            )
        return CompletionToken.of(self.run_id, self.secret(), timeout)

    @property
    def logger(self) -> _Adapter:
        """Logger `perdure.tools`; its records have `run`, `tool`, `call` and `attempt`, and no
        known secret.
        """
        return _AboutCall(get_logger("perdure.tools"), log_fields(self.tool, self))

    @property
    def cancelled(self) -> bool:
        """Return whether the run was cancelled, or this execution was abandoned. Callable from any
        thread.

        On a worker, the first call starts a request to the server each second. A `local` tool only
        learns that it was abandoned.
        """
        return self.is_cancelled()

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report the call's progress to the run's readers. Callable from any thread, as often as
        you like.

        Raises TypeError for a value that is not a number, and ValueError for a number that is not
        finite.
        """
        told = ToolProgress(
            name=self.tool,
            call_id=self.call_id,
            iteration=self.iteration,
            done=_number("done", done),
            total=None if total is None else _number("total", total),
            text=bounded_text(str(text), MAX_PROGRESS_BYTES),
        )
        self.report(told)


NO_CONTEXT = ToolContext[Any]()


def context_with(context: ToolContext = NO_CONTEXT, **fields: Any) -> ToolContext:
    """Return a copy with these fields. `ToolContext(…)` and `dataclasses.replace` take five times
    as long, since they set each of the 20 fields by itself.
    """
    copy = object.__new__(type(context))
    vars(copy).update(vars(context), **fields)
    return copy


def log_fields(name: str, context: ToolContext) -> dict[str, object]:
    """Return the fields of a log record about an execution."""
    return {
        "run": context.run_id,
        "tool": name,
        "call": context.call_id,
        "attempt": context.attempt,
    }


class _AboutCall(_Adapter):
    """Adds the call to each record, and redacts the tool's own fields."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        added = kwargs.get("extra") or {}
        clean = {
            name: redact(value) if isinstance(value, str) else value
            for name, value in added.items()
        }
        return msg, {**kwargs, "extra": {**clean, **(self.extra or {})}}


def _number(what: str, value: float) -> float:
    number = value if type(value) is int else float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what} is {value!r}, expected a finite number")
    return number
