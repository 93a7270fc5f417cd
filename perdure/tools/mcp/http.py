"""The HTTP client of an MCP server: each failure becomes the answer to its own request; answers are
bounded in size.

The SDK, which follows redirects only within the endpoint's host, loses the status of a refused
request, and drops the whole connection when one request fails.
"""

from __future__ import annotations

import asyncio
import http
import re
import secrets
from functools import cache
from ssl import SSLContext
from typing import Any

import httpx2
from mcp import MCPError, types
from pydantic_core import from_json

from ...text import UTF_8, one_line
from ..http import CONNECT_SECONDS, Fault, read_body, reason_of, was_refused
from .declaration import MAX_MESSAGE_BYTES, Server
from .oauth import OAuthProblem, OAuthTokens

NOTICE_SECONDS = 2.0
"""Seconds that a server has to accept a notification: other messages wait behind it."""
_MARK = secrets.token_hex(16)
"""Marks errors created here, unlike those that a server sends."""
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_SESSION = "mcp-session-id"
_OF_SESSIONS = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.INVALID_REQUEST})
"""Codes with which servers report an unknown session: -32000, -32001 and -32600."""
_FORGOTTEN = re.compile(
    r"\b(no|not|n't|unknown|invalid|missing|expired|closed|terminated|gone|bad)\b.{0,40}\bsession"
    r"|\bsession.{0,60}\b(no|not|n't|unknown|invalid|missing|expired|closed|terminated|gone|ended|lost)\b"
    r"|\bnot (been )?initiali[sz]ed|\bbefore initiali[sz]",
    re.IGNORECASE,
)
SESSION_OVER = Fault(
    "it does not know this session any more", outcome_unknown=False, is_session_over=True
)
"""A server looks up a request's session before it does anything."""


def fault_of(error: MCPError) -> Fault | None:
    """Return the fault of an error created here; None for an error sent by the server."""
    data = error.data
    if isinstance(data, dict) and data.get("mark") == _MARK:
        return Fault(error.message, *data["fault"])
    return None


def forgets_session(error: types.ErrorData) -> bool:
    """Return whether a server's error means that it does not know the request's session."""
    return error.code in _OF_SESSIONS and _FORGOTTEN.search(error.message[:1000]) is not None


class HostClient(httpx2.AsyncClient):
    """An HTTP client that does not raise for a failed request: the SDK gets an answer with an
    error.
    """

    def __init__(self, server: Server) -> None:
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
        headers = {**dict(server.headers), "accept-encoding": "identity"}
        super().__init__(
            headers=headers,
            timeout=timeout,
            verify=tls_context(),
            auth=OAuthTokens(server.oauth, tls_context()) if server.oauth else None,
            limits=httpx2.Limits(max_connections=None),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response; in place of an unusable one, an answer with a JSON-RPC error."""
        await request.aread()  # A redirected request is read again.
        try:
            async with asyncio.timeout(None if _may_take_long(request) else NOTICE_SECONDS):
                response = await super().send(request, **options)
                response.encoding = (
                    UTF_8  # JSON and events are UTF-8, whatever the server declares.
                )
                return await self._usable_response(request, response)
        except TimeoutError:
            return httpx2.Response(202, request=request)
        except OAuthProblem as error:
            return _fault_response(
                request, Fault(str(error), outcome_unknown=False, passing=error.passing)
            )
        except _UNSENT as error:
            return _fault_response(
                request, Fault(f"it can't be reached: {reason_of(error)}", outcome_unknown=False)
            )
        except httpx2.TransportError as error:
            return _fault_response(request, Fault(f"the connection broke: {reason_of(error)}"))

    async def _usable_response(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            request.method != "POST"
            or response.has_redirect_location
            or response.status_code == 202
        ):
            return response
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _fault_response(
                request, Fault("its answer is compressed, though that was declined")
            )
        if response.is_success and kind == "text/event-stream":
            return response
        if response.is_success and kind != "application/json":
            await response.aclose()
            return _fault_response(
                request, Fault(f"its answer is neither JSON nor events, but {kind!r:.100}")
            )
        try:
            content, is_whole = await read_body(response, MAX_MESSAGE_BYTES)
        finally:
            await response.aclose()
        if not is_whole:
            return _fault_response(
                request, Fault(f"its answer has more than {MAX_MESSAGE_BYTES:,} bytes")
            )
        if not response.is_success:
            return _refusal_response(request, response, content)
        if not _is_answer(content, _request_id(request)):
            return _fault_response(
                request, Fault(f"its response does not match this request: {_excerpt(content)!r}")
            )
        return _with_content(response, content)


def _refusal_response(
    request: httpx2.Request, response: httpx2.Response, content: bytes
) -> httpx2.Response:
    status = response.status_code
    error = _error_in(content)
    if _SESSION in request.headers and _forgets(status, error, content):
        return _fault_response(request, SESSION_OVER)
    if error is not None and status != 401:
        return _with_content(response, content)
    reason = http.HTTPStatus(status).phrase if status in http.HTTPStatus._value2member_map_ else ""
    text = f"it answered HTTP {status} {reason}".rstrip()
    if status in (401, 403):
        text += (
            " (check connection.apiKey or options.headers, and the variables that they refer to)"
        )
    elif said := _excerpt(content):
        text += f": {said}"
    return _fault_response(
        request,
        Fault(text, not was_refused(status, response.headers), passing=False, status=status),
    )


@cache
def tls_context() -> SSLContext:
    """Return the TLS settings that all connections share."""
    return httpx2.create_ssl_context()


def _request_id(request: httpx2.Request) -> Any:
    """Return the id of the sent JSON-RPC request; None for anything else."""
    if request.method != "POST":
        return None
    message = from_json(request.content)
    return message.get("id") if "method" in message else None


def _may_take_long(request: httpx2.Request) -> bool:
    """Return whether the answer may take long: a call's, or a stream of events."""
    return request.method == "GET" or _request_id(request) is not None


def _with_content(response: httpx2.Response, content: bytes) -> httpx2.Response:
    headers = {
        name: value
        for name, value in response.headers.items()
        if name in ("content-type", _SESSION)
    }
    found = httpx2.Response(
        response.status_code, headers=headers, content=content, request=response.request
    )
    found.encoding = UTF_8
    return found


def _fault_response(request: httpx2.Request, fault: Fault) -> httpx2.Response:
    if request.method == "DELETE":  # The end of a session: its outcome does not matter.
        return httpx2.Response(405, request=request)
    data = {"mark": _MARK, "fault": fault[1:]}
    error = {"code": types.INTERNAL_ERROR, "message": fault.text, "data": data}
    body = {"jsonrpc": "2.0", "id": _request_id(request), "error": error}
    return httpx2.Response(502, json=body, request=request)


def _is_answer(content: bytes, asked: Any) -> bool:
    try:
        message = from_json(content)
    except ValueError:
        return False
    return isinstance(message, dict) and str(message.get("id")) == str(asked)


def _error_in(content: bytes) -> types.ErrorData | None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(content, by_name=False)
    except ValueError:
        return None
    return message.error if isinstance(message, types.JSONRPCError) else None


def _forgets(status: int, error: types.ErrorData | None, content: bytes) -> bool:
    """Return whether a request in a session was refused because the server does not know that
    session.
    """
    if status in (404, 410):
        return True
    if error is not None and status == 400:
        return error.code in _OF_SESSIONS
    return 400 <= status < 500 and _FORGOTTEN.search(_excerpt(content)) is not None


def _excerpt(content: bytes) -> str:
    return one_line(content[:1000].decode(errors="replace"), 200)
