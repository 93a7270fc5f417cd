"""What requests of OpenAI's clients start: runs, turns of sessions, and nothing twice."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..client import RunHandle, Session
from ..client.sessions.session import instructions
from ..errors import RunNotFound
from ..json_types import JsonObject, JsonView
from ..messages import Message, TextPart
from ..options import RunOptions
from .attempts import Attempt
from .ending import GatewayEnds
from .gateway import Gateway, OfferedAgent, digest_of
from .ghosts import without_files
from .identity import Identity
from .problems import run_headers

ORIGIN_NAME = "gateway:openai"
"""`PerdureOrigin` of runs that are started here."""
SESSION_HEADERS = ("x-perdure-session", "x-openwebui-chat-id")
"""Name the session that a request is a turn of."""
MESSAGE_HEADERS = ("idempotency-key", "x-perdure-message")
"""Name a request: what comes again under one of them counts once."""
RETRY_HEADER = "x-stainless-retry-count"
"""By which OpenAI's own clients say that a request comes again; they send no key."""


@dataclass
class AgentRequest:
    """One request: who asks, and for which agent."""

    gateway: Gateway
    identity: Identity
    offer: OfferedAgent
    http: Request
    attempt: Attempt | None = None
    """Set once it has started a run without a key."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the request."""
        return self.http.headers

    @property
    def key(self) -> str:
        """What names the request; "" for nothing."""
        return _first(self.headers, MESSAGE_HEADERS)

    @property
    def session(self) -> str:
        """The id of the session that its headers name; "" for none."""
        return _first(self.headers, SESSION_HEADERS)

    @property
    def is_retry(self) -> bool:
        """Whether the client says that it has sent the request before."""
        return self.headers.get(RETRY_HEADER, "0") not in ("", "0")

    async def start_task(self, messages: Sequence[Message], *, stream: bool) -> RunHandle:
        """Start one call of the agent's model, without tools and without its instructions."""
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
        """What the agent's conversations begin with."""
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
        """Start a run with this conversation, unless the request has started one before and has lost its answer.

        `request` says what is equal to it; `about` is kept in the run's memo.
        """
        arguments: JsonObject = {"messages": messages, "options": options, "origin": origin, "about": about}
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
        """Return the answer; a retry goes on with the run where the client is gone before it comes.

        Raises `GatewayEnds` when this process ends: without a key, no other one would know a retry for what it is.
        """
        try:
            async with self.gateway.ending.waits.limit():
                return await (self.attempt.whole(answer) if self.attempt else answer)
        except GatewayEnds as ends:
            if self.attempt:
                ends.headers |= {"x-should-retry": "false", **run_headers(self.attempt.run)}
            raise

    def stream(self, response: StreamingResponse) -> StreamingResponse:
        """Return the response; a retry goes on with the run where the client is gone before its end."""
        return self.attempt.stream(response) if self.attempt else response

    async def say_in_session(self, id: str, users: Sequence[Message]) -> RunHandle | None:
        """Send the last of the users' messages to the session of that id, of which the client tells all of them.

        None where what was said before is not what the session knows: it was edited, or another answer is wanted.
        """
        session = await self.gateway.session(self.identity, id, self.offer)
        said = [without_files(each.text) for each in users]
        known = await _said_in(session)
        if known not in (said[:-1], said):
            return None
        if known == said and not self.key:
            return None  # The same once more: another answer is wanted, or a retry without a key.
        if any(not isinstance(part, TextPart) for part in users[-1].parts):
            return None  # Sessions take text.
        message = self.key or digest_of([id, said])
        return await session.send(users[-1].text, while_busy="steer", message_id=message, by=self.identity.name)


def _first(headers: Mapping[str, str], names: Sequence[str]) -> str:
    return next((value for name in names if (value := headers.get(name, "").strip())), "")


async def _said_in(session: Session) -> list[str]:
    """Return what users have said in a session; [] for one that has not begun."""
    try:
        messages = await session.messages()
    except RunNotFound:
        return []
    return [without_files(each.text) for each in messages if each.role == "user"]
