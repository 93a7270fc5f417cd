"""HTTP with bounds: pooled connections, redirects to the same server only, and never more read than is wanted."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .._version import __version__
from ..json_types import JsonView
from ..text import one_line
from ..worker_limits import PORTS, Origin

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 2.0
"""How long an idle connection is kept: most servers close theirs after 5 s or more, and a call must not meet that."""
MAX_REDIRECTS = 5
_PACKED = ("gzip", "x-gzip")
PACKING_BYTES = 256 * 1024
"""What is packed takes no more than this besides its content; empty members would else come without end."""


_USER = re.compile(r"://[^/?#]*@")


def origin_of(url: str) -> Origin:
    """Origin of an absolute URL. Raises ValueError for any other one, and for one with a user or odd characters."""
    if re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise ValueError("it has a blank, a backslash or a control character")
    if _USER.search(url):
        raise ValueError("it has a user name or a password; keys belong into the tool's connection")
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("expected a URL that begins with http:// or https://")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Origin(parts.scheme, host, parts.port or PORTS[parts.scheme])


def was_refused(status: int, headers: JsonView) -> bool:
    """Return whether a server with this answer has certainly not done what it was asked to.

    So says a 4xx, unless the server has not waited for the whole request, and a 503 that names a better time. Any other
    5xx may come from half-done work, or from something between here and the server, which goes on.
    """
    if status == 503:
        return "retry-after" in headers
    return status == 501 or (400 <= status < 500 and status != 408)


class Fault(NamedTuple):
    """Why a request has no response that can be used."""

    text: str
    outcome_unknown: bool = True
    """Whether the server may have acted all the same."""
    passing: bool = True
    """Whether the same request may succeed a little later."""
    is_session_over: bool = False
    """Whether the server has forgotten the session of the request."""
    status: int = 0
    """The HTTP status by which the server has refused the request."""


class HttpFailure(Exception):
    """A request has no response that can be used; the text says why."""

    def __init__(self, text: str, *, kind: str, outcome_unknown: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        self.outcome_unknown = outcome_unknown
        """Whether the server may have acted all the same."""


File = tuple[str | None, bytes, str | None]
"""A part of a form with its file's name and media type; without a name, a plain value."""


class Content(NamedTuple):
    """A body: its bytes with their media type, or the parts of a form."""

    data: bytes | None = None
    media: str | None = None
    parts: list[tuple[str, File]] | None = None


@dataclass(frozen=True)
class HttpRequest:
    """A request as it is sent."""

    method: str
    url: str
    headers: list[tuple[str, bytes]] = field(repr=False)
    content: Content = Content()


