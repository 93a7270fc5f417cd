"""The loop's state from one iteration to the next, the base of its parts, and the outcome of a
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Generic, Protocol, TypeVar, cast

from pydantic import ConfigDict, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from ..conversation import Conversation
from ..errors import OutputError, RunError
from ..event_data import EventType, LoggedData, LoggedMessagesUpdatedData, StatusData, UsageData
from ..messages import CutShort, JsonObject, Message, ModelReply, Usage
from ..options import RunOptions
from ..schema import ANSWER
from ..text import DIGITS
from ..tool_calls import ToolRequest, ToolSpec
from ..unknown_outcomes import UnknownCall, same_call
from .verdicts import rewritten_text, value_in

LOOP_VERSION = 1
"""The version of the loop: a change that gives other commands for a recorded history takes the next
number, and keeps the older behaviour for runs recorded with a lower one (`Effects.version`)."""
LAST_TEXT_CHARS = 64 * 1024
"""The state travels in one payload, so it keeps texts of the model only up to this size."""
MAX_UNKNOWN_CALLS = 1000
"""The most calls of unknown outcome that the run remembers; it forgets the oldest first."""
UsageCounts = tuple[int, ...]
"""The fields of a `Usage`, in order: a short form, because a run may have thousands. The last ones
may be left out."""
_COUNTED = tuple(Usage.model_fields)
_USAGES = TypeAdapter(list[Usage])


def unknown_calls_in(messages: Iterable[Message]) -> list[UnknownCall]:
    """Return the calls of unknown outcome in a conversation, without those that were settled
    later.
    """
    found: list[UnknownCall] = []
    for message in messages:
        match message.metadata.get("outcome_unknown"):
            case {"same": str(same), "key": str(key)}:
                found.append(UnknownCall(same=same, key=key, iteration=0))
        if isinstance(settled := message.metadata.get("settled_outcomes"), list):
            found = [call for call in found if call.key not in settled]
    return found[-MAX_UNKNOWN_CALLS:]


@dataclass
class LoopState:
    """Survives continue-as-new, unknown fields included: add fields with defaults, never rename
    any.
    """

    __pydantic_config__ = ConfigDict(extra="allow")

    iteration: int = 0
    """The round in progress, from 1; 0 before the first."""
    iterations: int = 0
    """Model calls that completed."""
    tool_calls: int = 0
    """Tool executions that were started."""
    usage: Usage = field(default_factory=Usage)
    iteration_usage: list[UsageCounts] = field(default_factory=list)
    """The usage of each completed model call."""
    last_text: str = ""
    """The last text of the model, with or without tool calls."""
    output_retries: int = 0
    """The number of answers sent back to the model because they did not fit."""
    started_at: float = 0.0
    """Seconds since the epoch."""
    cost_usd: float | None = None
    """The known cost of the run and of the runs that it called; None if no cost is known."""
    unpriced_calls: int = 0
    """The number of model calls that `cost_usd` does not include. A called run that did not report
    its cost counts as one."""
    untold_tokens: int = 0
    """The tokens that unmeasured model calls may have used, and called runs that did not report
    their use."""
    untold_calls: int = 0
    """The number of tool executions that such runs may have started."""
    last_cost_usd: float | None = None
    """The cost of the run's own last model call; None if unknown."""
    unchecked: int = 0
    """The number of messages at the end that the input guardrail has not passed, if there is
    one."""
    refused: list[int] = field(default_factory=list)
    """The first and the last index of all messages that it refused; [] for none."""
    prompted: bool = False
    """Whether the prompt describes the tools to the model, which calls them by JSON in its text."""
    answering: bool = False
    """With `prompted`: whether the next model call asks for the answer, because the last one called
    no tool."""
    answers: int = 0
    """With `prompted`: the number of `iterations` that were such calls and called no tool."""
    fallback: int = 0
    """The index of the current model in the agent's `fallback`, from 1; 0 for the agent's own
    model."""
    learned_budgets: dict[str, int] = field(default_factory=dict)
    """The limits, in characters, of models that refused the conversation as too long, by
    `PROVIDER/ID`."""
    budget_suggested: bool = False
    unknown_calls: list[UnknownCall] = field(default_factory=list)
    """The calls of unknown outcome, of this run and those that it continues, at most
    `MAX_UNKNOWN_CALLS`."""
    held_seconds: float = 0.0
    """The time for which the run was held, which does not count for `max_seconds`."""
    draft: str = ""
    """With `prompted`: the model's text of a call without a tool. It is the answer only if the
    final answer is empty."""

    @model_serializer(mode="wrap")
    def _with_unknown_fields(self, known: SerializerFunctionWrapHandler) -> JsonObject:
        """Return the known fields and the unknown ones, which Pydantic keeps but does not write."""
        return {**vars(self), **known(self)}

    def unknown_like(self, request: ToolRequest, spec: ToolSpec) -> list[UnknownCall]:
        """Return the equal calls of unknown outcome."""
        if not self.unknown_calls:
            return []
        same = same_call(request.name, request.arguments, spec)
        return [call for call in self.unknown_calls if call.same == same]

    def remember_unknown(self, request: ToolRequest, spec: ToolSpec, key: str) -> UnknownCall:
        """Remember a call with this key as one of unknown outcome."""
        same = same_call(request.name, request.arguments, spec)
        call = UnknownCall(same=same, key=key, iteration=request.iteration)
        if not spec.idempotent or all(known.same != same for known in self.unknown_calls):
            self.unknown_calls.append(call)
            del self.unknown_calls[:-MAX_UNKNOWN_CALLS]
        return call

    def count(self, reply: ModelReply) -> None:
        """Count one completed model call."""
        self.iterations += 1
        self.usage = self.usage + reply.usage
        self.iteration_usage.append(_counts(reply.usage))
        self.last_cost_usd = reply.cost_usd
        self.add_cost(reply.cost_usd, unpriced=reply.cost_usd is None)

    def count_failed(self, used: ModelReply) -> None:
        """Count the usage of a failed model call."""
        self.usage = self.usage + used.usage
        self.add_cost(used.cost_usd, unpriced=used.cost_usd is None)

    @property
    def steps(self) -> int:
        """Model calls that completed and count for `max_iterations`."""
        return self.iterations - self.answers

    def acts_no_more(self, reply: ModelReply, *, is_guarded: bool, is_structured: bool) -> bool:
        """Return whether the model, whose prompt describes the tools, called none: the next call
        asks for its answer.

        Its text is not the answer yet, so no output guardrail judges it: with one (`is_guarded`),
        it does not become the run's last text. If the answer has a form (`is_structured`), the text
        can't replace it.
        """
        if not self.prompted or self.answering or reply.message.tool_calls:
            return False
        self.note("" if is_guarded else reply.message.text)
        self.answering, self.draft = (
            True,
            "" if is_structured else reply.message.text[:LAST_TEXT_CHARS],
        )
        return True

    def begin_as_another(self) -> None:
        """Reset the state that belongs to one agent: its fallback model, and its way of calling
        tools.
        """
        self.fallback, self.prompted, self.answering, self.draft = 0, False, False, ""

    def add_cost(self, cost: float | None, *, unpriced: int) -> None:
        """Add the known cost of calls; `unpriced` is the number of calls of unknown cost.

        A cost that makes the sum infinite or NaN counts as unknown: JSON could not hold it.
        """
        if cost is not None and isfinite(total := round((self.cost_usd or 0.0) + cost, DIGITS)):
            self.cost_usd = total
        elif cost is not None:
            self.unpriced_calls += 1
        self.unpriced_calls += unpriced

    def note(self, text: str) -> None:
        """Remember the model's text, if there is any."""
        if text:
            self.last_text = text[:LAST_TEXT_CHARS]


