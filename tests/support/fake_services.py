"""The strict fakes of model services on one loopback port, each below a path of its own and in its
service's form.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ..providers.servers.strict import Json, StrictServer
from .recorded_server import Received, Recorded, RecordedServer, recorded_server
from .wire_agents import ANTHROPIC, CHAT

_CONVERSATION = re.compile(r"conversation (\d+)")


@dataclass(frozen=True)
class Turn:
    """What a service does with one request that it does not refuse."""

    calls: Sequence[tuple[str, str]] = ()
    """The calls that its model asks for: the tool's own name, and arguments."""
    text: str = ""
    instead: Literal["", "declines", "breaks"] = ""
    """Its model refuses to answer, or it answers with status 500."""


class Account:
    """One conversation at one service."""

    def __init__(self, server: StrictServer, tools: Sequence[str], turns: Sequence[Turn]) -> None:
        self.server = server
        self.problems: list[str] = []
        """What the service has refused of requests."""
        self.bodies: list[Json] = []
        self._tools = tools
        self._turns = list(turns)

    def answer(self, body: Json) -> tuple[int, Any]:
        """Return the status and the body with which the service answers."""
        self.bodies.append(body)
        if problems := self.server.problems(body):
            self.problems += problems
            return self.server.refusal(problems[0])
        if refused := next((each for each in self.server.model_refuses if each in body), None):
            return self.server.refusal(self.server.model_refuses[refused])
        turn = self._turns.pop(0)
        if turn.instead == "breaks":
            return self.server.refusal("Internal error", 500)
        if turn.instead == "declines":
            return 200, self.server.declined()
        offered = dict(zip(self._tools, self.server.offered(body), strict=True))
        return 200, self.server.reply(
            [(offered.get(name, name), text) for name, text in turn.calls], turn.text
        )


class FakeServices(RecordedServer):
    """Answers `/NAME/…` as the service NAME does, in the conversation whose number stands in the
    request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._accounts: dict[tuple[str, str], Account] = {}

    def open(
        self, server: StrictServer, number: int, tools: Sequence[str], turns: Sequence[Turn]
    ) -> Account:
        """Return the account in which this conversation takes place: "conversation NUMBER" is said
        in it.
        """
        account = self._accounts[server.name, str(number)] = Account(server, tools, turns)
        return account

    def endpoint(self, server: StrictServer) -> str:
        return f"{self.url}/{server.name}" + ("" if server.api == ANTHROPIC else "/v1")

    def answer_to(self, request: Received) -> Recorded:
        [number, *_] = _CONVERSATION.findall(json.dumps(request.body))
        account = self._accounts[request.path.split("/")[1], number]
        status, answer = account.answer(request.body)
        if status == 200 and request.body.get("stream"):
            return Recorded.of_stream(b"".join(_events(account.server, answer)))
        return Recorded.of_json(answer, status)


def _events(server: StrictServer, answer: Json) -> Iterator[bytes]:
    for event in server.events(answer):
        head = b"" if server.api == CHAT else b"event: %b\n" % event["type"].encode()
        yield head + b"data: %b\n\n" % json.dumps(event).encode()
    if server.api == CHAT:
        yield b"data: [DONE]\n\n"


@asynccontextmanager
async def fake_services() -> AsyncIterator[FakeServices]:
    services = FakeServices()
    async with recorded_server(services):
        yield services
