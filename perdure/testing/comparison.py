"""Repeats the model calls of a recorded run, answers their tool calls from the record, and compares
the two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from ..agents import Agent
from ..client.fork import agent_to_start, with_instructions
from ..errors import RunError
from ..json_types import JsonObject, JsonView
from ..messages import Message, ToolCall, Usage
from ..model_choice import model_choice, with_other_model
from ..prompty.prepare import new_prompt
from ..providers.prices import Prices, PriceSource
from .against_record import AgainstRecord
from .recording import Diverged, RecordedReply, Recording


@dataclass
class Effort:
    """The cost of model calls, up to a certain point."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """In US dollars; None if a call's price is unknown."""
    seconds: float = 0.0
    """Time of the model calls, without waits for tools and people."""


@dataclass
class Deviation:
    """The point where the rerun left the path of the recorded run."""

    why: Literal["unmatched", "skipped", "unasked", "failed"]
    """The rerun made a call without a recorded result; skipped ahead to a later call; answered
    before making all calls; or failed in another way than the recorded run.
    """
    iteration: int
    """Iteration of the rerun."""
    asked: list[JsonObject] = field(default_factory=list)
    """Calls without a recorded result: `{name, arguments}`."""
    recorded: list[JsonObject] = field(default_factory=list)
    """The recorded run's calls instead of these, or in addition."""


@dataclass
class Comparison:
    """The common path of a rerun and the recorded run, and the cost of each up to there."""

    run: str
    model: str
    """Model of the rerun, as `PROVIDER/ID`."""
    recorded_model: str
    path: Literal["same", "diverged"]
    deviation: Deviation | None
    matched: int
    """Number of tool calls answered from the record."""
    recorded_calls: int
    """Number of calls in the record."""
    recorded: Effort
    rerun: Effort
    recorded_end: JsonObject
    """`{output}` or `{failure}`."""
    rerun_end: JsonObject | None
    """None if the comparison ended before an answer."""
    notes: list[str] = field(default_factory=list)
    """Differences from the run or the file that the rerun could not avoid."""

    def as_json(self) -> JsonObject:
        """Return everything, for programs."""
        return asdict(self)


async def rerun(
    recording: Recording,
    *,
    model: str | None = None,
    agent: Agent | str | os.PathLike[str] | None = None,
    inputs: JsonView | None = None,
    options: JsonView | None = None,
    prices: PriceSource | None = None,
) -> Comparison:
    """Run the agent again, with another model or as its file is now; execute no tool.

    The model calls are real and come from this process. Tool calls are matched by name and
    arguments. Each recorded result is used once, and an unmatched call ends the comparison.
    Guardrails and compactors are not called, and `max_cost_usd` does not hold. `prices` are as for
    `create_worker`.

    Raises the errors of `load` and `Prices`, ConfigurationError for a prompt with inputs that were
    not recorded, and InvokerError for a provider that is not installed here.
    """
    chosen, messages, notes = recording.agent, recording.messages, _not_called(recording)
    handoffs = recording.handoffs if agent is None else None
    if agent is not None:
        chosen = agent_to_start(agent)
        messages = _new_seed(chosen, recording, {**recording.inputs, **(inputs or {})}, notes)
    if model is not None:
        chosen = with_other_model(chosen, model_choice(model))
    chosen_options = {"max_cost_usd": None, **(options or {})}
    run = AgainstRecord(
        recording,
        agent=chosen,
        messages=messages,
        options=chosen_options,
        inputs=inputs,
        handoffs=handoffs,
    )
    run.record.prices = Prices(prices)
    end: JsonObject | None = None
    unmatched: Diverged | None = None
    try:
        end = {"output": (await run.run()).output}
    except Diverged as diverged:
        unmatched = diverged
    except RunError as error:
        end = {"failure": {"kind": error.kind, "message": str(error), "reason": error.reason}}
    found = _comparison_of(recording, run, end, unmatched)
    found.notes += notes
    return found


def _not_called(recording: Recording) -> list[str]:
    hooks = {"guardrails": recording.options.guardrails, "compactor": recording.options.compactor}
    return [
        f"the {what} {name!r} of the run, which a rerun does not call"
        for what, name in hooks.items()
        if name
    ]


def _new_seed(
    agent: Agent, recording: Recording, inputs: JsonView, notes: list[str]
) -> list[Message]:
    """Return the messages of the new prompt; those that can't be rendered stay as recorded."""
    new, seed = new_prompt(agent, inputs), recording.messages
    if new.messages is not None and [each.role for each in new.messages] == [
        each.role for each in seed
    ]:
        return new.messages
    why = (
        f"they need the input {', '.join(new.unknown)}"
        if new.unknown
        else "the run began with others"
    )
    notes.append(f"the messages of the file's prompt, except its instructions: {why}")
    return with_instructions(seed, seed, new.instructions)


def _comparison_of(
    recording: Recording, run: AgainstRecord, end: JsonObject | None, unmatched: Diverged | None
) -> Comparison:
    answers, record = run.record.answers, run.record
    deviation = _deviation(recording, run, end, unmatched)
    until = (
        answers.reached + 1
        if unmatched
        else max((each.iteration for each in recording.replies), default=0)
    )
    before = [each for each in recording.replies if each.iteration <= until]
    return Comparison(
        run=recording.id,
        model=_model_of(record.agent),
        recorded_model=_model_of(recording.agent),
        path="diverged" if deviation else "same",
        deviation=deviation,
        matched=answers.used,
        recorded_calls=len(recording.calls),
        recorded=_effort(
            before, sum(each.iteration <= answers.reached for each in recording.calls)
        ),
        rerun=_effort(record.replies, answers.used),
        recorded_end={"failure": recording.failure}
        if recording.failure
        else {"output": recording.output},
        rerun_end=end,
    )


def _deviation(
    recording: Recording, run: AgainstRecord, end: JsonObject | None, unmatched: Diverged | None
) -> Deviation | None:
    answers, iteration = (
        run.record.answers,
        run.record.replies[-1].iteration if run.record.replies else 0,
    )
    if unmatched is not None:
        instead = [each.call for each in answers.left if each.iteration <= answers.reached + 1]
        return Deviation(
            "unmatched",
            unmatched.iteration,
            _calls_as_json(unmatched.calls),
            _calls_as_json(instead),
        )
    failure = (end or {}).get("failure")
    if failure is not None and failure["kind"] != (recording.failure or {}).get("kind"):
        return Deviation(
            "failed", iteration, recorded=_calls_as_json([each.call for each in answers.left])
        )
    if answers.skipped:
        return Deviation(
            "skipped", iteration, recorded=_calls_as_json([each.call for each in answers.skipped])
        )
    if answers.left:
        return Deviation(
            "unasked", iteration, recorded=_calls_as_json([each.call for each in answers.left])
        )
    return None


def _effort(replies: Sequence[RecordedReply], tool_calls: int) -> Effort:
    usage = sum((each.reply.usage for each in replies), Usage())
    costs = [each.cost for each in replies]
    known = [cost for cost in costs if cost is not None]
    return Effort(
        model_calls=len(replies),
        tool_calls=tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
        seconds=round(sum(each.seconds for each in replies), 3),
    )


def _model_of(agent: Agent) -> str:
    return f"{agent.model.provider_key}/{agent.model.id}" if agent.model else ""


def _calls_as_json(calls: Sequence[ToolCall]) -> list[JsonObject]:
    return [{"name": call.name, "arguments": call.arguments} for call in calls]
