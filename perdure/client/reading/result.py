"""Completes what the workflow returns by what only its history holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.api.history.v1 import HistoryEvent

from ...history.chain import Chain
from ...history.usage import usage_of_calls
from ...messages import Message
from ...protocol.outcome import RunOutput, RunResult
from .conversation import conversation_at_end


async def complete_result(chain: Chain, output: RunOutput) -> RunResult[Any]:
    """The result of a run that ended well. Raises what `Chain.last` and `conversation_at_end` raise."""
    messages, history = await _conversation(chain, output)
    return RunResult[Any](
        output=output.output,
        iterations=output.iterations,
        messages=messages,
        usage=output.usage,
        is_incomplete=output.is_incomplete,
        iteration_usage=await usage_of_calls(chain.client, history),
        unread_steering=[message.text for message in messages[len(messages) - output.unread_steering :]],
    )


async def _conversation(chain: Chain, output: RunOutput) -> tuple[list[Message], Sequence[HistoryEvent]]:
    """The conversation, and the history of the run's last link."""
    if output.messages is None:
        last = await chain.last()
        return await conversation_at_end(chain.client, chain.workflow_id, last), last.history
    # Such a run has one link.
    only = chain.handle(await chain.known())
    return output.messages, [event async for event in only.fetch_history_events()]
