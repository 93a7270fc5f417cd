"""The HTTP client for remote agents: it calls only the allowed hosts, and bounds the size of
answers.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache

import httpx
from a2a.client import A2AClientError, A2AClientTimeoutError
from a2a.utils.errors import A2AError, InternalError
from google.protobuf.json_format import Error as JsonFormatError

from ..http import CONNECT_SECONDS, Fault, charset_in, reason_of, was_refused
from ..kind import OutcomeUnknown
from .card import NOT_LET_IN
from .settings import RemoteSettings

ANSWER_SECONDS = 30.0
"""For an answer that does not wait for the agent's work."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024


class RefusedError(httpx.TransportError):
    """perdure does not send this request, or does not read this answer; the text has the reason and
    the remedy.
    """


def http_client(settings: RemoteSettings, credentials: Mapping[str, str]) -> httpx.AsyncClient:
    """Return a client for one agent. Its time-outs cover connecting only: the caller limits the
    time of an answer.
    """
    guard = _Guard(settings, credentials)
    return httpx.AsyncClient(
        verify=_tls(),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        follow_redirects=True,
        max_redirects=5,
        headers={"Accept-Encoding": "identity", "User-Agent": "perdure"},
        event_hooks={"request": [guard.request], "response": [guard.response]},
    )


class _Guard:
    """Checks each request before it is sent, also after a redirect, and each answer before it is
    read.
    """

    def __init__(self, settings: RemoteSettings, credentials: Mapping[str, str]) -> None:
        self._settings = settings
        self._credentials = credentials

    async def request(self, request: httpx.Request) -> None:
        """Raises RefusedError for a host that is not allowed."""
        if not self._settings.allows(str(request.url)):
            raise RefusedError(refusal_of_url(str(request.url), self._settings.endpoint))
        request.headers.update(self._credentials)
        timeout = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {**timeout, "connect": CONNECT_SECONDS}

    async def response(self, response: httpx.Response) -> None:
        """Raises RefusedError for a compressed answer: none was requested, and its decompressed
        size is unbounded.
        """
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RefusedError(
                f"the answer is compressed ({encoding:.40}), although no compression was asked for"
            )
        response.encoding = charset_in(response.headers.get("content-type", ""))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream)


def refusal_of_url(url: str, endpoint: str) -> str:
    """Return why a request does not go to `url`, and the remedy."""
    shown = bare(url)
    if url.startswith("http:") and endpoint.startswith("https:"):
        return f"{shown} is not encrypted, although the endpoint {bare(endpoint)} is"
    return (
        f"{shown} is not on the host of the endpoint {bare(endpoint)}: if it belongs to the agent, "
        "name its host in 'options.allowedHosts'"
    )


def bare(url: str) -> str:
    """Return a URL for error texts: without user, query and fragment, and shortened."""
    try:
        shown = str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    except httpx.InvalidURL:
        return repr(url[:100])
    return shown[:200]


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ANSWER_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise RefusedError(f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS settings, created once: reading the certificates takes longer than the rest of
    a client.
    """
    return httpx.create_ssl_context()


NONSENSE = (JsonFormatError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""Errors of reading an answer that violates the protocol."""
FAULTS = (A2AError, httpx.HTTPError, httpx.InvalidURL, OSError, *NONSENSE)
"""Errors of the client."""
_PASSING_STATUS = frozenset({408, 425, 429})


class AgentError(Exception):
    """A call has failed; the text is for the model."""


class AgentLost(AgentError, OutcomeUnknown):
    """A failed call whose request the agent may still carry out."""


def fault_of(error: BaseException) -> Fault:
    """Return the fault for one of `FAULTS`."""
    cause = (
        error.__cause__
        if isinstance(error, A2AClientError) and error.__cause__ is not None
        else error
    )
    match cause:
        case RefusedError():
            return Fault(reason_of(cause), passing=False)
        case httpx.HTTPStatusError():
            return _of_status(cause.response)
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return Fault(
                f"it can't be reached ({type(cause).__name__}): is it running?",
                outcome_unknown=False,
            )
        case httpx.TimeoutException() | A2AClientTimeoutError():
            return Fault("it does not answer in time")
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return Fault(reason_of(cause), outcome_unknown=False, passing=False)
        case httpx.TooManyRedirects():
            return Fault(reason_of(cause), passing=False)
        case httpx.HTTPError():
            return Fault(f"the connection broke ({type(cause).__name__})")
        case A2AError() if not isinstance(cause, A2AClientError):
            passing = isinstance(cause, InternalError)
            return Fault(
                f"it answers with an error: {reason_of(cause)}",
                outcome_unknown=passing,
                passing=passing,
            )
        case _:
            return Fault(f"its answer makes no sense ({type(cause).__name__}): {reason_of(cause)}")


def _of_status(response: httpx.Response) -> Fault:
    status = response.status_code
    passing = status >= 500 or status in _PASSING_STATUS
    if status in (401, 403):
        return Fault(f"HTTP status {status}{NOT_LET_IN}", outcome_unknown=False, passing=False)
    return Fault(f"HTTP status {status}", not was_refused(status, response.headers), passing)
