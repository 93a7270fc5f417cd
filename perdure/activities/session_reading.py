"""Reads the conversation of a session, from which a turn goes on."""

from __future__ import annotations

from temporalio import activity

from ..conversation import Conversation, ConversationRef
from ..history.session_link import session_conversation
from .run_cache import LinkKey


async def read_session(key: LinkKey, reference: ConversationRef) -> Conversation:
    """The conversation at exactly that version. Raises as `read_session_link` does."""
    return await session_conversation(activity.client(), *key, reference)