@dataclass(frozen=True)
class HttpAnswer:
    """An answer as it was read."""

    status: int
    reason: str
    headers: Any = field(repr=False)
    body: bytes = field(repr=False)
    is_whole: bool = True
    """False for a body that is longer than what is read of one."""

    @property
    def is_success(self) -> bool:
        """Return whether the server has done what it was asked to."""
        return 200 <= self.status < 300

    @property
    def outcome_unknown(self) -> bool:
        """Return whether a server with this status, which is none of success, may have acted all the same."""
        return not was_refused(self.status, self.headers)

    @property
    def media(self) -> str:
        """Its media type, without parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    def json(self) -> Any:
        """Value of a JSON body. Raises ValueError for any other one, and for one that is nested too deeply."""
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


class Http:
    """The HTTP clients, one for each event loop."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def send(self, request: HttpRequest, *, limit: int) -> HttpAnswer:
        """Return the answer to a request, of whose body at most `limit` bytes are read, unpacked.

        Redirects are followed within the server. Raises HttpFailure.
        """
        import httpx2

        is_sent = False
        try:
            async with self._open_response(request) as response:
                is_sent = True
                body, is_whole = await read_body(response, limit)
                return HttpAnswer(response.status_code, response.reason_phrase, response.headers, body, is_whole)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.ProxyError) as error:
            text = f"{origin_of(request.url)} can't be reached: {reason_of(error)}"
            raise HttpFailure(text, kind="connection", outcome_unknown=is_sent) from None
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, UnicodeError) as error:
            text = f"the request can't be sent: {reason_of(error)}"
            raise HttpFailure(text, kind="request", outcome_unknown=False) from None
        except httpx2.HTTPError as error:
            text = f"the connection to {origin_of(request.url)} failed: {reason_of(error)}"
            raise HttpFailure(text, kind="connection") from None

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _open_response(self, wanted: HttpRequest) -> AsyncIterator[Any]:
        import httpx2

        client, origin = self._client(), origin_of(wanted.url)
        files = wanted.content.parts
        request = client.build_request(
            wanted.method, wanted.url, headers=wanted.headers, content=wanted.content.data, files=files or None
        )
        for redirects in range(MAX_REDIRECTS + 1):
            try:
                response = await client.send(request, stream=True, follow_redirects=False)
            except httpx2.HTTPError as error:
                if not redirects:
                    raise
                raise HttpFailure(f"{origin} can't be reached again: {reason_of(error)}", kind="connection") from None
            try:
                if not response.has_redirect_location:
                    yield response
                    return
                request = _redirect_request(response, origin)
            finally:
                await response.aclose()
        raise HttpFailure(f"{origin} redirects more than {MAX_REDIRECTS} times", kind="redirect")

    def _client(self) -> Any:
        import httpx2

        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = httpx2.AsyncClient(
                headers={"User-Agent": f"perdure/{__version__}", "Accept-Encoding": "gzip"},
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=200, keepalive_expiry=KEEP_SECONDS),
                # One call must not be sent what another one's answer has set.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        return client


def _redirect_request(response: Any, origin: Origin) -> Any:
    """Return the request that a redirect asks for. Raises HttpFailure where it leads to another server."""
    following = response.next_request
    try:
        target = origin_of(str(following.url)) if following is not None else None
    except ValueError:
        target = None
    if target != origin:
        where = target or "something that is no URL"
        text = f"{origin} redirects to {where} (status {response.status_code}), where this tool does not go"
        raise HttpFailure(f"{text}: if it should, write that server as `endpoint` of the connection", kind="redirect")
    return following


async def read_body(response: Any, limit: int) -> tuple[bytes, bool]:
    """Read at most `limit` bytes of a body, unpacked; also return whether that is all of it.

    Raises HttpFailure where it can't be unpacked.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", *_PACKED):
        raise HttpFailure(f"the answer is packed in {encoding!r:.60}, which was not asked for", kind="nonsense")
    packed = _Unpacker(limit) if encoding in _PACKED else None
    body, received = bytearray(), 0
    async for piece in response.aiter_raw():
        received += len(piece)
        if packed and received > limit + PACKING_BYTES:
            raise HttpFailure("the answer is packed, and larger than what is in it", kind="nonsense")
        body += packed.unpack(piece) if packed else piece
        if len(body) > limit:
            return bytes(body[:limit]), False
    if packed and not packed.is_complete:
        raise HttpFailure("the answer is packed, and cut off", kind="nonsense")
    return bytes(body), True


class _Unpacker:
    """Unpacks gzip, piece by piece, and no more than is wanted."""

    def __init__(self, limit: int) -> None:
        self._left = limit + 1
        self._packed: Any = zlib.decompressobj(47)
        self._has_begun = False

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is missing at the end."""
        return self._packed.eof or not self._has_begun

    def unpack(self, piece: bytes) -> bytes:
        """Unpack the next piece. Raises HttpFailure, for what follows the end too unless it is a further member."""
        self._has_begun = True
        unpacked = bytearray()
        while piece and self._left:
            if self._packed.eof:
                self._packed = zlib.decompressobj(47)
            try:
                unpacked += (part := self._packed.decompress(piece, self._left))
            except zlib.error as error:
                raise HttpFailure(f"the answer can't be unpacked: {error}", kind="nonsense") from None
            self._left -= len(part)
            piece = self._packed.unused_data
        return bytes(unpacked)


def reason_of(error: BaseException) -> str:
    """Return the text of a client's error, on one line; its class if it has none."""
    return one_line(str(error), 300) or type(error).__name__
