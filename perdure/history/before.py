"""The conversation of a run as it stood before one of its iterations."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from ..conversation import Conversation, ConversationRef
from ..messages import Message
from ..protocol.activities import CALL_MODEL
from .calls import end_of_round
from .events import decode
from .link import CONVERSATION_ACTIVITIES, RecordedLink


class _Recorded(BaseModel):
    conversation: ConversationRef | None = None
    iteration: int = 0


@dataclass
class Before:
    """What one link says of the conversation before an iteration."""

    messages: list[Message] | None
    """The conversation; None when the link has no model call of that iteration."""
    first: int
    """The first iteration of the link."""
    last: int
    """The last one before `at` whose model call the link has; `first - 1` when it has none."""
    recorded: ConversationRef | None = None
    """The last version before the iteration that the histories up to this link's hold as a whole; None for none."""
    count: int = 0
    """How many messages that version has."""


async def conversation_before(client: Client, link: RecordedLink, at: int) -> Before:
    """The conversation as it stood when iteration `at` began: after the tool results of the one before it.

    It has what earlier iterations have trimmed or rewritten in the form that their model calls were sent, and nothing
    that iteration `at` has read itself. Raises like `decode`.
    """
    carried = link.input.carried
    first = carried.loop.iteration + 1 if carried else 1
    begun = link.begun
    conversation, last = Conversation(begun.messages, version=begun.version), first - 1
    messages, boundary = list(begun.messages), _start(link, begun)
    if at == first:
        return Before(messages, first, last, boundary, len(messages))
    for recorded, is_call in await _recorded(client, link):
        if recorded.conversation is not None:
            reference = recorded.conversation
            for operation in reference.operations[max(0, conversation.version - reference.base) :]:
                conversation.apply(operation)
        if not is_call or recorded.iteration <= last:
            continue
        news, conversation.operations = conversation.operations, []
        conversation.first_version = conversation.version
        before = Conversation(messages)
        for operation in news[: end_of_round(news)]:
            before.apply(operation)
        if recorded.iteration == at:
            return Before(before.messages, first, last, boundary, len(messages))
        messages, boundary, last = list(conversation.messages), _reference(recorded), recorded.iteration
    return Before(None, first, last, boundary, len(messages))


def _start(link: RecordedLink, begun: Conversation) -> ConversationRef | None:
    if link.input.carried is None and link.input.beginning is None:
        return None
    return ConversationRef(base=begun.version, version=begun.version, digest=begun.digest)


def _reference(recorded: _Recorded) -> ConversationRef | None:
    """Without its operations, which the history has."""
    known = recorded.conversation
    return known and ConversationRef(base=known.version, version=known.version, digest=known.digest)


async def _recorded(client: Client, link: RecordedLink) -> list[tuple[_Recorded, bool]]:
    """The parts of the conversation that the link records, and whether each is a model call's."""
    found = []
    for event in link.history:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if (kind := scheduled.activity_type.name) in CONVERSATION_ACTIVITIES:
                recorded = await decode(client, scheduled.input.payloads, _Recorded)
                found.append((recorded, kind == CALL_MODEL))
    return found
