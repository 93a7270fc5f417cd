"""The web application: `/decode`, `/encode` and `/download`, at any prefix, as Temporal's UI and CLI ask for them."""

from __future__ import annotations

from asyncio import Semaphore, to_thread
from collections.abc import Awaitable, Callable, Collection, Sequence

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import DataConverter

from ...errors import ConfigurationError
from ...logs import get_logger
from .access import Access
from .actions import ACTIONS

logger = get_logger("perdure.codec_server")

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Of one request: a page of a history has some payloads of 2 MiB at most, in base64."""
MAX_OBJECTS = 100_000
"""JSON objects and lists in a request: a payload has two, and a page of a history some thousands."""
MAX_AT_ONCE = 2
"""So many requests are decoded at once, each in at most some times `MAX_BODY_BYTES` of memory."""
HEADERS = ("Authorization", "Authorization-Extras", "Content-Type", "X-Namespace")
"""What the UI sends."""


def codec_app(
    converter: DataConverter, access: Access, *, ui_origins: Collection[str] = (), hosts: Collection[str] = ("*",)
) -> Starlette:
    """The application, which decodes and encodes as `converter` does, for whom `access` lets in.

    Pages of `ui_origins` may ask from a browser, and no others. `hosts` are the names by which the server may be
    called. What is asked and answered is logged nowhere.
    """

    at_once = Semaphore(MAX_AT_ONCE)

    async def answer(request: Request) -> Response:
        action = ACTIONS.get(request.path_params["path"].rpartition("/")[2])
        if action is None:
            raise HTTPException(404, "expected /decode, /encode or /download")
        await access.require(request.headers)
        body = await _body(request)
        async with at_once:
            done = await _done(action, converter, await to_thread(_parsed, body), request)
            return await to_thread(_answered, done)

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
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
        ],
        exception_handlers={HTTPException: _refused},
    )


Action = Callable[[DataConverter, Sequence[Payload], bool], Awaitable[list[Payload]]]


async def _done(
    action: Action, converter: DataConverter, payloads: Sequence[Payload], request: Request
) -> list[Payload]:
    keeps_references = request.query_params.get("preserveStorageRefs") == "true"
    try:
        return await action(converter, payloads, keeps_references)
    except ConfigurationError as error:
        raise HTTPException(422, str(error)) from error


async def _body(request: Request) -> bytes:
    """The request's body. Raises `HTTPException` for one that is too large, or that a page may send without asking."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "expected application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"at most {MAX_BODY_BYTES} bytes are possible")
    return bytes(body)


def _parsed(body: bytes) -> Sequence[Payload]:
    """The payloads in a request. Raises `HTTPException` for anything else, and for too many."""
    if body.count(b"{") + body.count(b"[") > MAX_OBJECTS:
        raise HTTPException(413, f"at most {MAX_OBJECTS} objects and lists are possible")
    try:
        return Parse(body, Payloads()).payloads
    except (ParseError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, "expected the JSON form of temporal.api.common.v1.Payloads") from error


def _answered(payloads: Sequence[Payload]) -> Response:
    return Response(MessageToJson(Payloads(payloads=payloads), indent=None), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    logger.info("refused a request with %d: %s", error.status_code, error.detail)
    return JSONResponse({"message": error.detail}, status_code=error.status_code)
