"""Reads one link of a session back from its history."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..conversation import Conversation, ConversationRef
from ..messages import Message
from ..protocol.session import SessionInput
from .decode import decode
from .history_events import loaded_pieces
from .session_fold import fold_session
from .session_record import SessionLink
from .transcript import Transcript


async def read_session_link(
    client: Client, session: str, run_id: str, *, until: int | None = None, transcript: Transcript | None = None
) -> SessionLink:
    """Read one link of a session; a conversation that it has not loaded yet is read from the link before it.

    With `until`, read no further than that version of the conversation; `transcript` is that of the links before it,
    which this one continues. Raises `RPCError` when there is no such link,
    `DigestMismatchError` when what it records does not fit together, and what `decode` raises.
    """
    handle = client.get_workflow_handle(session, run_id=run_id)
    history = [event async for event in handle.fetch_history_events()]
    if not history or history[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise ValueError(f"the history of {session!r}, run {run_id!r}, does not begin with the start of a session")
    started = history[0].workflow_execution_started_event_attributes
    input = await decode(client, started.input.payloads, SessionInput)
    seed = await _seed(client, session, input, history)
    link = SessionLink(run_id, history, input, seed, _begun(input, seed))
    await fold_session(client, link, transcript or Transcript(()), until)
    return link


async def session_conversation(client: Client, session: str, run_id: str, reference: ConversationRef) -> Conversation:
    """The conversation of a session at exactly that version, as a link of it records it. Raises as above."""
    conversation = (await read_session_link(client, session, run_id, until=reference.version)).conversation
    conversation.follow(reference)
    conversation.forget_operations()
    return conversation


async def _seed(client: Client, session: str, input: SessionInput, history: Sequence[HistoryEvent]) -> list[Message]:
    if input.carried is None:
        return input.setup.messages
    told = input.carried.conversation
    if not told.ends:
        return told.messages
    pieces = await loaded_pieces(client, history)
    if len(pieces) >= told.ends[-1]:
        return pieces
    before = await read_session_link(client, session, told.run_id, until=told.reference.version)
    return before.conversation.messages


def _begun(input: SessionInput, seed: Sequence[Message]) -> Conversation:
    if input.carried is None:
        return Conversation.recorded(seed)
    start = input.carried.conversation.reference
    return Conversation.recorded(seed, version=start.version, digest=start.digest)
