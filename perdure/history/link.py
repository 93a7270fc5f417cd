"""One link of a run, read from its history: its input, its conversation and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.client import Client

from ..commands import shell_word
from ..conversation import Conversation, ConversationRef
from ..errors import RunNotFound
from ..messages import Message
from ..protocol import activities, names
from ..protocol.inventory import Inventory
from ..protocol.run import CarriedConversation, RunInput
from .events import HistoryLink, RecordedActivity, RecordedStep, RecordedWork, decode
from .session import session_conversation
from .transcript import loaded_pieces

CONVERSATION_ACTIVITIES = frozenset(
    {activities.CALL_MODEL, activities.COMPACT, activities.JUDGE, activities.RECORD}
)
"""Activities whose recorded input may contain a part of the conversation."""

BEGINNING_EVENTS = 12
"""The inventory is the fifth event of a history, unless signals come before it."""


@dataclass
class RecordedLink(HistoryLink):
    """Link of a run, from its history."""

    input: RunInput
    work: RecordedWork
    references: list[ConversationRef]
    """The recorded parts of the conversation, in order."""
    pieces: list[Message]
    """The conversation at the start of this link, if it was too large for `input`; else empty."""
    inventory: Inventory | None = None
    """The workers' inventory for the agent; None before the history has it."""

    @property
    def seed(self) -> list[Message]:
        """Conversation at the start of this link."""
        return self.pieces if self.input.conversation_elsewhere else self.input.initial_messages

    @property
    def version(self) -> int:
        """Version of the conversation at the start of this link."""
        return self.input.version

    @property
    def initial_conversation(self) -> Conversation:
        """Conversation after the start of this link: the earlier one, with the additions of a fork
        or a session.
        """
        conversation = self.input.conversation(self.pieces)
        if self.input.added_messages:
            conversation.append(self.input.added_messages)
        return conversation

    def conversation(self, until: int | None = None) -> Conversation:
        """Return the conversation at version `until`; by default, the last recorded one.

        Raises `DigestMismatchError` if the recorded parts do not fit together.
        """
        conversation = self.input.conversation(self.pieces)
        for reference in self.references:
            if until is not None and reference.version > until:
                break
            conversation.follow(reference)
        return conversation


async def read_link(client: Client, workflow_id: str, run_id: str) -> RecordedLink:
    """Read one link; a conversation that it has not loaded yet is read from the link before it.

    Raises `RPCError` for an unknown link, and `ConfigurationError` for values in a storage that
    `client` can't reach.
    """
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    link = await _fold(
        client, workflow_id, run_id, [event async for event in handle.fetch_history_events()]
    )
    loaded = link.input.conversation_elsewhere
    if loaded is not None and len(link.pieces) < loaded.ends[-1]:
        link.pieces = await _loaded_conversation(client, workflow_id, loaded)
    return link


async def _loaded_conversation(
    client: Client, workflow_id: str, loaded: CarriedConversation
) -> list[Message]:
    """Read the conversation that a link of this run would load."""
    holder = loaded.workflow_id or workflow_id
    if loaded.of_session:
        return (
            await session_conversation(client, holder, loaded.run_id, loaded.reference)
        ).messages
    return (
        (await read_link(client, holder, loaded.run_id))
        .conversation(loaded.reference.version)
        .messages
    )


async def read_beginning(
    client: Client, workflow_id: str, run_id: str
) -> tuple[RunInput, Inventory | None, str]:
    """Read one link's input, the run's inventory, if present, and the run id of the first link.

    Reads the first events only. Raises like `read_link`.
    """
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    work, input, inventory, first_run_id = RecordedWork(), None, None, ""
    async for event in handle.fetch_history_events(page_size=BEGINNING_EVENTS):
        if input is None:
            started = event.workflow_execution_started_event_attributes
            input, first_run_id = (
                await _input_of(client, workflow_id, started),
                started.first_execution_run_id,
            )
            if input.carried and not input.carried.is_upgrade:
                return input, input.carried.inventory, first_run_id
        if inventory := await inventory_from(client, work.add(event)):
            break
    if input is None:
        raise ValueError(f"the history of {workflow_id!r}, run {run_id!r}, is empty")
    return input, inventory or (input.carried.asked_before if input.carried else None), first_run_id


