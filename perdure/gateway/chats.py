"""A front end's chat: a session of one agent, its waits for a person, and its current run with
complete texts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from ..client import Session
from ..conversation import Append
from ..errors import ApprovalError
from ..events import ASKING_EVENTS, TERMINAL_EVENTS, RunEvent
from ..json_types import JsonObject
from ..messages import Message
from ..settings.agent_file import session_settings
from ..tool_calls import PendingApproval
from .gateway import FoundRun, Gateway, OfferedAgent, digest_of
from .held import begun, until_held
from .identity import Identity
from .operations import known_route
from .problems import HttpProblem
from .words import text_and_parts

TAKING_TIMEOUT = timedelta(seconds=3)
"""Time to wait for a worker to accept a message."""


@dataclass(frozen=True)
class PersonDecision:
    """A person's decision about a waiting call: yes, no, or the answer to a question."""

    approved: bool
    reason: str = "denied"
    arguments: JsonObject | None = None
    """Replacements for the model's arguments."""
    answer: str | None = None

    async def send(self, found: FoundRun, pending: PendingApproval, *, by: str) -> None:
        """Pass the decision on to the run that waits, which may be a child run. Raises
        `ApprovalError`.
        """
        run = found.id if pending.run_id is None else pending.run_id
        handle = found.handle if run == found.id else found.handle.called(run)
        call, digest = pending.call_id, pending.digest
        if pending.question and self.answer is not None:
            await handle.answer(call, self.answer, digest=digest, by=by)
        elif self.approved:
            await handle.approve(call, digest=digest, arguments=self.arguments, by=by)
        else:
            await handle.deny(call, self.reason, digest=digest, by=by)


@dataclass(frozen=True)
class ChatTurn:
    """A chat's current or last run, and its waits for a person."""

    found: FoundRun
    pending: Sequence[PendingApproval] = ()

    def id_of(self, pending: PendingApproval) -> str:
        """Return the name of a waiting call, to which its decision refers."""
        return waiting_id(self.found, pending.run_id, pending.digest)


def waiting_id(found: FoundRun, run_id: str | None, digest: str) -> str:
    """Return the name of a call that waits or has waited, unique among the calls of all runs."""
    return digest_of([found.id, found.first_run_id, run_id or found.id, digest])


@dataclass(frozen=True)
class Chat:
    """One chat, as seen by one client."""

    gateway: Gateway
    identity: Identity
    offer: OfferedAgent
    id: str

    async def _session(self) -> Session:
        return await self.gateway.session(self.identity, self.id, self.offer)

    async def turn(self) -> ChatTurn | None:
        """Return the chat's current turn; None before the first message."""
        session = await self._session()
        status = await session.status()
        run = status.run_id or (f"{session.id}/{status.turn}" if status.turn else "")
        found = await self.run(run) if run else None
        return ChatTurn(found, status.pending_approvals) if found else None

    async def run(self, id: str) -> FoundRun | None:
        """Return a run of this chat; None for any other id, and for a run that is no longer
        retained.
        """
        session = await self._session()
        if id.rpartition("/")[0] != session.id:
            return None
        try:
            return await self.gateway.run(self.identity, id)
        except HttpProblem:
            return None

    async def say(self, said: Message, key: str, before: ChatTurn | None) -> FoundRun:
        """Send a message, which counts once per key, and return the run that reads it.

        `before` is the chat's turn before the message. Raises as `Session.send` does, and
        `HttpProblem` for a message that would wait for a decision.
        """
        text, parts = text_and_parts(said.parts)
        if not (text.strip() or parts):
            raise HttpProblem(422, "invalid", "the message is empty: expected a text")
        pending, id = before.pending if before else (), _message_id(said, key)
        is_queued = parts or session_settings(self.offer.agent).while_busy == "queue"
        if pending and is_queued and not await self.has_taken(said, key):
            raise HttpProblem(
                409,
                "waiting",
                f"{pending[0].name} waits for a decision, and the message waits behind it",
            )
        session = await self._session()
        sent = await session.send(text, parts=parts, message_id=id, by=self.identity.name)
        found = await begun(self.gateway, self.identity, sent)
        if before and before.found.id == found.id and not before.found.has_ended:
            return await self._reader_of(found, said.text)
        return found

    async def has_taken(self, said: Message, key: str) -> bool:
        """Return whether the message was sent before, judging without its session's earlier
        links.
        """
        session = await self._session()
        sent = self.gateway.client.get_workflow_handle(session.id).get_update_handle(
            _message_id(said, key)
        )
        try:
            await sent.result(rpc_timeout=TAKING_TIMEOUT)
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            return True  # It is on its way to a worker.
        except WorkflowUpdateFailedError:
            return False
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _reader_of(self, found: FoundRun, text: str) -> FoundRun:
        """Return the run that reads a message sent during the current run, as soon as one reads it.

        A wait for a person takes precedence: the current run shows it.
        """
        if any(each.role == "user" and each.text == text for each in await found.handle.messages()):
            return found
        async with aclosing(follow(self.gateway, found)) as events:
            async for event in events:
                if isinstance(event, WaitsForPerson) or any(
                    each.text == text for each in added_messages(event)
                ):
                    return found
        turn = await self.turn()
        return turn.found if turn else found

    async def decide(self, turn: ChatTurn, decisions: Mapping[str, PersonDecision]) -> None:
        """Pass on decisions about waiting calls, and skip those that no longer wait.

        Raises `ApprovalError` for an invalid decision.
        """
        made = [(each, decisions.get(turn.id_of(each))) for each in turn.pending]
        for pending, decision in made:
            try:
                if decision is not None:
                    await decision.send(turn.found, pending, by=self.identity.name)
            except ApprovalError as error:
                if error.kind not in ("decided", "unknown"):
                    raise  # For the others, the stream shows the earlier decision.

    async def stop(self) -> bool:
        """Cancel the current run, and return whether there was one."""
        turn = await self.turn()
        if turn is None or turn.found.has_ended:
            return False
        await turn.found.handle.cancel("the client has stopped it")
        return True


