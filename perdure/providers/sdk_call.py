"""One call through a provider's SDK, without its retries and models; and its stream, from bytes to
the response.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar, cast

from pydantic_core import to_json

from ..errors import ModelError, ModelErrorKind
from ..json_types import JsonObject, JsonView
from ..options import DEFAULT_ANSWER_BYTES
from ..text import bounded_text, valid_json
from .base import Delta, StreamAssembler
from .errors import (
    UNEXPECTED_FORMAT,
    UnexpectedFormatError,
    error_from_exception,
    json_excerpt,
    request_id,
)
from .sdks import SdkNames

_LINE_END = re.compile(rb"\r\n|\n|\r")
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """Decodes server-sent events from chunks of bytes, and keeps only their `data`; an event
    without data is skipped.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def pending_bytes(self) -> int:
        """The number of buffered bytes of an incomplete event."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of each event that this chunk completes. Bytes that are not UTF-8 become
        U+FFFD.
        """
        seen = max(0, len(self._rest) - len(b"\r\n\r"))
        self._rest += chunk
        start = 0
        for end, following in [found.span() for found in _EVENT_END.finditer(self._rest, seen)]:
            if event := _data_of(self._rest[start:end]):
                yield event
            start = following
        del self._rest[:start]


def _data_of(event: bytearray) -> str:
    lines = (
        line for line in _LINE_END.split(event.removeprefix(_BOM)) if line.startswith(b"data:")
    )
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines)
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")


T = TypeVar("T")

ENVELOPES = 16
"""The most bytes of a stream per byte of its answer: each event wraps a few characters in
hundreds."""
_END = "[DONE]"


class TooLargeError(Exception):
    """The answer exceeds its limit."""


