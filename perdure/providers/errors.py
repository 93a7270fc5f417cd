"""Classifies each failure of a model call as a `ModelError` (§12.4), including refusals and
malformed responses.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from ..errors import ModelError
from ..json_types import JsonView
from ..prompty.worker_limits import server_in
from ..text import bounded_text, one_line, valid_text
from .error_bodies import WAIT_KEYS, read_body
from .error_words import error_kind, overflow_figures

UNEXPECTED_FORMAT = "Unexpected response format"
MAX_NAME_CHARS = 200
"""The limit for a provider's ids and single words."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(
    r"(\d+(?:\.\d+)?) {0,2}(ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|"
    r"days?|d)(?![a-z])",
    re.I,
)
_AGAIN = re.compile(
    r"\b(?:retry|try again|wait|available again)(?: again)?(?: in| after| for)?(?: about| at "
    rf"least)? {{1,2}}"
    rf"((?:{_PIECE.pattern}[ ,]{{0,2}}){{1,4}})",
    re.I,
)
_DURATION_CHARS = 100
MAX_HEADERS = 100
"""The most headers that are read."""
_EPOCH_SECONDS = 1e9
"""A wait of at least this size is a point in time instead."""
_READ_CHARS = 32 * 1024
"""The characters at the beginning and at the end of a text that are searched: between them, servers
quote the request."""


def error_from_http(
    status: int | None, headers: Mapping[str, str], body: Any, *, provider: str, fallback: str = ""
) -> ModelError:
    """Typed error for an HTTP response, or for an error inside a stream (`status` None or 200).
    Never raises.

    `body` is the decoded JSON, or text; `fallback` is the message for a body that has none. The
    beginning and the end of the text decide the kind; the error holds as much of it as
    `bounded_text` leaves.
    """
    read = read_body(body)
    whole = read.message or fallback
    text = (
        whole
        if len(whole) <= 2 * _READ_CHARS
        else f"{whole[:_READ_CHARS]} … {whole[-_READ_CHARS:]}"
    )
    if status is not None and 300 <= status < 400:
        return ModelError(
            _redirect_text(headers), kind="configuration", provider=provider, status=status
        )
    codes = [
        *read.codes,
        (headers.get("x-amzn-errortype") or "").partition(":")[0].lower(),
    ]
    wait = asked_wait(headers, read.layers[::-1], text)
    error = ModelError(
        bounded_text(whole or _unknown_text(status, body)),
        kind=error_kind(status, codes, text, has_wait=wait is not None),
        provider=provider,
        status=status,
        request_id=request_id(headers, body),
        retry_after=wait,
    )
    if error.kind == "context_length":
        error.limit, error.asked = overflow_figures(text)
    return error


def _unknown_text(status: int | None, body: Any) -> str:
    """Return the status, and the body unchanged."""
    return f"HTTP status {status}{f': {json_excerpt(body)}' if body else ''}"


def _redirect_text(headers: Mapping[str, str]) -> str:
    server = server_in(headers.get("location"))
    where = str(server or "a target that is not a URL")
    return (
        f"It redirects to {where}, and no redirect is followed: if requests should go there, write "
        "it as `endpoint` of the connection"
    )


def error_from_exception(error: Exception, *, provider: str) -> ModelError:
    """Return the typed error for an exception of an SDK or its HTTP client. Never raises."""
    if isinstance(error, ModelError):
        return error
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    if response is not None and status is not None:
        body = getattr(error, "body", None)
        return error_from_http(
            status, response.headers, body, provider=provider, fallback=str(error)
        )
    return _transport_error(error, provider)


def asked_wait(
    headers: Mapping[str, str],
    layers: Sequence[JsonView],
    message: str,
    *,
    now: float | None = None,
) -> float | None:
    """Return the seconds that the server asks to wait, from any of the usual places; None if it
    does not. Never raises.
    """
    now = time.time() if now is None else now
    told = [layer["headers"] for layer in layers if isinstance(layer.get("headers"), Mapping)]
    all_headers = [
        {str(key).lower(): value for key, value in islice(each.items(), MAX_HEADERS)}
        for each in (headers, *told)
    ]
    in_body = [layer.get(key) for layer in layers for key in WAIT_KEYS]
    in_text = _AGAIN.search(message)
    waits = [
        *(retry_after_seconds(each, now=now) for each in all_headers),
        *(_wait(each, now) for each in in_body),
        _wait(in_text[1], now) if in_text else None,
    ]
    return next((wait for wait in waits if wait is not None), None)


