"""Web Push (RFC 8030, 8291 and 8292): readers learn of calls that begin to wait, also where no page
is open. Subscriptions are kept in this process alone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from cachetools import TTLCache
from pydantic import Field, PrivateAttr

from ..activities.posting import NotPosted, post, public_address
from ..errors import ConfigurationError
from ..keyring import keys_in, written_keys
from ..prompty.worker_limits import Origin, is_listed, server_in
from ..redaction import get_logger
from ..text import excerpt
from ..webhooks import MAX_URL_CHARS
from .gateway import Closable
from .identity import ANYBODY, Identity
from .operations import HttpCall, Nothing
from .own_types import CamelCase, Waiting
from .problems import HttpProblem
from .waiting_calls import waiting_calls

VARIABLE = "PERDURE_PUSH_KEY"
"""The environment variable with the gateway's private key: `KEYID:BASE64KEY`. The first counts."""
CONTACT = "PERDURE_PUSH_CONTACT"
"""The environment variable by which push services reach the gateway's owner."""
EVERY_SECONDS = 10.0
"""Between two looks for calls that wait."""
KEPT_SECONDS = 7 * 86400.0
"""A subscription that was not made again for so long is forgotten."""
ROUND_SECONDS = 20.0
"""Time for all messages of one look to one subscription."""
MAX_OF_READER, MAX_SUBSCRIPTIONS = 10, 1000
GONE = (404, 410)
"""The statuses with which a push service ends a subscription."""
_log = get_logger("perdure.gateway")

Look = Callable[[Identity], Awaitable[Sequence[Waiting]]]
"""Returns the waiting calls that the client may see."""


class PushKey(CamelCase):
    """The gateway's public key, by which a browser subscribes (`applicationServerKey`)."""

    public_key: str


class PushKeys(CamelCase):
    """A browser's keys in base64url."""

    p256dh: str = Field(pattern="^[A-Za-z0-9_-]{87}$")
    auth: str = Field(pattern="^[A-Za-z0-9_-]{22}$")


class PushEndpoint(CamelCase):
    """Names the subscription of a browser."""

    endpoint: str = Field(max_length=MAX_URL_CHARS)


class PushSubscription(PushEndpoint):
    """The subscription of a browser, which has made it."""

    keys: PushKeys
    _reader: Identity = PrivateAttr(ANYBODY)
    _since: float = PrivateAttr(default_factory=time.time)
    """Calls that began to wait before are not sent to it; in seconds since the epoch."""