class StreamReader:
    """Feeds an assembler with the events of one response; `on_delta` gets each piece of the answer,
    its text valid.

    A character that is split between events is whole in the response.
    """

    def __init__(
        self, assembler: StreamAssembler, on_delta: Callable[[Delta], None], max_bytes: int
    ) -> None:
        self._assembler = assembler
        self._on_delta = on_delta
        self._max_bytes = max_bytes
        self._size = 0
        self._body = bytearray()
        """The whole body, if it is not a stream in spite of its type."""
        self._is_over = False

    async def read(self, response: Any) -> None:
        """Read to the end. A connection lost after the end of the answer is not an error.

        Raises TooLargeError, ModelError for a failure that the provider reports, ValueError for
        anything that is not an event of the API, and the HTTP client's errors.
        """
        import httpx2

        try:
            async with aclosing(response.aiter_bytes()) as unpacked:
                await self._read_events(unpacked)
        except httpx2.TransportError:
            if not self.has_ended:
                raise

    @property
    def has_ended(self) -> bool:
        """Return whether the answer has ended. A refusal counts from its first word on."""
        return bool(self._body or self._assembler.is_complete or self._assembler.refusal)

    def response(self) -> JsonObject:
        """Return the assembled response. Raises ValueError if it is not a response of the API."""
        if self._body:
            return _json_object(bytes(self._body))
        response = _read_event(self._assembler.response, "a stream of events without an answer")
        return cast(JsonObject, valid_json(response))

    async def _read_events(self, unpacked: AsyncIterator[bytes]) -> None:
        decoder = EventDecoder()
        async for chunk in unpacked:
            if self._body or (not self._size and chunk.lstrip()[:1] == b"{"):
                self._body += chunk
            else:
                self._add_all(decoder.feed(chunk))
            self._count(len(chunk), decoder.pending_bytes + len(self._body))
            # A few compressed bytes can unpack to many chunks in a row, which would block the event
            # loop.
            await asyncio.sleep(0)

    def _count(self, chunk: int, pending: int) -> None:
        self._size += chunk
        if max(self._assembler.size, pending, self._size // ENVELOPES) > self._max_bytes:
            raise TooLargeError

    def _add_all(self, events: Iterator[str]) -> None:
        for data in events:
            if data == _END:
                self._assembler.is_complete = self._is_over = True
            elif not self._is_over:
                self._add(data)

    def _add(self, data: str) -> None:
        _require_few(data.count("{") + data.count("["))
        event = json.loads(data)
        if not isinstance(event, dict):
            raise UnexpectedFormatError(f"the event {json_excerpt(event)}")
        for delta in _read_event(lambda: self._deltas(event), event):
            self._on_delta(delta)

    def _deltas(self, event: JsonObject) -> list[Delta]:
        deltas = self._assembler.add(event)
        if self._assembler.refusal:
            return []
        if not all(isinstance(delta.text, str) for delta in deltas):
            raise TypeError(UNEXPECTED_FORMAT)
        return [delta for delta in deltas if delta.text]


def _read_event(read: Callable[[], T], got: str | JsonObject) -> T:
    """Value of `read`. Raises UnexpectedFormatError for anything that the provider's API does not
    have.
    """
    try:
        return read()
    except (LookupError, TypeError, AttributeError) as error:
        raise UnexpectedFormatError(
            got if isinstance(got, str) else f"the event {json_excerpt(got)}"
        ) from error


CONNECT_SECONDS = 10.0
MAX_BRACKETS = 500_000
"""The limit of one response, or one event."""
SHOWN_CHARS = 500
"""The characters of an answer that is not JSON, in the error."""
_WHOLE = ("json", "html")
"""Content types that are not a stream: a requested stream has any other type."""
_STREAM = "text/event-stream"


@dataclass(frozen=True)
class SdkCall:
    """A request through an `AsyncOpenAI` or `AsyncAnthropic` client.

    It uses the client's own `post`, from bytes to bytes: the SDKs' own work around it
    (walking the whole conversation, building a model of the response) costs more than the request
    itself. The size of the answer is counted while it is unpacked, so that a few compressed bytes
    can't fill the memory.
    """

    sdk: SdkNames
    client: Any
    path: str
    timeout: float
    """Seconds, for the whole call."""
    provider: str
    expected: str
    """The expected answer, in words for an error."""
    check: Callable[[JsonView], None]
    """Raises ModelError for an answer that reports a failure, and UnexpectedFormatError for
    anything but an answer."""
    max_bytes: int = DEFAULT_ANSWER_BYTES
    """The limit of the answer, unpacked."""

    @property
    def address(self) -> str:
        """Host and port of the server, without a key or a query, which the rest of a URL may
        contain.
        """
        return str(self.client.base_url.netloc.decode())

    async def answer(
        self,
        body: JsonView,
        assembler: StreamAssembler,
        on_delta: Callable[[Delta], None],
        *,
        streams: bool,
    ) -> JsonObject:
        """Return the JSON object that the provider responds with, its text valid, or the
        assembler's response.

        A server may respond with a stream or without one, whichever was requested. `on_delta` gets
        each piece of a stream and must not raise; it gets nothing from the first word of a refusal
        on (§8). Raises ModelError for every failure.
        """
        async with self.response(body) as response:
            if is_whole(response, streams=streams):
                return self._check(await self.whole(response))
            stream = StreamReader(assembler, on_delta, self.max_bytes)
            await stream.read(response)
            if not stream.has_ended:
                raise self.error("The stream ended before the answer did", "connection")
            return self._check(stream.response())

    def _check(self, answer: JsonObject) -> JsonObject:
        self.check(answer)
        return answer

    @asynccontextmanager
    async def response(self, body: JsonView) -> AsyncIterator[Any]:
        """Response, unread, to a POST of the body. Its failures are ModelErrors that name its
        status and request id.
        """
        import httpx2

        sdk_error: type[Exception] = getattr(import_module(self.sdk.module), self.sdk.error)
        failures = (
            sdk_error,
            httpx2.HTTPError,
            ModelError,
            TooLargeError,
            TimeoutError,
            ValueError,
            RecursionError,
        )
        response = None
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._send(body)
                async with aclosing(response):
                    yield response
        except failures as error:
            failure = self._failure(error)
            if response is not None:
                failure.status = failure.status or response.status_code
                failure.request_id = failure.request_id or request_id(response.headers, None)
            if failure is error:
                raise
            raise failure from (
                None if isinstance(error, UnexpectedFormatError | json.JSONDecodeError) else error
            )

    def _failure(self, error: Exception) -> ModelError:
        match error:
            case TooLargeError():
                text = (
                    f"The answer has more than {self.max_bytes:,} bytes, which "
                    "RunOptions.max_answer_bytes allows"
                )
                return self.error(text, "invalid_response")
            case TimeoutError():
                return self.error(f"No complete answer within {self.timeout:g} s", "timeout")
            case UnexpectedFormatError():
                return self.error(bounded_text(error.account(self.expected)), "invalid_response")
            case json.JSONDecodeError():
                # Treated as a 502: something between here and the provider has answered, or cut the
                # answer.
                text = f"{UNEXPECTED_FORMAT}: {error}: {error.doc[:SHOWN_CHARS]!r}"
                return self.error(bounded_text(text), "server")
            case _:
                return error_from_exception(error, provider=self.provider)

    def error(self, text: str, kind: ModelErrorKind) -> ModelError:
        return ModelError(text, kind=kind, provider=self.provider)

    async def whole(self, response: Any) -> JsonObject:
        """Return the JSON object in the response. Raises errors that `response` turns into a
        ModelError.
        """
        pieces: list[bytes] = []
        size = 0
        async with aclosing(response.aiter_bytes()) as unpacked:
            async for piece in unpacked:
                size += len(piece)
                if size > self.max_bytes:
                    raise TooLargeError
                pieces.append(piece)
        return _json_object(b"".join(pieces))

    async def _send(self, body: JsonView) -> Any:
        """Return the response, unread: the reader counts the unpacked bytes."""
        import httpx2

        timeout = httpx2.Timeout(self.timeout, connect=min(CONNECT_SECONDS, self.timeout))
        return await self.client.post(
            self.path,
            cast_to=httpx2.Response,
            options={"max_retries": 0, "timeout": timeout},
            stream=True,
            stream_cls=import_module(self.sdk.module).AsyncStream,
            **self._payload(body),
        )

    def _payload(self, body: JsonView) -> JsonObject:
        """Return the body as bytes for the SDK's plain client; the clients of clouds (Azure,
        Bedrock) route by its content.
        """
        plain_client = getattr(import_module(self.sdk.module), self.sdk.client)
        if type(self.client) is not plain_client:
            return {"body": dict(body)}
        try:
            return {"content": encode(body)}
        except (ValueError, TypeError) as error:
            message = f"The request can't be written as JSON: {error}"
            raise ModelError(message, kind="bad_request", provider=self.provider) from error


def encode(body: JsonView) -> bytes:
    """Return the body as JSON in UTF-8 without blanks.

    NaN and infinity become `null`; half of a surrogate pair, which UTF-8 cannot express, becomes
    `?`. Raises TypeError or ValueError for values that JSON cannot express.
    """
    try:
        return to_json(body, inf_nan_mode="null")
    except ValueError:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")


def is_whole(response: Any, *, streams: bool) -> bool:
    """Return whether the response is one whole body; `streams` is whether a stream was
    requested.
    """
    told = response.headers.get("content-type", "")
    return any(kind in told for kind in _WHOLE) or not (streams or _STREAM in told)


def _require_few(brackets: int) -> None:
    """Raise an error for JSON that needs much more memory than its bytes."""
    if brackets > MAX_BRACKETS:
        raise UnexpectedFormatError(
            f"JSON with {brackets:,} lists and objects, of at most {MAX_BRACKETS:,}"
        )


def _json_object(content: bytes) -> JsonObject:
    _require_few(content.count(b"{") + content.count(b"["))
    try:
        value = json.loads(content)
    except UnicodeDecodeError:
        value = json.loads(content.decode(errors="replace"))
    if not isinstance(value, dict):
        raise UnexpectedFormatError(json_excerpt(value))
    return cast(JsonObject, valid_json(value))
