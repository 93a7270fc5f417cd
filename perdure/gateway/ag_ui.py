"""AG-UI: a thread is a session, and a wait for a person interrupts its run until somebody resumes
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_ui import core
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..messages import Message, Part, TextPart
from ..tool_calls import PendingApproval
from .ag_ui_stream import ThreadStream
from .chats import Chat, ChatTurn, PersonDecision, stop_route
from .gateway import Gateway
from .identity import Identity
from .operations import json_body, known_route
from .problems import HttpProblem, run_headers
from .sse import event_stream, with_keepalives
from .words import media_part

PREFIX = "/ag-ui"


class AgUiDialect:
    """`/ag-ui/AGENT`: the address of an `HttpAgent`."""

    name = "ag-ui"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def run(request: Request, identity: Identity) -> Response:
            offer = gateway.offer(request.path_params["agent"])
            given = core.RunAgentInput.model_validate(await json_body(request))
            return await _answer(Chat(gateway, identity, offer, given.thread_id), given, request)

        return [
            known_route(f"{PREFIX}/{{agent}}", "POST", gateway, run),
            stop_route(f"{PREFIX}/{{agent}}/{{chat}}/stop", gateway),
        ]


async def _answer(chat: Chat, given: core.RunAgentInput, request: Request) -> Response:
    """Pass on the new part of a request, and return the stream of the thread's run."""
    turn = await chat.turn()
    if turn is not None and given.resume:
        await chat.decide(turn, _decisions(turn, given.resume))
    last = given.messages[-1] if given.messages else None
    said = _said_in(last) if isinstance(last, core.UserMessage) else None
    if last and said and not (turn and await _was_said(turn, said.text)):
        found = await chat.say(said, last.id, turn)
        if found.has_ended and (latest := await chat.turn()):
            found = latest.found  # A message of an earlier turn is not new.
    elif turn is not None:
        found = turn.found
    else:
        raise HttpProblem(
            422,
            "invalid",
            f"There are no messages in the thread {given.thread_id!r} yet: send a message",
        )
    stream = ThreadStream(chat, found, given, request)
    return event_stream(with_keepalives(stream.frames()), headers=run_headers(found.id))


async def _was_said(turn: ChatTurn, text: str) -> bool:
    """Return whether a run that waits for a person already has this message: the client has lost
    the question.
    """
    if not turn.pending:
        return False
    said = [each.text for each in await turn.found.handle.messages() if each.role == "user"]
    return said[-1:] == [text]


def _said_in(message: core.UserMessage) -> Message:
    """Return a person's message. Raises `HttpProblem` for a file that only its provider has."""
    if isinstance(message.content, str):
        return Message.user(message.content)
    return Message(role="user", parts=[_part_of(each) for each in message.content])


def _part_of(part: core.ContentPart) -> Part:
    if isinstance(part, core.TextPart):
        return TextPart(value=part.text)
    if isinstance(part.source, core.FileSource):
        raise HttpProblem(
            422,
            "invalid",
            "messages: expected the content of a file or its URL, not its id elsewhere",
        )
    return media_part(part.source.value, part.source.mime_type or f"{part.type}/*")


def _decisions(turn: ChatTurn, entries: Sequence[core.ResumeEntry]) -> dict[str, PersonDecision]:
    """Return the decisions; an entry without a decision leaves its call waiting.

    Raises `HttpProblem` for an unreadable one.
    """
    pending = {turn.id_of(each): each for each in turn.pending}
    found: dict[str, PersonDecision] = {}
    for entry in entries:
        waiting = pending.get(entry.interrupt_id)
        if waiting is not None and entry.status == "resolved":
            found[entry.interrupt_id] = _decision(waiting, entry.payload)
    return found


def _decision(pending: PendingApproval, payload: Any) -> PersonDecision:
    given = payload if isinstance(payload, dict) else {"answer": payload}
    if pending.question and isinstance(given.get("answer"), str):
        return PersonDecision(True, answer=given["answer"])
    if isinstance(given.get("approved"), bool):
        edited = given.get("arguments")
        reason = given.get("reason")
        arguments = edited if isinstance(edited, dict) else None
        return PersonDecision(given["approved"], str(reason or "denied"), arguments)
    expected = (
        '{"answer": "…"}, or {"approved": false}'
        if pending.question
        else '{"approved": true or false}'
    )
    raise HttpProblem(
        422,
        "invalid",
        f"resume: {payload!r} is not a decision about {pending.name}: expected {expected}",
    )
