"""One call through a provider's SDK, without its retries, its request transformation and its response models.

The end of OpenAI's streams, `[DONE]`: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from ..errors import ModelError
from .base import Delta, StreamAssembler
from .clients import SdkNames
from .errors import UNEXPECTED_FORMAT, error_from_exception
from .memo import encode
from .sse import EventDecoder

T = TypeVar("T")

CONNECT_SECONDS = 10.0
_END = "[DONE]"


@dataclass(frozen=True)
class SdkCall:
    """A POST through an `AsyncOpenAI` or `AsyncAnthropic` client.

    It uses the client's own `post`, from bytes to bytes: what the SDKs do around it (walk the whole conversation,
    build a model of the response) costs more than the request itself.
    """

    sdk: SdkNames
    client: Any
    path: str
    timeout: float
    """Seconds, for the whole call."""
    provider: str

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the provider responds with. Raises ModelError for every failure."""
        return await self._guarded(self._post(self._payload(body)))

    async def stream(
        self, body: Mapping[str, Any], assembler: StreamAssembler, on_delta: Callable[[Delta], None]
    ) -> dict[str, Any]:
        """The response that the assembler puts together; `on_delta` sees each piece of it and must not raise.

        A server may respond without a stream all the same. Raises ModelError for every failure, and one of kind
        `refusal` when the model refuses; `on_delta` sees nothing from the first word of a refusal on (§8).
        """
        return await self._guarded(self._stream(self._payload(body), assembler, on_delta))

    async def _guarded(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        import httpx2

        sdk_error: type[Exception] = getattr(import_module(self.sdk.module), self.sdk.error)
        try:
            async with asyncio.timeout(self.timeout):
                return await work
        except ModelError:
            raise
        except TimeoutError as error:
            message = f"No complete answer within {self.timeout:g} s"
            raise ModelError(message, kind="timeout", provider=self.provider) from error
        except (sdk_error, httpx2.HTTPError, ValueError, RecursionError) as error:
            raise error_from_exception(error, provider=self.provider) from error

    async def _post(self, payload: dict[str, Any]) -> dict[str, Any]:
        response = await self._send(payload, stream=False)
        return _json_object(response.content)

    async def _stream(
        self, payload: dict[str, Any], assembler: StreamAssembler, on_delta: Callable[[Delta], None]
    ) -> dict[str, Any]:
        response = await self._send(payload, stream=True)
        async with aclosing(response):
            if "json" in response.headers.get("content-type", ""):
                return _json_object(await response.aread())
            await _read_stream(response, assembler, on_delta)
        if assembler.refusal:
            raise ModelError(f"Model refused: {assembler.refusal}", kind="refusal", provider=self.provider)
        if not assembler.is_complete:
            raise ModelError("The stream ended before the answer did", kind="connection", provider=self.provider)
        return _understood(assembler.response)

    async def _send(self, payload: dict[str, Any], *, stream: bool) -> Any:
        import httpx2

        timeout = httpx2.Timeout(self.timeout, connect=min(CONNECT_SECONDS, self.timeout))
        options = {"max_retries": 0, "timeout": timeout}
        stream_class = import_module(self.sdk.module).AsyncStream
        return await self.client.post(
            self.path, cast_to=httpx2.Response, options=options, stream=stream, stream_cls=stream_class, **payload
        )

    def _payload(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Bytes for the SDK's plain client; the clients of clouds (Azure, Bedrock) route by the body's content."""
        plain_client = getattr(import_module(self.sdk.module), self.sdk.client)
        if type(self.client) is not plain_client:
            return {"body": dict(body)}
        try:
            return {"content": encode(body)}
        except (ValueError, TypeError) as error:
            message = f"The request can't be written as JSON: {error}"
            raise ModelError(message, kind="bad_request", provider=self.provider) from error


async def _read_stream(response: Any, assembler: StreamAssembler, on_delta: Callable[[Delta], None]) -> None:
    """Feeds the assembler. A connection that is lost after the end of the answer does not matter."""
    import httpx2

    try:
        async for data in _events(response):
            for delta in _added(assembler, data):
                on_delta(delta)
    except httpx2.TransportError:
        if not (assembler.is_complete or assembler.refusal):
            raise


async def _events(response: Any) -> AsyncIterator[str]:
    decoder = EventDecoder()
    async for chunk in response.aiter_bytes():
        for data in decoder.feed(chunk):
            yield data


def _added(assembler: StreamAssembler, data: str) -> list[Delta]:
    if data == _END:
        assembler.is_complete = True
        return []
    event = _json_object(data)
    deltas = _understood(lambda: assembler.add(event))
    return [] if assembler.refusal else deltas


def _understood(read: Callable[[], T]) -> T:
    """The value of `read`; raises ValueError when the provider sent something that its API does not specify."""
    try:
        return read()
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(UNEXPECTED_FORMAT) from error


def _json_object(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(UNEXPECTED_FORMAT)
    return value
