"""Completes what the workflow returns by what only its history holds."""

from __future__ import annotations

from typing import Any

from ...history.chain import Chain
from ...history.usage import usage_of_calls
from ...loop.state import usages
from ...messages import Message, Usage
from ...protocol.outcome import RunOutput, RunResult
from .conversation import conversation_at_end


async def complete_result(chain: Chain, output: RunOutput) -> RunResult[Any]:
    """The result of a run that ended well. Raises what `Chain.last` and `conversation_at_end` raise."""
    messages, usage = await _conversation(chain, output)
    return RunResult[Any](
        output=output.output,
        iterations=output.iterations,
        messages=messages,
        usage=output.usage,
        cost_usd=output.cost_usd,
        unpriced_calls=output.unpriced_calls,
        is_incomplete=output.is_incomplete,
        iteration_usage=usage,
        unread_steering=[message.text for message in messages[len(messages) - output.unread_steering :]],
    )


async def _conversation(chain: Chain, output: RunOutput) -> tuple[list[Message], list[Usage]]:
    """The conversation, and the usage of each model call."""
    if output.messages is None:
        last = await chain.last()
        messages = await conversation_at_end(chain.client, chain.workflow_id, last)
        return messages, await usage_of_calls(chain.client, last.history)
    if output.iteration_usage is not None:
        return output.messages, usages(output.iteration_usage)
    # Such a run has one link.
    only = chain.handle(await chain.known())
    history = [event async for event in only.fetch_history_events()]
    return output.messages, await usage_of_calls(chain.client, history)