def usages(counted: Sequence[UsageCounts]) -> list[Usage]:
    """Return the counts as `Usage` objects."""
    return _USAGES.validate_python(
        [dict(zip(_COUNTED, counts, strict=False)) for counts in counted]
    )


def _counts(usage: Usage) -> UsageCounts:
    """The first five fields always, and the others up to the last one that is set."""
    counts = list(vars(usage).values())
    while len(counts) > 5 and not counts[-1]:
        counts.pop()
    return tuple(counts)


def usage_data(usage: Usage) -> UsageData:
    return cast(UsageData, usage.model_dump())


class Emits(Protocol):
    """As `Effects`."""

    def emit(
        self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None
    ) -> None: ...


Outside = TypeVar("Outside", bound=Emits)


@dataclass
class RunPart(Generic[Outside]):
    """A part of the loop of one run."""

    effects: Outside
    conversation: Conversation
    options: RunOptions
    state: LoopState
    models: Sequence[str]
    """The agent's model and those of its `fallback`, as `PROVIDER/ID`."""

    @property
    def model(self) -> str:
        """The model that the run calls now; "" if it has no name."""
        return self.models[self.state.fallback] if self.models else ""

    def append(self, messages: list[Message]) -> None:
        """Add messages to the conversation, which no guardrail has judged yet."""
        self.conversation.append(messages)
        self.state.unchecked += len(messages)
        self.emit_messages()

    def emit(self, type: EventType, data: LoggedData, *, call_id: str | None = None) -> None:
        """Add an event of the current iteration."""
        self.effects.emit(type, self.state.iteration, data, call_id=call_id)

    def emit_messages(self) -> None:
        """Report that the conversation changed."""
        self.emit("messages_updated", LoggedMessagesUpdatedData())

    def emit_status(self, text: str, reason: str = "") -> None:
        """Report progress to people."""
        self.emit(
            "status",
            StatusData(message=text, reason=reason) if reason else StatusData(message=text),
        )


