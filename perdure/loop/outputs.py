"""What a run gives in the end, and what happens to an answer that does not fit the agent's `outputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import OutputError, RunError
from ..messages import Message, ModelReply
from ..options import RunOptions
from .state import LoopState

CORRECTION = "Your answer does not fit the declared output:"
"""How the message begins that sends an answer back."""


@dataclass
class Outcome:
    """What a run gives when it ends well."""

    output: Any
    response: str
    """The output as text, as the `done` event holds it."""
    is_incomplete: bool = False
    """Whether a limit ended the run (`RunOptions.on_limit`)."""


def outcome_of(reply: ModelReply, options: RunOptions) -> Outcome:
    """What the answer gives: the provider's own response if `options.raw`, the value of its JSON, or its text."""
    text = reply.message.text
    if options.raw and reply.raw is not None:
        return Outcome(reply.raw, text)
    return Outcome(text if reply.output is None else reply.output, text)


def send_back(reply: ModelReply, state: LoopState, options: RunOptions, limit: RunError | None) -> tuple[str, Message]:
    """What watchers, and what the model is told about an answer that does not fit.

    Raises OutputError when the model may not answer again: after `RunOptions.output_retries`, or at a `limit`.
    """
    if state.output_retries >= options.output_retries or (limit and options.on_limit == "raise"):
        raise output_error(reply, state, limit)
    state.output_retries += 1
    shown = f"retry {state.output_retries} of {options.output_retries}"
    return f"The answer does not fit the declared outputs, {shown}: {reply.faults[0]}", _correction(reply)


def _correction(reply: ModelReply) -> Message:
    faults = "\n".join(f"- {fault}" for fault in reply.faults)
    return Message.user(f"{CORRECTION}\n{faults}\nAnswer again, with nothing but a JSON object that fits.")


def output_error(reply: ModelReply, state: LoopState, limit: RunError | None) -> OutputError:
    """The end of a run whose model may not answer again, as `limit` says or after too many retries."""
    why = str(limit) if limit else f"after {state.output_retries} retries"
    error = OutputError(
        f"The answer does not fit the declared outputs ({why}): {reply.faults[0]}", reason="; ".join(reply.faults)
    )
    error.text = reply.message.text
    return error
