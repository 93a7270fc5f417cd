"""What a session is begun with by the first message to it: its input, its attributes, what the Temporal UI shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy

from ...payloads.limits import require_sendable
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.run import RunInput
from ...protocol.search_attributes import MAX_KEYWORD_CHARS, SESSION, STATUS
from ...protocol.session import SessionInput, WhileBusy
from ...protocol.shown import details_of, shown_name
from ...redaction import Redactor
from ...workflows.policies import WORKFLOW_TASK_TIMEOUT
from ..start_options import StartOptions, require_no_secret, start_arguments
from ..starting import own_attributes, with_registered
from .turns import SEPARATOR

MAX_ID_CHARS = 200
"""Of a session: its runs, and the runs that they call, have longer ids. Of a message, too."""


def require_id(id: str, what: str) -> None:
    """Raises ValueError for what can't be the id of a session, or of a message."""
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_CHARS or not id.isprintable() or id.strip() != id:
        raise ValueError(
            f"{what} {id!r:.300}: expected 1 to {MAX_ID_CHARS} printable characters, without blanks at its ends"
        )


def require_session_id(id: str) -> None:
    """Raises ValueError for what can't be the id of a session."""
    require_id(id, "session id")
    if SEPARATOR in id:
        raise ValueError(
            f"session id {id!r}: a {SEPARATOR!r} separates a session's id from the number of its run; write, for "
            f"example, {id.replace(SEPARATOR, '-')!r}"
        )


def require_while_busy(value: str | None) -> None:
    """Raises ValueError for what a message can't become while a run is under way; None says nothing about it."""
    if value is not None and value not in get_args(WhileBusy):
        raise ValueError(f"while_busy={value!r:.80}: expected {', '.join(map(repr, get_args(WhileBusy)))}")


@dataclass(frozen=True)
class Opening:
    """With what a session begins, if there is none of its id."""

    input: SessionInput
    arguments: dict[str, Any]
    """What Temporal is told of it, beside its input and search attributes."""
    start: StartOptions

    @property
    def attributes(self) -> dict[str, SearchAttributePair[Any]]:
        """Perdure's search attributes of the session, by name."""
        own = own_attributes(self.input.setup.agent, self.start)
        # A session is no run: what asks for running ones must not find it.
        own[STATUS.name] = SearchAttributePair(STATUS, "session")
        own[SESSION.name] = SearchAttributePair(SESSION, self.arguments["id"])
        return own

    def operation(self, names: list[str], attributes: TypedSearchAttributes) -> WithStartWorkflowOperation[Any, Any]:
        """What begins the session where it is not under way; Temporal takes each such object once."""
        input = self.input.model_copy(update={"search_attributes": names})
        return WithStartWorkflowOperation(
            SESSION_WORKFLOW,
            input,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **self.arguments,
        )


async def begin(client: Client, opening: Opening) -> None:
    """Begin the session without a message, unless it is under way. Raises `RPCError`."""

    async def start(names: list[str], attributes: TypedSearchAttributes) -> None:
        await client.start_workflow(
            SESSION_WORKFLOW,
            opening.input.model_copy(update={"search_attributes": names}),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **opening.arguments,
        )

    await with_registered(client, opening.attributes, opening.start, start)


async def opening_of(
    client: Client, input: SessionInput, start: StartOptions, known: Redactor, *, id: str, task_queue: str
) -> Opening:
    """With what the session begins. Raises what `session` and `Session.send` raise, unless the server does."""
    require_no_secret(known, start, id=id, task_queue=task_queue, user=input.user or "")
    await require_sendable(client, input, "What the session is begun with", lambda: "Give a smaller agent or inputs")
    described = _described(input, known.encoded(start.get("memo") or {}))
    return Opening(input, {"id": id, "task_queue": task_queue, **described, **start_arguments(start)}, start)


def _described(input: SessionInput, memo: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workflow task's time-out, and what the Temporal UI shows of the session."""
    setup = input.setup
    run = RunInput(agent=setup.agent, messages=[], options=setup.options)
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": f"{shown_name(setup.agent)}: a session",
        "static_details": details_of(run),
        "memo": {**memo, "agent": shown_name(setup.agent)} | ({"user": input.user} if input.user else {}),
    }


assert MAX_ID_CHARS <= MAX_KEYWORD_CHARS