CORRECTION = "Your answer does not fit the declared output:"
"""The beginning of the message that sends an answer back."""


@dataclass
class Outcome:
    """The outcome of a run that ends well."""

    output: Any
    response: str
    """The output as text, as the `done` event holds it."""
    cut_short: CutShort | None = None
    """The reason why the answer is incomplete."""
    is_incomplete: bool = False
    """Whether a limit ended the run (`RunOptions.on_limit`)."""


def outcome_of(reply: ModelReply, options: RunOptions, *, structured: bool) -> Outcome:
    """Return the outcome of the answer: the provider's own response if `options.raw`, its value if
    it is `structured`, else its text.
    """
    text, value = reply.message.text, reply.output
    if options.raw and reply.raw is not None:
        return Outcome(reply.raw, text, reply.cut_short)
    written: Any = value_in(text) if structured else text
    is_wrapped = isinstance(written, dict) and written.keys() == {ANSWER}
    if value is None and (written[ANSWER] if is_wrapped else written) is not None:
        return Outcome(text, text, reply.cut_short)
    return Outcome(value, rewritten_text(value) if is_wrapped else text, reply.cut_short)


def send_back(
    reply: ModelReply,
    state: LoopState,
    options: RunOptions,
    limit: RunError | None,
    *,
    structured: bool,
) -> tuple[str, Message]:
    """Return the texts for watchers and for the model about an answer that does not fit.

    Raises OutputError when the model may not answer again: after `RunOptions.output_retries`, or at
    a `limit`.
    """
    if state.output_retries >= options.output_retries or (limit and options.on_limit == "raise"):
        raise output_error(reply, state, limit)
    state.output_retries += 1
    shown = f"retry {state.output_retries} of {options.output_retries}"
    return f"The answer does not fit the declared outputs, {shown}: {reply.faults[0]}", _correction(
        reply, structured=structured
    )


def _correction(reply: ModelReply, *, structured: bool) -> Message:
    faults = "\n".join(f"- {fault}" for fault in reply.faults)
    return Message.user(
        f"{CORRECTION}\n{faults}\nAnswer "
        f"again{', with nothing but a JSON object that fits' if structured else ''}."
    )


def output_error(reply: ModelReply, state: LoopState, limit: RunError | None) -> OutputError:
    """Return the error of a run whose model may not answer again, because of `limit` or after too
    many retries.
    """
    why = str(limit) if limit else f"after {state.output_retries} retries"
    error = OutputError(
        f"The answer does not fit the declared outputs ({why}): {reply.faults[0]}",
        reason="; ".join(reply.faults),
    )
    error.text = reply.message.text
    return error