async def read_input(client: Client, workflow_id: str, run_id: str) -> RunInput:
    """Read one link's input. Raises like `read_link`."""
    return await _input_of(client, workflow_id, await read_start(client, workflow_id, run_id))


async def _input_of(
    client: Client, workflow_id: str, started: WorkflowExecutionStartedEventAttributes
) -> RunInput:
    """Decode a run's input. Raises `RunNotFound` for a workflow that is not a run, and like
    `decode`.
    """
    if started.workflow_type.name != names.WORKFLOW:
        raise RunNotFound(not_a_run(workflow_id, started.workflow_type.name))
    if not started.input.payloads:
        raise RunNotFound(_not_an_input(workflow_id, "it was given nothing"))
    try:
        return await decode(client, started.input.payloads, RunInput)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunNotFound(
            _not_an_input(workflow_id, f"{place + ': ' if place else ''}{first['msg']}")
        ) from error


def _not_an_input(workflow_id: str, why: str) -> str:
    return (
        f"the workflow {workflow_id!r} was started as a run, but its input is not a run's: {why}. "
        "start_run makes one, and run_input one for other SDKs; `temporal workflow terminate -w "
        f"{shell_word(workflow_id)}` ends this one"
    )


def not_a_run(workflow_id: str, type: str) -> str:
    """Return the error text for the id of something else: a session, or a workflow that is not
    perdure's.
    """
    if type == names.SESSION_WORKFLOW:
        return (
            f"{workflow_id!r} is the id of a session, not of a run: session(client, None, "
            f"{workflow_id!r}) reads it, and its runs are {workflow_id + '/1'!r} and those that "
            "follow"
        )
    return (
        f"{workflow_id!r} is the id of a workflow of the type {type!r}, not of a run: expected an "
        f"id that `perdure ls` lists. `temporal workflow show -w {shell_word(workflow_id)}` shows "
        "what it is"
    )


async def read_start(
    client: Client, workflow_id: str, run_id: str
) -> WorkflowExecutionStartedEventAttributes:
    """Read one link's start, the first event of its history. Raises `RPCError` for an unknown
    link.
    """
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in handle.fetch_history_events(page_size=1):
        return event.workflow_execution_started_event_attributes
    raise ValueError(f"the history of {workflow_id!r}, run {run_id!r}, is empty")


async def _fold(
    client: Client, workflow_id: str, run_id: str, history: Sequence[HistoryEvent]
) -> RecordedLink:
    """Build the link from the events of its history."""
    if not history or history[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise ValueError(f"the history of run {run_id!r} does not begin with the start of a run")
    input = await _input_of(
        client, workflow_id, history[0].workflow_execution_started_event_attributes
    )
    work = RecordedWork(history)
    inputs = [
        await each.input_fields(client) for each in work.activities_of(CONVERSATION_ACTIVITIES)
    ]
    references = [each.conversation for each in inputs if each.conversation is not None]
    link = RecordedLink(run_id, history, input, work, references, await loaded_pieces(client, work))
    carried = input.carried
    link.inventory = (
        carried.inventory if carried and not carried.is_upgrade else await _inventory(client, work)
    )
    link.inventory = link.inventory or (carried.asked_before if carried else None)
    return link


async def _inventory(client: Client, work: RecordedWork) -> Inventory | None:
    for activity in work.activities:
        if inventory := await inventory_from(client, activity):
            return inventory
    return None


async def inventory_from(client: Client, step: RecordedStep | None) -> Inventory | None:
    """Return the inventory from this activity; None for any other step, and for an inventory that
    is not final.
    """
    if (
        not isinstance(step, RecordedActivity)
        or step.type != activities.INVENTORY
        or not step.result
    ):
        return None
    inventory = await decode(client, step.result, Inventory)
    return inventory if inventory.is_final else None
