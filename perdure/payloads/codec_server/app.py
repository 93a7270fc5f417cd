"""The codec server: `/decode`, `/encode` and `/download` at any prefix."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import socket
from asyncio import Semaphore, to_thread
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ...errors import ConfigurationError
from ...redaction import get_logger
from ..encryption import EncryptionError
from ..failures import UnreadValues
from ..unpacking import own_budget
from . import TOKEN_VARIABLE


def require_token(token: str, headers: Mapping[str, str]) -> None:
    """Raises `HTTPException` for a request without the token; "" lets everybody in."""
    given = headers.get("authorization", "").encode()
    if token and not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise HTTPException(
            401, f"expected the header Authorization: Bearer, with the token of {TOKEN_VARIABLE}"
        )


MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of the values of one answer: kilobytes that anybody has sent to a run can hold gigabytes."""


async def decode(
    converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool
) -> list[Payload]:
    """Payloads decrypted and unpacked; one that can't be stays as it is, and so does a reference if
    wanted.

    So do all from the one on with which they would be more than `MAX_ANSWER_BYTES`.
    """
    values: list[Payload] = []
    left = MAX_ANSWER_BYTES
    with own_budget(is_shared=True):
        for payload in payloads:
            value = await _decode(converter, payload, keeps_references)
            if (left := left - value.ByteSize()) < 0:
                logger.warning(
                    "payloads stay as they are: they have more than %d bytes together",
                    MAX_ANSWER_BYTES,
                )
                return [*values, *payloads[len(values) :]]
            values.append(value)
    return values


async def encode(
    converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool
) -> list[Payload]:
    """Return the payloads as perdure would send them to a workflow."""
    codec = converter.payload_codec
    if isinstance(codec, WithSerializationContext):
        codec = codec.with_context(WorkflowSerializationContext(namespace="", workflow_id=""))
    return await codec.encode(payloads) if codec else list(payloads)


async def download(
    converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool
) -> list[Payload]:
    """Return the values that are stored elsewhere, decoded.

    Raises `ConfigurationError` for one that can't be had, and for more than `MAX_ANSWER_BYTES`.
    """
    values, left = [], MAX_ANSWER_BYTES
    with own_budget(is_shared=True):
        for payload in payloads:
            values.append(await _fetch(converter, payload))
            if (left := left - values[-1].ByteSize()) < 0:
                raise ConfigurationError(
                    f"the values have more than {MAX_ANSWER_BYTES} bytes together: ask for fewer"
                )
    return values


ACTIONS = {"decode": decode, "encode": encode, "download": download}
"""By the last part of the URL's path."""


async def _decode(converter: DataConverter, payload: Payload, keeps_reference: bool) -> Payload:
    if payload.external_payloads and (keeps_reference or converter.external_storage is None):
        return payload
    try:
        return await _fetch(converter, payload)
    except EncryptionError as error:
        logger.warning("a payload stays encrypted: its key %r is not here", error.key_id)
    except ConfigurationError:
        logger.warning(
            "a payload stays as it is: it is lost, changed, not encrypted, or stored elsewhere"
        )
    return payload


async def _fetch(converter: DataConverter, payload: Payload) -> Payload:
    try:
        [raw] = await converter.decode([payload], [RawValue])
    except (RuntimeError, OSError) as error:
        raise ConfigurationError(
            f"the value can't be fetched from where it is stored: {error}"
        ) from error
    except ApplicationError as error:
        raise ConfigurationError(error.message) from error
    value: Payload = raw.payload
    if value.metadata.get("encoding") == UnreadValues.ENCODING.encode():
        raise ConfigurationError(value.data.decode(errors="replace"))
    return value