def chat_named_in(request: Request, gateway: Gateway, identity: Identity) -> Chat:
    """Return the chat named by the path. Raises `HttpProblem`."""
    return Chat(
        gateway, identity, gateway.offer(request.path_params["agent"]), request.path_params["chat"]
    )


def stop_route(
    path: str, gateway: Gateway, refuse: Callable[[HttpProblem], Response] | None = None
) -> Route:
    """Return the route with which a front end stops a chat's run; `refuse` as in `known_route`."""

    async def stop(request: Request, identity: Identity) -> Response:
        return JSONResponse({"stopped": await chat_named_in(request, gateway, identity).stop()})

    return known_route(path, "POST", gateway, stop, refuse)


def _message_id(said: Message, key: str) -> str:
    """Return the id under which a session accepts the message once."""
    text, parts = text_and_parts(said.parts)
    return digest_of([key, text, *(each.model_dump(mode="json") for each in parts)])


@dataclass(frozen=True)
class WaitsForPerson:
    """The last item of a stream whose run waits for a person."""

    pending: Sequence[PendingApproval]


async def follow(
    gateway: Gateway,
    found: FoundRun,
    after: int | str = 0,
    shown: CompleteText | None = None,
) -> AsyncGenerator[RunEvent | WaitsForPerson, None]:
    """Yield the events of a run and of its child runs, until it ends or waits for a person.

    Texts are complete: `token` events also carry the model's text before tool calls. Raises
    `HttpProblem` if the run is held.
    """
    shown, seq, status = shown or CompleteText(), 0, None
    if after not in (0, "0") and not found.has_ended:
        status = await found.handle.status()
        later = await found.handle.events(after, children=True) if status.pending_approvals else ()
        if status.pending_approvals and all(each.run_id for each in later):
            yield WaitsForPerson(status.pending_approvals)
            return
    async with aclosing(
        until_held(gateway, found.id, gateway.stream(found, after, children=True))
    ) as events:
        async for event in events:
            for each in shown.whole(event):
                yield each
            if event.type in TERMINAL_EVENTS and event.run_id is None:
                return
            seq = seq if event.run_id else event.seq
            is_news = status is None or event.run_id or event.seq > status.last_seq
            if event.type in ASKING_EVENTS and is_news and not found.has_ended:
                status = await found.handle.status()
            # Events that the run emitted before the wait come before it.
            if status and status.pending_approvals and status.last_seq <= seq:
                yield WaitsForPerson(status.pending_approvals)
                return


def added_messages(event: RunEvent) -> Iterator[Message]:
    """Yield the messages that an event adds to the conversation."""
    if event.type == "messages_updated" and event.run_id is None:
        for operation in event.operations:
            if isinstance(operation, Append):
                yield from operation.messages


class CompleteText:
    """Tracks the text of an iteration that a reader has, and adds text that no separate event
    carries.

    `has_begun` is true if the reader's position is after the event with the run's initial
    conversation.
    """

    def __init__(self, *, has_begun: bool = False) -> None:
        self._has_begun = has_begun
        self._iteration = 0
        self._text = ""

    def whole(self, event: RunEvent) -> Iterator[RunEvent]:
        """Yield the event, preceded by the rest of the text that the event completes."""
        match "" if event.run_id else event.type:
            case "llm_start":
                self._iteration, self._text = event.iteration, ""
            case "text_reset":
                self._text = ""
            case "token":
                self._text += event.data["token"]
            case "llm_complete":
                yield from self._rest(event, event.data.get("text", ""))
            case "messages_updated":
                event = self._without_beginning(event)
                for message in self._answers_in(event):
                    yield from self._rest(event, message.text)
        yield event

    def _answers_in(self, event: RunEvent) -> Iterator[Message]:
        """Yield the model's text in the iteration that the reader has followed."""
        if event.iteration == self._iteration:
            yield from (each for each in added_messages(event) if each.role == "assistant")

    def _without_beginning(self, event: RunEvent) -> RunEvent:
        """Return the event with only its own change of the conversation: the run's first event also
        holds the initial messages.
        """
        if self._has_begun:
            return event
        self._has_begun = True
        return event.model_copy(update={"operations": event.operations[-1:]})

    def _rest(self, event: RunEvent, text: str) -> Iterator[RunEvent]:
        if not text:
            return
        if not text.startswith(self._text):
            yield event.model_copy(update={"type": "text_reset", "data": {}})
            self._text = ""
        if rest := text[len(self._text) :]:
            yield event.model_copy(update={"type": "token", "data": {"token": rest}})
        self._text = text
