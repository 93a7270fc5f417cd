"""Which changes of a conversation belong to the iteration before a model call, and which to the call's own."""

from __future__ import annotations

from collections.abc import Sequence

from ..loop.outputs import CORRECTION
from ..messages import Message
from ..operations import Append, Operation


def end_of_round(operations: Sequence[Operation]) -> int:
    """How many of the operations between two model calls belong to the first one's iteration.

    These add what the model has said, the results of its tools, and a correction of its answer. What follows belongs
    to the next iteration: steering messages, a trim, an input guardrail's rewrite.
    """
    for number, operation in enumerate(operations):
        if not (isinstance(operation, Append) and all(map(_ends_round, operation.messages))):
            return number
    return len(operations)


def steering_in(operations: Sequence[Operation]) -> list[str]:
    """The steering messages that were read between two model calls, which these operations lie between."""
    later = operations[end_of_round(operations) :]
    added = [message for operation in later if isinstance(operation, Append) for message in operation.messages]
    return [message.text for message in added if message.role == "user"]


def _ends_round(message: Message) -> bool:
    return message.role in ("assistant", "tool") or (message.role == "user" and message.text.startswith(CORRECTION))