class WebPush:
    """The subscriptions of a gateway, and the look for new calls while there are any."""

    def __init__(
        self,
        key: bytes,
        contact: str,
        *,
        hosts: Collection[str] = (),
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        """`key` has 32 bytes, `contact` is `mailto:` or `https://`. Push services at `hosts` may be
        private, and without TLS. Raises `ConfigurationError`.
        """
        try:
            from py_vapid import Vapid02, VapidException
        except ImportError:
            raise ConfigurationError(
                f"{VARIABLE} needs packages that are not installed: pip install 'perdure[push]'"
            ) from None
        self._contact, self._hosts, self._every = contact, hosts, every_seconds
        try:
            self._vapid = Vapid02.from_raw(base64.urlsafe_b64encode(key))
            self.public_key = self._signed("https://name").rpartition("k=")[2]
        except (VapidException, ValueError):
            raise ConfigurationError(
                f"{CONTACT}={contact!r:.200} or {VARIABLE}: expected mailto:NAME@HOST or "
                "https://HOST, by which push services reach you, and a key of P-256"
            ) from None
        self._known: TTLCache[str, PushSubscription] = TTLCache(MAX_SUBSCRIPTIONS, KEPT_SECONDS)
        self._told: dict[str | None, set[str]] = {}
        """The waiting calls at the last look, by tenant: they were sent already."""
        self._watching: asyncio.Task[None] | None = None

    async def add(self, given: PushSubscription, reader: Identity, look: Look) -> None:
        """Add the reader's subscription, or renew it. Raises `HttpProblem`."""
        try:
            await self._address(given.endpoint)
            _encrypted(given, "")
        except (NotPosted, ValueError) as error:
            raise HttpProblem(422, "invalid_subscription", str(error)) from None
        own = {name: each for name, each in self._known.items() if each._reader == reader}
        if len(own.keys() - {given.endpoint}) >= MAX_OF_READER:
            text = f"expected at most {MAX_OF_READER} subscriptions of a reader: remove one"
            raise HttpProblem(429, "too_many_subscriptions", text)
        given._reader = reader
        given._since = own.get(given.endpoint, given)._since
        self._known[given.endpoint] = given
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(look))

    def remove(self, endpoint: str, reader: Identity) -> None:
        """Forget the reader's subscription; a missing one is not an error."""
        if (known := self._known.get(endpoint)) and known._reader == reader:
            del self._known[endpoint]

    def close(self) -> None:
        """End the look for new calls."""
        if self._watching:
            self._watching.cancel()

    async def _watch(self, look: Look) -> None:
        while self._known:
            await asyncio.sleep(self._every)
            tenants = {each._reader.tenant for each in self._known.values()}
            await asyncio.gather(*(self._push_new_calls(each, look) for each in tenants))

    async def _push_new_calls(self, tenant: str | None, look: Look) -> None:
        """Send the new calls to all readers of one tenant: they may see the same calls."""
        readers = [each for each in self._known.values() if each._reader.tenant == tenant]
        try:
            waiting = {_key(each): each for each in await look(readers[0]._reader)}
        except Exception as error:  # Temporal may be away: the next look finds the same calls.
            _log.warning("can't look for calls that wait: %s", repr(error)[:300])
            return
        fresh = [waiting[key] for key in waiting.keys() - self._told.get(tenant, set())]
        self._told[tenant] = set(waiting)
        await asyncio.gather(*(self._send_all(each, fresh) for each in readers))

    async def _send_all(self, to: PushSubscription, waiting: Sequence[Waiting]) -> None:
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                for each in waiting:
                    if each.call.since >= to._since:
                        await self._send(to, each)
        except Exception as error:  # One browser's push service must not keep others from theirs.
            _log.warning("a push to %s has failed: %s", server_in(to.endpoint), repr(error)[:300])

    async def _send(self, to: PushSubscription, waiting: Waiting) -> None:
        """Send the ids and the tool's name, without arguments. Raises `NotPosted`."""
        server, address = await self._address(to.endpoint)
        call = waiting.call
        told = {"run": waiting.run_id, "call": call.call_id, "tool": excerpt(call.name, 200)}
        headers = {
            "content-encoding": "aes128gcm",
            "ttl": "86400",
            "urgency": "high",
            "authorization": self._signed(str(server)),
        }
        body = _encrypted(to, json.dumps(told, ensure_ascii=False))
        status = await post(to.endpoint, server, body, headers, address)
        if status in GONE:
            self.remove(to.endpoint, to._reader)
        if not 200 <= status < 300:
            raise NotPosted(f"the answer has the status {status}, expected 2xx")

    def _signed(self, server: str) -> str:
        claims = {"sub": self._contact, "aud": server, "exp": int(time.time()) + 3600}
        signed: str = self._vapid.sign(claims)["Authorization"]
        return signed

    async def _address(self, endpoint: str) -> tuple[Origin, str | None]:
        """Return the server, and the address to connect to. Raises `NotPosted` for one that may not
        be called.
        """
        server = server_in(endpoint)
        if server and is_listed(server, self._hosts):
            return server, None
        if server is None or server.scheme != "https" or server.host.startswith("["):
            raise NotPosted(f"{endpoint!r:.200}: expected https://NAME/… of a push service")
        return server, await public_address(server, ": expected a public push service")


def push_from_environment() -> WebPush | None:
    """Return the push of `PERDURE_PUSH_KEY` or `PERDURE_PUSH_KEY_FILE`; None without either. Raises
    `ConfigurationError`, which never shows a key.
    """
    if (written := written_keys(VARIABLE)) is None:
        return None
    return WebPush(next(iter(keys_in(*written).values())), os.environ.get(CONTACT, ""))


async def show_push_key(call: HttpCall) -> PushKey:
    """The public key for subscriptions."""
    return PushKey(public_key=_push_of(call.gateway.push).public_key)


async def subscribe(call: HttpCall[Nothing, PushSubscription]) -> Nothing:
    """Send calls that begin to wait to this browser; the same subscription again is renewed."""
    look = partial(waiting_calls, call.gateway)
    await _push_of(call.gateway.push).add(call.body, call.identity, look)
    return Nothing()


async def unsubscribe(call: HttpCall[Nothing, PushEndpoint]) -> Nothing:
    """Forget a subscription of this client."""
    _push_of(call.gateway.push).remove(call.body.endpoint, call.identity)
    return Nothing()


def _push_of(push: Closable | None) -> WebPush:
    if not isinstance(push, WebPush):
        raise HttpProblem(404, "no_push", f"this gateway has no {VARIABLE}: it pushes nothing")
    return push


def _key(waiting: Waiting) -> str:
    return f"{waiting.run_id} {waiting.call.call_id} {waiting.call.digest}"


def _encrypted(to: PushSubscription, text: str) -> bytes:
    """Return the text for the browser. Raises `ValueError` for an invalid key of the browser's."""
    import http_ece
    from cryptography.hazmat.primitives.asymmetric import ec

    point, secret = (
        base64.urlsafe_b64decode(f"{each}==") for each in (to.keys.p256dh, to.keys.auth)
    )
    own = ec.generate_private_key(ec.SECP256R1())
    body: bytes = http_ece.encrypt(text.encode(), private_key=own, dh=point, auth_secret=secret)
    return body
