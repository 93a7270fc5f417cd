"""Limits of one gateway process: size of a request, open requests, and requests per second of each
client.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from cachetools import LRUCache
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .ending import GatewayEnds, OpenRequests
from .identity import ANYBODY, IDENTIFIED, Authenticator, identity_of
from .operations import problem_json
from .problems import HttpProblem, too_large

MAX_CLIENTS = 10_000
"""The number of clients whose rates are tracked at the same time."""
BURST_SECONDS = 5.0
"""A client's burst, in seconds of its rate."""


@dataclass(frozen=True)
class Limits:
    """The limits of one process. Other processes behind the same balancer count separately."""

    max_bytes: int = 16 * 1024 * 1024
    """Size limit of a request."""
    max_open: int = 1000
    """Limit of requests and streams at a time."""
    max_open_each: int = 500
    """The same for each client."""
    rate: float | None = None
    """Requests per second of each client; None for no limit."""
    body_seconds: float = 120.0
    """Seconds for receiving a request's body: an endless one would occupy a slot."""


USUAL_LIMITS = Limits()

Refuse = Callable[[HttpProblem], ASGIApp]
"""Writes a refusal in a protocol's own form."""


class RequestLimiter:
    """Admits and counts requests, and refuses those above the limits, in the form of their
    protocol.

    A client is an identity; a client that no authenticator recognizes is an address. Clients behind
    a proxy share one address, unless the proxy forwards theirs (`FORWARDED_ALLOW_IPS`).
    """

    def __init__(
        self,
        limits: Limits,
        ending: OpenRequests,
        authenticators: Sequence[Authenticator] = (),
    ) -> None:
        self._limits = limits
        self._authenticators = authenticators
        self._ending = ending
        self._open: Counter[str] = Counter()
        self._rates = _Rates(limits.rate)

    def guarding(self, app: ASGIApp, refuse: Refuse = problem_json) -> ASGIApp:
        """Return the application behind these limits."""

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            request = _Request(self._limits, receive, send, refuse, scope)
            try:
                async with self._ending.requests.limit(), self._admission(scope):
                    await app(scope, request.receive, request.send)
            except HttpProblem as problem:
                if not request.status:
                    await request.refuse(problem)
                elif not (request.kind or isinstance(problem, GatewayEnds)):
                    raise

        return admitted

    @asynccontextmanager
    async def _admission(self, scope: Scope) -> AsyncIterator[None]:
        """Count the request during the block. Raises `HttpProblem` for one that is refused."""
        self._require_acceptable(Headers(scope=scope))
        name = await self._identify(scope)
        with self._place(name):
            self._require_rate(name)
            yield

    def _require_acceptable(self, headers: Headers) -> None:
        """Raise `HttpProblem` for a request with two tokens or a large body, and for every request
        once the process ends.
        """
        if self._ending.has_begun:
            raise GatewayEnds
        if len(headers.getlist("authorization")) > 1:
            raise HttpProblem(400, "two_tokens", "expected one header `Authorization` at most")
        length = headers.get("content-length", "0")[:18]
        if length.isdecimal() and int(length) > self._limits.max_bytes:
            raise too_large(self._limits.max_bytes)

    async def _identify(self, scope: Scope) -> str:
        """Authenticate the client for this request's route, and return the name for which the
        request counts.
        """
        address = str((scope.get("client") or ("",))[0])
        with self._place(address):
            try:
                identity = await identity_of(Headers(scope=scope), self._authenticators)
            except Exception as error:  # The route raises it, if it authenticates its clients.
                scope[IDENTIFIED] = error
                return address
        scope[IDENTIFIED] = identity
        return address if identity is ANYBODY else repr((identity.tenant, identity.name))

    @contextmanager
    def _place(self, name: str) -> Iterator[None]:
        """Count an open request during the block. Raises `HttpProblem` if there are too many."""
        limits = self._limits
        if self._open.total() >= limits.max_open:
            raise _too_many("open", f"{limits.max_open} requests are open at this gateway")
        if self._open[name] >= limits.max_open_each:
            text = f"{limits.max_open_each} requests of yours are open at this gateway"
            raise _too_many("open_each", text)
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def _require_rate(self, name: str) -> None:
        """Raise `HttpProblem` for a request above the client's rate."""
        if (wait := self._rates.take(name)) > 0.0:
            text = f"more than {self._limits.rate:g} requests a second"
            raise _too_many("rate", text, math.ceil(wait))


def _too_many(reason: str, text: str, seconds: int = 1) -> HttpProblem:
    message = f"{text}: repeat the request after {seconds} s"
    return HttpProblem(429, f"too_many_{reason}", message, headers={"Retry-After": str(seconds)})


def _too_slow(seconds: float) -> HttpProblem:
    return HttpProblem(408, "too_slow", f"a request comes within {seconds:g} s: send it again")


class _Request:
    """One request in progress: its received body, and its response."""

    def __init__(
        self, limits: Limits, receive: Receive, send: Send, refuse: Refuse, scope: Scope
    ) -> None:
        self.status = 0
        """The status of the response that has begun."""
        self.kind = ""
        """The kind of the refusal."""
        self._limits = limits
        self._left = limits.max_bytes
        self._deadline: float | None = asyncio.get_running_loop().time() + limits.body_seconds
        """None once the request is complete: the only further message is the client's
        disconnect."""
        self._fault: HttpProblem | None = None
        self._receive = receive
        self._send = send
        self._refuse = refuse
        self._scope = scope

    async def receive(self) -> Message:
        """Pass on a message from the client. Raises `HttpProblem` once the request is too large or
        takes too long.
        """
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
        """Pass on a message to the client, except after a refusal of a request still being
        received: the refusal is the only answer.
        """
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
        await self._send(message)


class _Rates:
    """The remaining requests of each client: refilled by a number per second, up to a burst."""

    def __init__(self, rate: float | None) -> None:
        self._is_bounded = rate is not None
        self._rate = rate or 1.0
        self._burst = max(1.0, self._rate * BURST_SECONDS)
        self._left: LRUCache[str, tuple[float, float]] = LRUCache(MAX_CLIENTS)

    def take(self, client: str) -> float:
        """Take one request; return 0, or the seconds until the next one if none is left."""
        if not self._is_bounded:
            return 0.0
        now = time.monotonic()
        left, at = self._left.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._left[client] = (left - 1.0 if left >= 1.0 else left, now)
        return 0.0 if left >= 1.0 else (1.0 - left) / self._rate