def retry_after_seconds(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds to wait: `retry-after-ms`, or `retry-after` as seconds, as a duration or
    as a date.

    Never negative; None when neither header is present and valid. `now` is a Unix time. Never
    raises.
    """
    milliseconds = _number(headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    return _wait(headers.get("retry-after"), time.time() if now is None else now)


def _wait(spelled: Any, now: float) -> float | None:
    """Return the seconds from now, from a number, a duration such as `6m0.5s`, or a point in
    time.
    """
    if isinstance(spelled, str) and len(spelled) > _DURATION_CHARS:
        return None
    seconds = _number(spelled)
    if seconds is None and isinstance(spelled, str):
        seconds = _duration(spelled.strip()) or _seconds_until(spelled.strip(), now)
    elif seconds is not None and seconds >= _EPOCH_SECONDS:
        seconds -= now
    return None if seconds is None else max(0.0, seconds)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _duration(text: str) -> float:
    """Return the seconds; 0.0 for a text that is not a duration."""
    if _PIECE.sub("", text).strip(" ,"):
        return 0.0
    pieces = [(float(amount), name.lower()) for amount, name in _PIECE.findall(text)]
    return sum(
        each / 1000 if name == "ms" or name[:3] == "mil" else each * _UNITS[name[0]]
        for each, name in pieces
    )


def _seconds_until(date: str, now: float) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            point = read(date)
            return (point if point.tzinfo else point.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
    return None


def request_id(headers: Mapping[str, str], body: Any) -> str | None:
    found = headers.get("x-request-id") or headers.get("request-id")
    return short_word(found or (body.get("request_id") if isinstance(body, Mapping) else None))


def short_word(value: Any) -> str | None:
    """Return at most `MAX_NAME_CHARS` of a provider's id or word; None for anything but a text."""
    return valid_text(value[:MAX_NAME_CHARS]) if value and isinstance(value, str) else None


def _transport_error(error: Exception, provider: str) -> ModelError:
    import httpx2

    chain = list(_causes(error))
    innermost = bounded_text(str(chain[-1])) or type(chain[-1]).__name__
    if any(isinstance(cause, TimeoutError | httpx2.TimeoutException) for cause in chain):
        return ModelError(
            f"The provider did not answer in time: {innermost}", kind="timeout", provider=provider
        )
    if any(isinstance(cause, httpx2.TransportError | OSError) for cause in chain):
        return ModelError(f"Connection error: {innermost}", kind="connection", provider=provider)
    if any(
        isinstance(cause, httpx2.DecodingError | ValueError | RecursionError) for cause in chain
    ):
        # Without Python's own text for the resulting exception.
        why = "it is nested too deeply" if isinstance(chain[-1], RecursionError) else innermost
        return ModelError(f"{UNEXPECTED_FORMAT}: {why}", kind="invalid_response", provider=provider)
    return ModelError(innermost, kind="server", provider=provider)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


SHOWN_CHARS = 300


class UnexpectedFormatError(ValueError):
    """The provider's response is not one that its API specifies."""

    def __init__(self, got: str) -> None:
        """`got` is the response, in the form of `shown`."""
        super().__init__(UNEXPECTED_FORMAT)
        self.got = got

    def account(self, expected: str) -> str:
        """Return the error's text, with the expected and the actual response."""
        return f"{UNEXPECTED_FORMAT}: expected {expected}, got {self.got}"


def json_excerpt(value: Any) -> str:
    """Return the beginning of a JSON value, on one line. Never raises."""
    text = ""
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            text += piece
            if len(text) > 10 * SHOWN_CHARS:
                break
        return valid_text(one_line(text, SHOWN_CHARS))
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"