logger = get_logger("perdure.codec_server")

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Of one request: a page of a history has some payloads of 2 MiB at most, in base64."""
MAX_OBJECTS = 100_000
"""JSON objects and lists in a request: a payload has two, and a page of a history some
thousands."""
MAX_AT_ONCE = 2
"""So many requests are decoded at once, each in at most some times `MAX_BODY_BYTES` of memory."""
HEADERS = ("Authorization", "Authorization-Extras", "Content-Type", "X-Namespace")
"""What the UI sends."""


def codec_app(
    converter: DataConverter,
    *,
    token: str = "",
    ui_origins: Collection[str] = (),
    hosts: Collection[str] = ("*",),
) -> Starlette:
    """Return the application, which decodes and encodes as `converter` does, for requests with the
    token.

    Pages of `ui_origins` may ask from a browser, and no others. `hosts` are the names by which the
    server may be called. No request and no answer is logged.
    """

    at_once = Semaphore(MAX_AT_ONCE)

    async def answer(request: Request) -> Response:
        host = request.headers.get("host", "")
        if not {"*", re.sub(r":\d+$", "", host)} & {*hosts}:
            raise HTTPException(
                400, f"the host is {host!r:.200}: expected {', '.join(sorted(hosts))}"
            )
        action = ACTIONS.get(request.path_params["path"].rpartition("/")[2])
        if action is None:
            raise HTTPException(404, "expected /decode, /encode or /download")
        require_token(token, request.headers)
        body = await _body(request)
        async with at_once:
            done = await _perform(action, converter, await to_thread(_payloads_in, body), request)
            return await to_thread(_response, done)

    return Starlette(
        routes=[Route("/{path:path}", answer, methods=["POST"])],
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=list(ui_origins),
                allow_methods=["POST"],
                allow_headers=HEADERS,
                allow_credentials=True,
            ),
        ],
        exception_handlers={HTTPException: _error_response},
    )


Action = Callable[[DataConverter, Sequence[Payload], bool], Awaitable[list[Payload]]]


async def _perform(
    action: Action, converter: DataConverter, payloads: Sequence[Payload], request: Request
) -> list[Payload]:
    keeps_references = request.query_params.get("preserveStorageRefs") == "true"
    try:
        return await action(converter, payloads, keeps_references)
    except ConfigurationError as error:
        raise HTTPException(422, str(error)) from error


async def _body(request: Request) -> bytes:
    """Request's body. Raises `HTTPException` for one that is too large, or that a page may send
    without asking.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "expected application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"at most {MAX_BODY_BYTES} bytes are possible")
    return bytes(body)


def _payloads_in(body: bytes) -> Sequence[Payload]:
    """Return the payloads in a request. Raises `HTTPException` for anything else, and for too
    many.
    """
    if body.count(b"{") + body.count(b"[") > MAX_OBJECTS:
        raise HTTPException(413, f"at most {MAX_OBJECTS} objects and lists are possible")
    try:
        return Parse(body, Payloads()).payloads
    except (ParseError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(
            400, "expected the JSON form of temporal.api.common.v1.Payloads"
        ) from error


def _response(payloads: Sequence[Payload]) -> Response:
    return Response(
        MessageToJson(Payloads(payloads=payloads), indent=None), media_type="application/json"
    )


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    logger.info("refused a request with %d: %s", error.status_code, error.detail)
    return JSONResponse({"message": error.detail}, status_code=error.status_code)


END_SECONDS = 2
"""How long requests that are under way may take when the server ends."""


HEAD_SECONDS = 20.0
"""How long the head of a request may take to come, from the connection or its first byte on."""


class _PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes connections on which no request comes: uvicorn waits for one as long as the client
    likes.
    """

    head_seconds = HEAD_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._time_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _time_head(self) -> None:
        """Begin to wait for a head, unless one has come whose request is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                self.head_seconds, self.transport.close
            )

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command that this is a part of."""
        yield


@asynccontextmanager
async def serve(
    app: Starlette,
    host: str,
    port: int,
    *,
    what: str = "The codec server",
    head_seconds: float = HEAD_SECONDS,
) -> AsyncIterator[str]:
    """Provide the URL at which the application is served; port 0 is any free one. `what` is it, in
    errors.

    A connection on which the head of a request takes longer than `head_seconds` is closed. Raises
    `ConfigurationError` when the port can't be had.
    """
    listening = _listen(host, port, what)
    config = uvicorn.Config(
        app,
        http=type("Protocol", (_PatientProtocol,), {"head_seconds": head_seconds}),
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=END_SECONDS,
        proxy_headers="FORWARDED_ALLOW_IPS"
        in os.environ,  # uvicorn believes whoever is on this machine otherwise
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_broken_answer)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def _is_no_broken_answer(record: logging.LogRecord) -> bool:
    """Leave out answers that the application breaks off: it means to where a clean end would say
    something else.
    """
    return "without completing response" not in str(record.msg)


def _listen(host: str, port: int, what: str) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise ConfigurationError(
            f"{what} can't listen at {host}:{port} ({error.strerror}). Expected a free port of "
            "this machine: give another --port or --host"
        ) from error
    listening.listen()
    return listening
