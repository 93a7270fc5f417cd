"""What one process of a gateway takes: the size of a request, requests at a time, requests a second of each client."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cachetools import LRUCache
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .ending import GatewayEnds, OpenRequests
from .identity import ANYBODY, IDENTIFIED, Authenticator, Identity, bearer_of, identity_of
from .metrics import Meters
from .operations import problem_json
from .problems import HttpProblem, too_large

MAX_CLIENTS = 10_000
"""Whose rates are known at the same time."""
MAX_JUDGED = 8
"""So many requests at a time are judged of an address that has sent too many whose token nobody knows."""
BURST_SECONDS = 5.0
"""So many seconds' worth of its rate a client may ask for at once."""


@dataclass(frozen=True)
class Limits:
    """What one process takes. Others behind the same balancer count for themselves."""

    max_bytes: int = 16 * 1024 * 1024
    """Of a request."""
    max_open: int = 1000
    """Requests and streams at a time."""
    max_open_each: int = 500
    """The same of each client."""
    rate: float | None = None
    """Requests a second of each client; None for as many as it likes."""
    body_seconds: float = 120.0
    """So long a request may take to come: one that never does would keep its place."""


USUAL_LIMITS = Limits()

Refuse = Callable[[HttpProblem], ASGIApp]
"""Writes a refusal in a protocol's own form."""


class RequestLimiter:
    """Lets requests in, counts them, and refuses what is too much, in the form of their protocol.

    A client is who asks; until that is known, and where nobody is asked, it is an address: those that a proxy sends
    have one address, unless it says theirs (`FORWARDED_ALLOW_IPS`). From an address that has sent too many requests
    whose token nobody knows, those alone are let in that one of the authenticators knows; a few are judged at a time.
    """

    def __init__(
        self, limits: Limits, meters: Meters, ending: OpenRequests, authenticators: Sequence[Authenticator] = ()
    ) -> None:
        self._limits = limits
        self._authenticators = authenticators
        self._judging: Counter[str] = Counter()
        self._meters = meters
        self._ending = ending
        self._open: Counter[str] = Counter()
        self._rates = _Rates(limits.rate)
        self._known: LRUCache[str, str] = LRUCache(MAX_CLIENTS)
        """The clients whose tokens were good before, by the tokens' digests."""

    def guarding(self, app: ASGIApp, protocol: str, refuse: Refuse = problem_json) -> ASGIApp:
        """Return the application behind these limits."""

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            request = _Request(self._limits, receive, send, refuse, scope)
            client = _Client(scope)
            with self._meters.request(protocol, request), self._place(client):
                try:
                    async with self._ending.requests.limit():
                        await self._admit(scope, client)
                        await app(scope, request.receive, request.send)
                except HttpProblem as problem:
                    if not request.status:
                        await request.refuse(problem)
                    elif not (request.kind or isinstance(problem, GatewayEnds)):
                        raise
            if request.status == 401:
                self._known.pop(client.token, None)

        return admitted

    @contextmanager
    def _place(self, client: _Client) -> Iterator[None]:
        if known := self._known.get(client.token):
            client.name, client.is_known = known, True
        self._open[client.name] += 1
        try:
            yield
        finally:
            self._leave(client.name)

    def _leave(self, name: str) -> None:
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]

    async def _admit(self, scope: Scope, client: _Client) -> None:
        """Raises `HttpProblem` for a request that is too large or too much, and for each once the process ends."""
        if self._ending.has_begun:
            raise GatewayEnds
        limits, headers = self._limits, Headers(scope=scope)
        length = headers.get("content-length", "0")[:18]
        if len(headers.getlist("authorization")) > 1:
            raise HttpProblem(400, "two_tokens", "expected one header `Authorization` at most")
        if length.isdecimal() and int(length) > limits.max_bytes:
            raise too_large(limits.max_bytes)
        if self._open.total() > limits.max_open:
            raise _too_many("open", f"{limits.max_open} requests are open at this gateway")

        def note(identity: Identity) -> None:
            if identity is not ANYBODY and client.name != (name := repr((identity.tenant, identity.name))):
                self._rates.give_back(client.name)
                self._count_for(client, name)

        scope[IDENTIFIED] = note
        try:
            self._count(client)
        except HttpProblem:
            if (identity := await self._judge(headers, client)) is None:
                raise
            self._count_for(client, repr((identity.tenant, identity.name)))

    async def _judge(self, headers: Headers, client: _Client) -> Identity | None:
        """Return who asks from an address that has asked too much; None where that is not known."""
        address = client.name
        if not self._authenticators or client.is_known or self._judging[address] >= MAX_JUDGED:
            return None
        self._judging[address] += 1
        try:
            return await identity_of(headers, self._authenticators)
        except HttpProblem:
            return None
        finally:
            self._judging[address] -= 1
            self._judging = +self._judging

    def _count_for(self, client: _Client, name: str) -> None:
        """Count a request for who asks, instead of its address. Raises `HttpProblem` where that is too much."""
        if client.token:
            self._known[client.token] = name
        client.is_known = True
        self._leave(client.name)
        client.name = name
        self._open[name] += 1
        self._count(client)

    def _count(self, client: _Client) -> None:
        """Raises `HttpProblem` where a client has too many requests."""
        if self._open[client.name] > self._limits.max_open_each:
            raise _too_many("open_each", f"{self._limits.max_open_each} requests of yours are open at this gateway")
        if (wait := self._rates.take(client.name)) > 0.0:
            raise _too_many("rate", f"more than {self._limits.rate:g} requests a second", math.ceil(wait))


