"""The UI message stream of Vercel's AI SDK (`useChat`): a chat is a session, an assistant's message
is a turn of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from ..events import RunEvent
from ..json_types import JsonObject
from ..messages import Message, TextPart
from .ai_sdk_stream import MessageStream
from .chats import (
    Chat,
    ChatTurn,
    CompleteText,
    PersonDecision,
    chat_named_in,
    stop_route,
    waiting_id,
)
from .gateway import FoundRun, Gateway, digest_of
from .identity import Identity
from .operations import json_body, known_route
from .problems import HttpProblem, Lenient, Listed
from .words import media_part, text_and_parts

PREFIX = "/ai"
RECENT_SECONDS = 300.0
"""Seconds after its end during which a resuming page gets the run's stream again: it may have
missed the end."""


class _Part(Lenient):
    type: str
    text: str = ""
    url: str = ""
    media_type: str = Field(default="", alias="mediaType")
    filename: str | None = None
    id: Any = None
    state: Any = None
    approval: Any = None


class _Message(Lenient):
    id: str
    role: Literal["user", "assistant", "system"]
    parts: Listed[_Part] = []

    @property
    def said(self) -> Message:
        """The user's text and files."""
        parts = [
            media_part(each.url, each.media_type, each.filename)
            if each.type == "file"
            else TextPart(value=each.text)
            for each in self.parts
            if each.type in ("text", "file")
        ]
        return Message(role="user", parts=parts)


class PageRequest(Lenient):
    """The body that `useChat` sends: the whole history, of which only decisions and the last user's
    text count.
    """

    id: str = Field(min_length=1, max_length=200)
    messages: Listed[_Message] = Field(min_length=1)
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    arguments: dict[str, JsonObject] = {}
    """Replacement arguments of an approved call, by approval id."""

    @property
    def decisions(self) -> dict[str, PersonDecision]:
        """The decisions in the history, by approval id."""
        found: dict[str, PersonDecision] = {}
        for part in (
            part
            for message in self.messages
            if message.role == "assistant"
            for part in message.parts
        ):
            given = part.approval
            if isinstance(given, Mapping) and isinstance(given.get("approved"), bool):
                id, reason = str(given.get("id")), given.get("reason")
                found[id] = PersonDecision(
                    given["approved"], str(reason or "denied"), self.arguments.get(id)
                )
        return found

    def times_said_after(self, id: str, text: str) -> int:
        """Return how often a user says this after the message of that id; 0 if there is no such
        message.
        """
        ids = [each.id for each in self.messages]
        after = self.messages[ids.index(id) + 1 :] if id in ids else []
        return sum(each.role == "user" and each.said.text == text for each in after)


class AiSdkDialect:
    """`/ai/AGENT`: the address for `api` of a page's `DefaultChatTransport`."""

    name = "ai-sdk"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def post(request: Request, identity: Identity) -> Response:
            asked = PageRequest.model_validate(await json_body(request))
            chat = Chat(gateway, identity, gateway.offer(request.path_params["agent"]), asked.id)
            return await _answer(chat, asked, request)

        async def resume(request: Request, identity: Identity) -> Response:
            turn = await chat_named_in(request, gateway, identity).turn()
            if turn is None or not _is_recent(turn.found):
                return Response(status_code=204)
            return MessageStream(turn.found, request, gateway).answer()

        one = f"{PREFIX}/{{agent}}/{{chat}}"
        return [
            known_route(f"{PREFIX}/{{agent}}", "POST", gateway, post, _refusal),
            known_route(f"{one}/stream", "GET", gateway, resume, _refusal),
            stop_route(f"{one}/stop", gateway, _refusal),
        ]


def _refusal(problem: HttpProblem) -> Response:
    """Return an error as the SDK shows it: the body's text is the error's message."""
    return PlainTextResponse(str(problem), status_code=problem.status, headers=problem.headers)


def _is_recent(found: FoundRun) -> bool:
    closed = found.described.close_time
    return closed is None or (datetime.now(UTC) - closed).total_seconds() < RECENT_SECONDS


async def _answer(chat: Chat, asked: PageRequest, request: Request) -> Response:
    """Pass on the new part of a request, and return the stream of the message that answers it."""
    turn, last, decisions = await chat.turn(), asked.messages[-1], asked.decisions
    if turn is not None:
        await chat.decide(turn, decisions)
    if last.role != "assistant":
        return MessageStream(await _send_message(chat, asked, turn), request, chat.gateway).answer()
    found = await chat.run(last.id) or (turn.found if turn else None)
    if found is None:
        raise HttpProblem(
            404,
            "not_found",
            f"There is nothing in the chat {chat.id!r} to continue: send a message",
        )
    after, shown = await _after_approvals(found, set(decisions))
    return MessageStream(found, request, chat.gateway, after, shown).answer()


async def _send_message(chat: Chat, asked: PageRequest, turn: ChatTurn | None) -> FoundRun:
    last = asked.messages[-1]
    key = last.id
    if asked.trigger == "regenerate-message":
        if turn and not turn.found.has_ended:
            return turn.found
        key = digest_of([last.id, asked.trigger, turn.found.id if turn else ""])
    elif turn and (answered := await _answer_question(chat, turn, asked)):
        return answered
    return await chat.say(last.said, key, turn)


async def _answer_question(chat: Chat, turn: ChatTurn, asked: PageRequest) -> FoundRun | None:
    """Take a message as the answer to the model's question; None if no question waits."""
    said, key = asked.messages[-1].said, asked.messages[-1].id
    text = said.text
    questions = [turn.id_of(each) for each in turn.pending if each.question]
    if questions:
        # A page that has not received the question sends the message before it again.
        if not await chat.has_taken(said, key):
            if text_and_parts(said.parts)[1]:
                return None  # An answer is a text.
            await chat.decide(turn, {questions[0]: PersonDecision(True, answer=text)})
        return turn.found
    times = asked.times_said_after(turn.found.id, text)
    if not times and turn.found.has_ended:
        return None
    recorded = await turn.found.handle.events(children=True)
    asks = {
        each.data["digest"]
        for each in recorded
        if each.type == "permission_requested" and _is_question(each)
    }
    if not turn.found.has_ended and asks - {
        each.data["digest"] for each in recorded if each.type == "permission_completed"
    }:
        # Unknown whether it waits, as after the loss of a worker: a guess could be misread.
        raise HttpProblem(
            503, "unconfirmed", "It is unknown whether the question still waits: send it again"
        )
    answers = [
        each
        for each in recorded
        if each.type == "permission_completed" and each.data["answer"] == text
    ]
    return turn.found if 0 < times <= len(answers) else None  # The same answer again.


def _is_question(event: RunEvent) -> bool:
    return bool(event.data["kind"] == "question")


async def _after_approvals(found: FoundRun, known: set[str]) -> tuple[str, CompleteText]:
    """Return the position after the last of these approvals, where their message continues."""
    recorded = await found.handle.events(children=True)
    places = [
        place
        for place, event in enumerate(recorded)
        if event.type == "permission_requested"
        and waiting_id(found, event.run_id, event.data["digest"]) in known
    ]
    past = recorded[: places[-1] + 1] if places else recorded
    has_begun = any(event.type == "messages_updated" and event.run_id is None for event in past)
    return past[-1].position if past else "0", CompleteText(has_begun=has_begun)
