"""Puts the conversation of a run together from what its histories record."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from temporalio.client import Client
from temporalio.workflow import NondeterminismError

from ...history.chain import Chain, closing_tail
from ...history.link import RecordedLink
from ...history.transcript import Transcript
from ...messages import Message
from ...operations import Operation
from .log import RunLog
from .replay import replay

logger = logging.getLogger("perdure")


async def complete_messages(chain: Chain, log: RunLog) -> list[Message]:
    """Every message of the run, including those that were trimmed from the model's view.

    An open run is asked through `log`, which knows what no history records yet. Raises `RPCError` when there is no such
    run, and what `replay` raises.
    """
    transcript: Transcript | None = None
    async for link in chain.links():
        if link.is_open:
            await log.refresh()
            return list(log.transcript.messages)
        if transcript is None:
            transcript = Transcript(link.seed)
        else:
            transcript.begin_link(link.seed)
        conversation = link.conversation()
        transcript.follow(conversation.operations)
        if link.next_run_id is None:
            transcript.follow(await _last_operations(chain, link, conversation.version))
    return transcript.messages if transcript else []


async def _last_operations(chain: Chain, link: RecordedLink, version: int) -> Sequence[Operation]:
    """What the end of the run's last link has added to the conversation since `version`."""
    if tail := await closing_tail(chain.client, link):
        return tail.operations
    run = await replay(chain.workflow_id, link.history, chain.client.data_converter)
    return run.operations_since(version)


async def conversation_at_end(client: Client, workflow_id: str, link: RecordedLink) -> list[Message]:
    """The conversation as the model would see it next; `link` is the last one of a run that has ended.

    Where its end can't be read, that is logged, and the conversation goes as far as the history records it.
    """
    tail = await closing_tail(client, link)
    conversation = link.conversation()
    if tail is not None:
        conversation.follow(tail)
        return conversation.messages
    try:
        return (await replay(workflow_id, link.history, client.data_converter)).conversation
    except (NondeterminismError, ValueError) as error:
        # Another version of perdure made this history, or the run failed before it began.
        logger.warning("the end of the conversation of %s can't be read: %s", workflow_id, error)
    return conversation.messages
