"""Starts runs and turns of sessions for OpenAI clients' requests, each once."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..client import RunHandle, Session
from ..client.sessions.session import instructions
from ..errors import RunNotFound, SessionError
from ..json_types import JsonObject, JsonView
from ..messages import Message, Part, TextPart
from ..options import RunOptions
from .attempts import Attempt
from .ending import GatewayEnds
from .gateway import Gateway, OfferedAgent, digest_of
from .ghosts import without_files
from .held import begun
from .identity import Identity
from .problems import run_headers
from .words import text_and_parts

ORIGIN_NAME = "gateway:openai"
"""The `PerdureOrigin` of runs started here."""
SESSION_HEADERS = ("x-perdure-session", "x-openwebui-chat-id")
"""Headers that name a request's session."""
MESSAGE_HEADERS = ("idempotency-key", "x-perdure-message")
"""Headers that name a request: repeated requests under one of them count once."""
RETRY_HEADER = "x-stainless-retry-count"
"""The header by which OpenAI's own clients mark a retry; they send no key."""


@dataclass
class AgentRequest:
    """One request: the client and the agent."""

    gateway: Gateway
    identity: Identity
    offer: OfferedAgent
    http: Request
    attempt: Attempt | None = None
    """Set after the request has started a run without a key."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request."""
        return self.http.headers

    @property
    def key(self) -> str:
        """The idempotency key of the request; "" for none."""
        return _first(self.headers, MESSAGE_HEADERS)

    @property
    def session(self) -> str:
        """The id of the session named by the headers; "" for none."""
        return _first(self.headers, SESSION_HEADERS)

    @property
    def is_retry(self) -> bool:
        """Whether the client marks the request as a retry."""
        return self.headers.get(RETRY_HEADER, "0") not in ("", "0")

    async def start_task(self, messages: Sequence[Message], *, stream: bool) -> RunHandle:
        """Start one call of the agent's model, without tools and without the agent's
        instructions.
        """
        plain = self.offer.agent.model_copy(update={"tools": [], "inputs": [], "outputs": None})
        run, _ = await self.gateway.start(
            self.identity,
            OfferedAgent(self.offer.name, plain, self.offer.path),
            messages=messages,
            options=RunOptions(stream=stream, max_iterations=1),
            origin=f"{ORIGIN_NAME}:task",
        )
        return run

    @property
    def instructions(self) -> list[Message]:
        """The initial instructions of the agent's conversations."""
        return instructions(self.offer.agent, {})

    async def start_run(
        self,
        messages: Sequence[Message],
        request: Any,
        options: RunOptions,
        origin: str = ORIGIN_NAME,
        *,
        about: JsonView | None = None,
    ) -> RunHandle:
        """Start a run with this conversation, unless the request has already started one and lost
        its answer.

        `request` is the part that identifies equal requests; `about` is stored in the run's memo.
        """
        arguments: JsonObject = {
            "messages": messages,
            "options": options,
            "origin": origin,
            "about": about,
        }
        if self.key:
            run, _ = await self.gateway.start(self.identity, self.offer, key=self.key, **arguments)
            return run
        digest, attempts = (
            digest_of([self.identity.tenant, self.identity.name, self.offer.name, request]),
            self.gateway.attempts,
        )
        lost = await attempts.take_lost(digest) if self.is_retry else None
        if lost:
            run = (await self.gateway.run(self.identity, lost)).handle
        else:
            run, _ = await self.gateway.start(self.identity, self.offer, **arguments)
        self.attempt = attempts.note(digest, run.id, self.http)
        return run

    async def whole(self, answer: Awaitable[Response]) -> Response:
        """Return the answer; if the client disconnects before it, a retry continues with the run.

        Raises `GatewayEnds` when this process ends: without a key, no other process would recognize
        a retry.
        """
        try:
            async with self.gateway.ending.waits.limit():
                return await (self.attempt.whole(answer) if self.attempt else answer)
        except GatewayEnds as ends:
            if self.attempt:
                ends.headers |= {"x-should-retry": "false", **run_headers(self.attempt.run)}
            raise

    def stream(self, response: StreamingResponse) -> StreamingResponse:
        """Return the response; if the client disconnects before its end, a retry continues with the
        run.
        """
        return self.attempt.stream(response) if self.attempt else response

    async def say_in_session(self, id: str, users: Sequence[Message]) -> RunHandle | None:
        """Send the last user message to the session of that id; the client sends the whole history.

        Return None if the history differs from the session's: a message was edited, or another
        answer is wanted. Return None also for an image or a file that the session has no room for.
        """
        session = await self.gateway.session(self.identity, id, self.offer)
        said = [_words(each) for each in users]
        known = await _said_in(session)
        if not _agree(said[:-1], known) and not (self.key and _agree(said, known)):
            # Also the same message again without a key: another answer is wanted, or it is a retry.
            return None
        text, parts = text_and_parts(users[-1].parts)
        try:
            return await self.send(session, text, parts, self.key or digest_of([id, said]))
        except SessionError as error:
            if parts and error.kind == "too_large":
                return None
            raise

    async def send(
        self, session: Session, text: str, parts: Sequence[Part], message_id: str
    ) -> RunHandle:
        """Send a message to the session, and return the run that reads it, which has begun. Raises
        as `unless_held`.
        """
        run = await session.send(
            text, parts=parts, while_busy="steer", message_id=message_id, by=self.identity.name
        )
        if parts:  # It may have waited for the run before it.
            await begun(self.gateway, self.identity, run)
        return run


def _words(message: Message) -> list[str]:
    """Return the text of a user's message, and then the sources of its images and files."""
    return [
        without_files(message.text),
        *(each.source for each in message.parts if not isinstance(each, TextPart)),
    ]


def _agree(said: Sequence[list[str]], known: Sequence[list[str]]) -> bool:
    """Return whether the client's user messages are those of the session; the client may leave out
    files.
    """
    pairs = zip(said, known, strict=False)
    return len(said) == len(known) and all(each in (other, other[:1]) for each, other in pairs)


def _first(headers: Mapping[str, str], names: Sequence[str]) -> str:
    return next((value for name in names if (value := headers.get(name, "").strip())), "")


async def _said_in(session: Session) -> list[list[str]]:
    """Return the user messages of a session; [] for one that has not begun."""
    try:
        messages = await session.messages()
    except RunNotFound:
        return []
    return [_words(each) for each in messages if each.role == "user"]
