"""What a tool function may know about the execution that it is part of."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from ..json_types import JsonObject
from ..later import Later
from ..messages import Answered, Message
from ..options import MAX_SECONDS
from ..redaction import get_logger, redact
from ..text import bounded_text
from ..tool_calls import ToolProgress
from ..tool_results import KeptResults

T = TypeVar("T")
D = TypeVar("D", default=Any)

MAX_PROGRESS_BYTES = 1000
"""For the text of one report of progress."""

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


def _no_heartbeat(*details: object) -> None:
    """Outside a worker nobody listens."""


def _not_cancelled() -> bool:
    """Outside a worker nobody cancels."""
    return False


async def _not_handed_on() -> bool:
    """Outside a worker there are no other attempts."""
    return False


class OpenDeps(JsonObject):
    """A run's deps where no type says more: an object of JSON whose members are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the run's deps have no {name!r}: they have {', '.join(self) or 'nothing'}") from None


def open_deps(value: Any) -> Any:
    """Return a copy of a JSON value, with `OpenDeps` in the place of objects."""
    if isinstance(value, dict):
        return OpenDeps({name: open_deps(member) for name, member in value.items()})
    return [open_deps(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class ToolContext(Generic[D]):
    """Passed to a tool function that has a parameter annotated with this class. The model never sees that parameter.

    Annotated with `ToolContext[Deps]`, it has the run's deps as a value of that type.
    """

    run_id: str = ""
    iteration: int = 0
    call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one tool call, and for no other call: pass it to services that deduplicate."""
    attempt: int = 1
    """1 for the first execution; more for one that repeats an execution which was lost with its worker."""
    may_repeat: bool = False
    """Whether an earlier call of the same tool with the same arguments, in this run or in one that it goes on from, has
    an unknown outcome: it may have taken effect.
    """
    deps: D = cast(Any, None)
    """What the run was started with for its functions (`start_run(deps=…)`), as the type that the annotation names."""
    retries_left: int = 0
    """How often the call is executed again, should it fail (`retries`)."""
    tool: str = ""
    """The tool's name."""
    heartbeat: Callable[..., None] = _no_heartbeat
    """Tells Temporal that a long execution is alive, with details or without. May be called from any thread."""
    last_heartbeat: tuple[Any, ...] = ()
    """The details that the attempt before this one has told last, in their JSON form; () when there are none."""
    handed_on: Callable[[], Awaitable[bool]] = _not_handed_on
    """Once the execution is cancelled: whether another attempt goes on with the call, since this worker stops or was
    taken for lost. If not, the run was cancelled or the call's time is over: then work begun elsewhere is to be ended.
    """
    report: Callable[[ToolProgress], None] = _no_heartbeat
    """Where `progress` goes."""
    is_cancelled: Callable[[], bool] = _not_cancelled
    """What `cancelled` asks."""
    kept_results: KeptResults | None = field(default=None, repr=False)
    """For perdure's own tools: the results of the run's calls, whole."""
    max_result: int | None = field(default=None, repr=False)
    """For perdure's own tools: bytes of text that the model is shown of a result (`RunOptions.max_result`)."""
    conversation: Sequence[Message] = field(default=(), repr=False)
    """The conversation's last messages before the call, if the tool's declaration asks for any (`context`)."""
    answered: Answered | None = field(default=None, repr=False)
    """What a person has said to the question with which the call before this has ended (`ToolResult.needs`)."""
    traceparent: str = ""
    """The call's span as a W3C `traceparent`, for services that go on with the trace; "" outside a worker."""
    secret: Callable[[], str] | None = field(default=None, repr=False)
    """Gives the secret of the call's token, the same for each attempt; None where there is nobody to finish a call."""
    resources: Mapping[type, Any] = field(default_factory=dict, repr=False)
    """What `resource` gives, by type; an exception for one that can't be opened."""

    def resource(self, type: type[T]) -> T:
        """Return what the tools of this worker share, such as a database (`create_worker(resources={…})`).

        Raises KeyError for a type that the worker has no resource of, and ResourceError for one that can't be opened.
        """
        if type not in self.resources:
            known = ", ".join(sorted(each.__name__ for each in self.resources)) or "none"
            raise KeyError(f"no resource of type {type.__name__}: this worker has {known}")
        found = self.resources[type]
        if isinstance(found, Exception):
            raise found
        opened: T = found
        return opened

    def later(self, timeout: float | None = None) -> Later:
        """Return the token with which another system finishes this call: return it, and the call waits for that.

        It is a text, for that system alone: whoever has it can give the call its result, once (`perdure docs later`).
        The call waits for `timeout` seconds, or for ever, over restarts, and takes no worker's place. Raises ValueError
        for a time-out that is none, and RuntimeError in a run without a server.
        """
        if timeout is not None and not 0 < _number("timeout", timeout) <= MAX_SECONDS:
            raise ValueError(f"timeout is {timeout!r}, expected seconds, more than 0 and at most {MAX_SECONDS}")
        if self.secret is None:
            raise RuntimeError("context.later() needs a run on a Temporal server: nobody could finish this call")
        return Later.of(self.run_id, self.secret(), timeout)

    @property
    def logger(self) -> _Adapter:
        """Logger `perdure.tools`; its records have `run`, `tool`, `call` and `attempt`, and no known secret."""
        return _AboutCall(get_logger("perdure.tools"), log_fields(self.tool, self))

    @property
    def cancelled(self) -> bool:
        """Return whether the run was cancelled, or nobody waits for this execution any longer; from any thread.

        On a worker, the first question makes the server be asked each second from then on. A `local` tool only learns
        that it was given up.
        """
        return self.is_cancelled()

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell those who watch the run how far the call is; from any thread, as often as you like.

        Raises TypeError for what is no number, and ValueError for a number without a finite value.
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


def log_fields(name: str, context: ToolContext) -> dict[str, object]:
    """Return what a log record about an execution says beside its text."""
    return {
        "run": context.run_id,
        "tool": name,
        "call": context.call_id,
        "attempt": context.attempt,
    }


class _AboutCall(_Adapter):
    """Adds which call it is to each record; what the tool itself adds is redacted."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        added = kwargs.get("extra") or {}
        clean = {name: redact(value) if isinstance(value, str) else value for name, value in added.items()}
        return msg, {**kwargs, "extra": {**clean, **(self.extra or {})}}


def _number(what: str, value: float) -> float:
    number = value if type(value) is int else float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what} is {value!r}, expected a finite number")
    return number
