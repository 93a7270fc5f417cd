"""HTTP with bounds: pooled connections, redirects within one server only, and limited response
bodies.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .._version import __version__
from ..json_types import JsonView
from ..prompty.worker_limits import PORTS, Origin
from ..text import UTF_8, one_line

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 2.0
"""Seconds that an idle connection is kept: most servers close theirs after 5 s or more, and a call
must not meet that.
"""
MAX_REDIRECTS = 5
_USER = re.compile(r"://[^/?#]*@")


def origin_of(url: str) -> Origin:
    """Return the origin of an http or https URL. Raises ValueError for any other URL, and for one
    with a user name, a blank, a backslash or a control character.
    """
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
    """Return whether a server with this answer has certainly not carried out the request.

    This holds for a 4xx, unless the server did not wait for the whole request, and for a 503 that
    names a better time. Any other 5xx may follow half-done work, or come from a proxy while the
    server continues.
    """
    if status == 503:
        return "retry-after" in headers
    return status == 501 or (400 <= status < 500 and status != 408)


class Fault(NamedTuple):
    """Why a request has no usable response."""

    text: str
    outcome_unknown: bool = True
    """Whether the server may have acted nevertheless."""
    passing: bool = True
    """Whether the same request may succeed a little later."""
    is_session_over: bool = False
    """Whether the server has forgotten the session of the request."""
    status: int = 0
    """The HTTP status with which the server refused the request."""


class HttpFailure(Exception):
    """A request without a usable response; the text has the reason."""

    def __init__(self, text: str, *, kind: str, outcome_unknown: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        self.outcome_unknown = outcome_unknown
        """Whether the server may have acted nevertheless."""


class Content(NamedTuple):
    """A body."""

    data: bytes | None = None
    media: str | None = None


@dataclass(frozen=True)
class HttpRequest:
    """A request as sent."""

    method: str
    url: str
    headers: list[tuple[str, bytes]] = field(repr=False)
    content: Content = Content()


@dataclass(frozen=True)
class HttpAnswer:
    """A response, as far as it was read."""

    status: int
    reason: str
    headers: Any = field(repr=False)
    body: bytes = field(repr=False)
    is_whole: bool = True
    """False if the body exceeds the reading limit."""

    @property
    def is_success(self) -> bool:
        """Return whether the server has carried out the request."""
        return 200 <= self.status < 300

    @property
    def outcome_unknown(self) -> bool:
        """Return whether a server with this error status may have acted nevertheless."""
        return not was_refused(self.status, self.headers)

    @property
    def media(self) -> str:
        """Its media type, without parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    def json(self) -> Any:
        """Return the value of a JSON body. Raises ValueError for any other body, and for one that
        is nested too deeply.
        """
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


class Http:
    """The HTTP clients, one for each event loop."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def send(self, request: HttpRequest, *, limit: int) -> HttpAnswer:
        """Return the answer to a request, with at most `limit` bytes of its body.

        Follows redirects within the server. Raises HttpFailure.
        """
        import httpx2

        is_sent = False
        try:
            async with self._open_response(request) as response:
                is_sent = True
                body, is_whole = await read_body(response, limit)
                return HttpAnswer(
                    response.status_code, response.reason_phrase, response.headers, body, is_whole
                )
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.UnsupportedProtocol,
            httpx2.ProxyError,
        ) as error:
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
        request = client.build_request(
            wanted.method,
            wanted.url,
            headers=wanted.headers,
            content=wanted.content.data,
        )
        for redirects in range(MAX_REDIRECTS + 1):
            try:
                response = await client.send(request, stream=True, follow_redirects=False)
            except httpx2.HTTPError as error:
                if not redirects:
                    raise
                raise HttpFailure(
                    f"{origin} can't be reached again: {reason_of(error)}", kind="connection"
                ) from None
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
                headers={"User-Agent": f"perdure/{__version__}", "Accept-Encoding": "identity"},
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=200, keepalive_expiry=KEEP_SECONDS),
                # Cookies from one call's answer must not be sent with another call.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        return client


def _redirect_request(response: Any, origin: Origin) -> Any:
    """Return the request that follows a redirect. Raises HttpFailure if it leads to another
    server.
    """
    following = response.next_request
    try:
        target = origin_of(str(following.url)) if following is not None else None
    except ValueError:
        target = None
    if target != origin:
        where = target or "something that is not a URL"
        text = (
            f"{origin} redirects to {where} (status {response.status_code}), where this tool does "
            "not go"
        )
        raise HttpFailure(
            f"{text}: if it should, write that server as `endpoint` of the connection",
            kind="redirect",
        )
    return following


async def read_body(response: Any, limit: int) -> tuple[bytes, bool]:
    """Read at most `limit` bytes of a body; also return whether that is the whole body.

    Raises HttpFailure for a compressed one, whose content may have any size.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise HttpFailure(
            f"the answer is compressed ({encoding:.40}), although no compression was asked for",
            kind="nonsense",
        )
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True


def reason_of(error: BaseException) -> str:
    """Return the text of a client's error, on one line; its class if it has none."""
    return one_line(str(error), 300) or type(error).__name__


_LONGEST = 40
_DECODED = frozenset(
    re.findall(
        r"\S+",
        "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 ascii koi8-r koi8-u mac-roman iso8859-1 "
        "iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 "
        "iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16 cp437 cp850 cp852 cp866 "
        "cp874 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 shift_jis cp932 "
        "euc_jp iso2022_jp gb2312 gbk gb18030 big5 euc_kr cp949",
    )
)
"""By Python's names for them."""


def charset_in(content_type: str) -> str:
    """Return the charset in a `Content-Type`; UTF-8 if it names none, or an unsupported one."""
    for each in content_type[:1000].split(";")[1:]:
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return _decoder_name(value.strip().strip("\"'"))
    return UTF_8


def _decoder_name(name: str) -> str:
    if not name.isascii() or len(name) > _LONGEST:
        return UTF_8
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return UTF_8
    return found if found in _DECODED else UTF_8
