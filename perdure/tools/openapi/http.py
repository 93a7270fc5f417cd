"""HTTP with bounds: pooled connections, redirects to the same server only, and never more read than is wanted."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from weakref import WeakKeyDictionary

from ..._version import __version__
from ...messages import AudioPart, FilePart, ImagePart, Part, ToolResult
from ...redaction import REDACTED
from ...text import charset_in
from ..http import was_refused
from .operation import Operation
from .request import HttpRequest
from .security import Origin, origin_of

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 2.0
"""How long an idle connection is kept: most servers close theirs after 5 s or more, and a call must not meet that."""
MAX_REDIRECTS = 5
_PACKED = ("gzip", "x-gzip")


class HttpFailure(Exception):
    """No answer that can be used; the text says why."""

    def __init__(self, text: str, *, kind: str, was_sent: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        self.was_sent = was_sent
        """Whether the server may have acted."""


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
    def media(self) -> str:
        """Its media type, without parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()


class Http:
    """The HTTP clients, one for each event loop."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def send(self, request: HttpRequest, *, limit: int) -> HttpAnswer:
        """The answer to a request, of whose body at most `limit` bytes are read, unpacked.

        Redirects are followed within the server. Raises HttpFailure.
        """
        import httpx2

        is_sent = False
        try:
            async with self._answered(request) as response:
                is_sent = True
                body, is_whole = await _read(response, limit)
                return HttpAnswer(response.status_code, response.reason_phrase, response.headers, body, is_whole)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.ProxyError) as error:
            text = f"{origin_of(request.url)} can't be reached: {_why(error)}"
            raise HttpFailure(text, kind="connection", was_sent=is_sent) from None
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, UnicodeError) as error:
            raise HttpFailure(f"the request can't be sent: {_why(error)}", kind="request", was_sent=False) from None
        except httpx2.HTTPError as error:
            text = f"the connection to {origin_of(request.url)} failed: {_why(error)}"
            raise HttpFailure(text, kind="connection") from None

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _answered(self, wanted: HttpRequest) -> AsyncIterator[Any]:
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
                raise HttpFailure(f"{origin} can't be reached again: {_why(error)}", kind="connection") from None
            try:
                if not response.has_redirect_location:
                    yield response
                    return
                request = _redirected(response, origin)
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


def _redirected(response: Any, origin: Origin) -> Any:
    """The request that a redirect asks for. Raises HttpFailure where it leads to another server."""
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


async def _read(response: Any, limit: int) -> tuple[bytes, bool]:
    """So much of the body as may be read, and whether that is all. Raises HttpFailure where it can't be unpacked."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", *_PACKED):
        raise HttpFailure(f"the answer is packed in {encoding!r:.60}, which was not asked for", kind="nonsense")
    unpack = _Unpacker(limit) if encoding in _PACKED else None
    body = bytearray()
    async for piece in response.aiter_raw():
        body += unpack.add(piece) if unpack else piece
        if len(body) > limit:
            return bytes(body[:limit]), False
    if unpack and not unpack.is_complete:
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
        """Whether nothing is missing at the end."""
        return self._packed.eof or not self._has_begun

    def add(self, piece: bytes) -> bytes:
        """What comes out of the next piece. Raises HttpFailure."""
        self._has_begun = True
        try:
            unpacked = self._unpacked(piece)
        except zlib.error as error:
            raise HttpFailure(f"the answer can't be unpacked: {error}", kind="nonsense") from None
        return unpacked

    def _unpacked(self, piece: bytes) -> bytes:
        """Raises `zlib.error`, for what follows the end too, unless it is a further member."""
        unpacked = bytearray()
        while piece and self._left:
            if self._packed.eof:
                self._packed = zlib.decompressobj(47)
            unpacked += (part := self._packed.decompress(piece, self._left))
            self._left -= len(part)
            piece = self._packed.unused_data
        return bytes(unpacked)


def _why(error: Exception) -> str:
    return str(error).replace("\n", " ")[:300] or type(error).__name__


MAX_READ_BYTES = 4 * 2**20
"""Of one answer, unpacked. The limits of tool results, which are lower, cut what is shown to the model."""
MAX_EXCERPT = 4000
"""Characters of an error's body."""
_SHORTEST_SECRET = 4
_TEXT = ("json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "csv")


def result_of(answer: HttpAnswer, operation: Operation, name: str, secrets: Iterable[str]) -> ToolResult:
    """The result of a call: the body of a success, and what an error says. Keys that were sent are not in it."""
    clean = _without(secrets)
    if not 200 <= answer.status < 300:
        unknown = not was_refused(answer.status, answer.headers)
        text = clean(_refusal(answer, operation))
        return failure(name, text, kind=f"http_{answer.status}", outcome_unknown=unknown)
    if not answer.body:
        return ToolResult.of_text(clean(_bare(answer)))
    if not _is_text(answer):
        return _media_result(answer, name)
    text = _text(answer)
    if "json" in answer.media and answer.is_whole and not _is_json(text):
        shown = text[:MAX_EXCERPT]
        text = clean(f"{operation.title} answered what is no JSON: {shown}")
        return failure(name, text, kind="nonsense", outcome_unknown=True)
    if not answer.is_whole:
        text += f"\n[… the answer is longer than {MAX_READ_BYTES:,} bytes: no more was read …]"
    return ToolResult.of_text(clean(text))


def failure(name: str, text: str, *, kind: str, outcome_unknown: bool = False) -> ToolResult:
    """A result that tells the model what went wrong, in the words of all tools."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown)


def _refusal(answer: HttpAnswer, operation: Operation) -> str:
    said = f"{operation.title} answered {answer.status} {answer.reason}".strip()
    body = _text(answer).strip() if _is_text(answer) else f"({len(answer.body):,} bytes of {answer.media})"
    if len(body) > MAX_EXCERPT:
        body = body[:MAX_EXCERPT] + " …"
    return f"{said}: {body}" if body else said


def _bare(answer: HttpAnswer) -> str:
    """What an answer without a body says."""
    location = answer.headers.get("location")
    said = f"{answer.status} {answer.reason}".strip()
    return f"{said}, location: {location[:1000]}" if location else said


def _media_result(answer: HttpAnswer, name: str) -> ToolResult:
    if not answer.is_whole:
        text = f"the answer is {answer.media} of more than {MAX_READ_BYTES:,} bytes, which is too large for a result"
        return failure(name, text, kind="too_large", outcome_unknown=True)
    fields: dict[str, Any] = {
        "source": base64.b64encode(answer.body).decode(),
        "mediaType": answer.media[:200] or "application/octet-stream",
    }
    kinds: dict[str, type[Part]] = {"image": ImagePart, "audio": AudioPart}
    kind: Any = kinds.get(answer.media.partition("/")[0], FilePart)
    return ToolResult(parts=[kind.model_validate(fields)])


def _is_text(answer: HttpAnswer) -> bool:
    if not answer.media:
        return b"\0" not in answer.body[:1024]
    return answer.media.startswith("text/") or any(kind in answer.media for kind in _TEXT)


def _text(answer: HttpAnswer) -> str:
    return answer.body.decode(charset_in(str(answer.headers.get("content-type", ""))), errors="replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _without(secrets: Iterable[str]) -> Any:
    """A function that takes the keys out of a text."""
    known = sorted({each for each in secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def clean(text: str) -> str:
        for each in known:
            text = text.replace(each, REDACTED)
        return text

    return clean
