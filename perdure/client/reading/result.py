"""Completes what the workflow returns by what only its history holds."""

from __future__ import annotations

from typing import Any

from ...history.chain import Chain
from ...messages import Message
from ...protocol.outcome import RunOutput, RunResult
from .conversation import conversation_at_end


async def complete_result(chain: Chain, output: RunOutput) -> RunResult[Any]:
    """The result of a run that ended well. Raises what `Chain.last` and `conversation_at_end` raise."""
    messages = await _conversation(chain, output)
    return RunResult[Any](
        output=output.output,
        iterations=output.iterations,
        messages=messages,
        usage=output.usage,
        cost_usd=output.cost_usd,
        unpriced_calls=output.unpriced_calls,
        is_incomplete=output.is_incomplete,
        unread_steering=[message.text for message in messages[len(messages) - output.unread_steering :]],
    )


async def _conversation(chain: Chain, output: RunOutput) -> list[Message]:
    if output.messages is not None:
        return output.messages
    return await conversation_at_end(chain.client, chain.workflow_id, await chain.last())