class _Client:
    """Who a request counts for."""

    def __init__(self, scope: Scope) -> None:
        token = bearer_of({"authorization": Headers(scope=scope).get("authorization", "")})
        self.token = hashlib.sha256(token.encode()).hexdigest() if token else ""
        """The digest of the bearer token; "" without one."""
        self.name = str((scope.get("client") or ("",))[0])
        """The client's address, until its name is known."""
        self.is_known = False


def _too_many(reason: str, text: str, seconds: int = 1) -> HttpProblem:
    message = f"{text}: ask again after {seconds} s"
    return HttpProblem(429, f"too_many_{reason}", message, headers={"Retry-After": str(seconds)})


def _too_slow(seconds: float) -> HttpProblem:
    return HttpProblem(408, "too_slow", f"a request comes within {seconds:g} s: send it again")


class _Request:
    """One request on its way: what it has sent, and how it is answered."""

    def __init__(self, limits: Limits, receive: Receive, send: Send, refuse: Refuse, scope: Scope) -> None:
        self.status = 0
        """Of the answer that has begun."""
        self.kind = ""
        """The kind of the refusal."""
        self.is_stream = False
        self.on_answer: Callable[[], None] = lambda: None
        self._limits = limits
        self._left = limits.max_bytes
        self._deadline: float | None = asyncio.get_running_loop().time() + limits.body_seconds
        """None once the request is whole: what is received then is that the client has gone."""
        self._fault: HttpProblem | None = None
        self._receive = receive
        self._send = send
        self._refuse = refuse
        self._scope = scope

    async def receive(self) -> Message:
        """Pass a message of the client on. Raises `HttpProblem` once the request is too large, or takes too long."""
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._fault = _too_slow(self._limits.body_seconds)
            raise self._fault from None
        if not message.get("more_body"):
            self._deadline = None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self._fault = too_large(self._limits.max_bytes)
            raise self._fault
        return message

    async def send(self, message: Message) -> None:
        """Pass a message to the client on; a request that was refused while it came is answered by that alone."""
        if self._fault is not None and not self.status:
            await self.refuse(self._fault)
        elif not self.kind:
            await self._pass_on(message)

    async def refuse(self, problem: HttpProblem) -> None:
        """Answer with a refusal."""
        self.kind = problem.kind
        await self._refuse(problem)(self._scope, self._receive, self._pass_on)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            self.on_answer()
        await self._send(message)


class _Rates:
    """How many requests each client may make yet: so many a second are added, up to a burst."""

    def __init__(self, rate: float | None) -> None:
        self._is_bounded = rate is not None
        self._rate = rate or 1.0
        self._burst = max(1.0, self._rate * BURST_SECONDS)
        self._left: LRUCache[str, tuple[float, float]] = LRUCache(MAX_CLIENTS)

    def take(self, client: str) -> float:
        """Take one; return after how many seconds there is one, 0 where there was."""
        if not self._is_bounded:
            return 0.0
        left = self._now(client)
        self._left[client] = (left - 1.0 if left >= 1.0 else left, time.monotonic())
        return 0.0 if left >= 1.0 else (1.0 - left) / self._rate

    def give_back(self, client: str) -> None:
        """Take one less."""
        self._left[client] = (self._now(client) + 1.0, time.monotonic())

    def _now(self, client: str) -> float:
        left, at = self._left.get(client, (self._burst, 0.0))
        return min(self._burst, left + (time.monotonic() - at) * self._rate)
