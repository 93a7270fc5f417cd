"""A run's conversation before one of its iterations."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.client import Client

from ..conversation import Conversation, count_of_instructions
from ..messages import Message
from ..protocol.activities import CALL_MODEL
from .calls import end_of_round
from .link import CONVERSATION_ACTIVITIES, RecordedLink


@dataclass
class ConversationBefore:
    """The conversation before an iteration, from one link's history."""

    messages: list[Message] | None
    """The conversation; None if the link has no model call of that iteration."""
    last: int
    """The last iteration before `at` with a model call in this link or an earlier one."""


async def conversation_before(client: Client, link: RecordedLink, at: int) -> ConversationBefore:
    """Return the conversation at the beginning of iteration `at`, after the tool results of the one
    before it.

    Messages trimmed or rewritten by earlier iterations have the form of their model calls; messages
    read by iteration `at` itself are left out. Raises like `decode`.
    """
    carried = link.input.carried
    first = carried.loop.iteration + 1 if carried else 1
    begun = link.initial_conversation
    conversation, last = Conversation(begun.messages, version=begun.version), first - 1
    messages = list(begun.messages)
    if at == first:
        return ConversationBefore(_instructed(link, messages), last)
    for activity in link.work.activities_of(CONVERSATION_ACTIVITIES):
        recorded = await activity.input_fields(client)
        if recorded.conversation is not None:
            reference = recorded.conversation
            for operation in reference.operations[max(0, conversation.version - reference.base) :]:
                conversation.apply(operation)
        if activity.type != CALL_MODEL or recorded.iteration <= last:
            continue
        news, conversation.operations = conversation.operations, []
        conversation.first_version = conversation.version
        before = Conversation(messages)
        for operation in news[: end_of_round(news)]:
            before.apply(operation)
        if recorded.iteration == at:
            return ConversationBefore(before.messages, last)
        messages, last = list(conversation.messages), recorded.iteration
    return ConversationBefore(None, last)


def _instructed(link: RecordedLink, begun: list[Message]) -> list[Message]:
    """Return the link's first messages, after a handoff with the new agent's instructions."""
    input = link.input
    if input.carried is None or not input.carried.is_handoff:
        return begun
    return [*input.handoffs[input.handed_to], *begun[count_of_instructions(begun) :]]
