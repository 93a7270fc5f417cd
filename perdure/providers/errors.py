"""Classifies the failures of model calls as one `ModelError` each (§12.4): refusals and nonsense included.

The codes: https://platform.openai.com/docs/guides/error-codes and https://docs.anthropic.com/en/api/errors.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..errors import ModelError, ModelErrorKind
from ..text import bounded_text, one_line, valid_text
from ..worker_limits import server_in

_TOOLS = r"(?:tools?|tool[ _-]?(?:use|calls?|calling|choice)|functions?|function[ _-]?calls?|function[ _-]?calling)"
_QUOTE = r"""[`'"]?"""
_REFUSALS = re.compile(
    "|".join(
        (
            # Ollama, DeepSeek, xAI, Bedrock, Groq: "… does not support tools", "doesn't support tool use"
            rf"(?:does not|doesn.t|do not|don.t|cannot|can.t) support (?:the |native )?{_QUOTE}{_TOOLS}\b",
            # OpenAI, Azure, Gemini, DeepInfra: "tools is not supported in this model", "Tool calling is not supported"
            rf"\b{_TOOLS}{_QUOTE} (?:is|are) (?:currently )?(?:not (?:supported|enabled)|unsupported|disabled)",
            # OpenRouter: "No endpoints found that support tool use"
            r"no endpoints found that support (?:tool use|.{0,200}tool_choice)",
            # vLLM: '"auto" tool choice requires --enable-auto-tool-choice …'
            # llama.cpp: "tools param requires --jinja flag"
            rf"\b{_TOOLS} (?:param |parameter )?requires? --",
            # llama.cpp, OpenAI: "Unsupported param: tools", "Unrecognized request argument supplied: tools"
            rf"(?:unsupported|unknown|unrecognized|unrecognised) (?:request )?(?:param(?:eter)?|argument|field)s?"
            rf"(?: supplied)?:? {_QUOTE}(?:tools|tool_choice|functions)\b",
            # Novita: "model features function calling not support"
            rf"\b{_TOOLS} not support(?:ed)?\b",
        )
    ),
    re.IGNORECASE,
)


def refuses_tools(text: str) -> bool:
    """Return whether an error's text says that the model, or its server, takes no tools. Never raises.

    A wrong tool, or a wrong conversation, is refused in other words.
    """
    return _REFUSALS.search(text) is not None


UNEXPECTED_FORMAT = "Unexpected response format"
MAX_NAME_CHARS = 200
"""For what a provider gives as an id or as one word."""

_BY_STATUS: dict[int, ModelErrorKind] = {
    400: "bad_request",
    401: "authentication",
    402: "quota_exhausted",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_BY_CODE: dict[str, ModelErrorKind] = {
    "api_error": "server",
    "authentication_error": "authentication",
    "billing_error": "quota_exhausted",
    "invalid_api_key": "authentication",
    "invalid_prompt": "bad_request",
    "invalid_request_error": "bad_request",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "permission_error": "permission",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "request_too_large": "bad_request",
    "server_error": "server",
    "server_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "timeout_error": "timeout",
}

_DECISIVE: dict[str, ModelErrorKind] = {
    "billing_error": "quota_exhausted",
    "billing_hard_limit_reached": "quota_exhausted",
    "billing_not_active": "quota_exhausted",
    "context_length_exceeded": "context_length",
    "contract_spend_limit_reached": "quota_exhausted",
    "enforced_spend_limit_reached": "quota_exhausted",
    "insufficient_quota": "quota_exhausted",
    "linked_organization_spend_limit_reached": "quota_exhausted",
    "overloaded_error": "overloaded",
}
"""Codes that are more specific than the status that comes with them."""

_CONTEXT_EXCEEDED = re.compile(
    r"prompt is too long|context (window|length|size|limit)|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)
_NEVER_ABOUT_TOOLS = frozenset({401, 402, 403, 408, 413, 429})
_QUOTA_EXHAUSTED = re.compile(r"credit balance|insufficient (credits|balance|funds)", re.IGNORECASE)


def error_from_http(
    status: int | None, headers: Mapping[str, str], body: Any, *, provider: str, fallback: str = ""
) -> ModelError:
    """Typed error for an HTTP response, or for an error inside a stream (`status` None or 200). Never raises.

    `body` is the decoded JSON, or text; `fallback` is the message for a body that has none. An error inside a
    stream whose code is unknown is the server's, because the request was accepted. All of the text decides about
    the kind; the error holds so much of it as `bounded_text` leaves.
    """
    codes, message = _read_body(body)
    if status is not None and 300 <= status < 400:
        return ModelError(_redirect_text(headers), kind="configuration", provider=provider, status=status)
    return ModelError(
        bounded_text(message or fallback or f"HTTP status {status}"),
        kind=_kind(status, codes, message),
        provider=provider,
        status=status,
        request_id=request_id(headers, body),
        retry_after=retry_after_seconds(headers),
    )


def _redirect_text(headers: Mapping[str, str]) -> str:
    server = server_in(headers.get("location"))
    where = f"another server, {server}" if server else "something that is not the URL of a server"
    return f"It redirects to {where}, where no request goes: if it should, write that in `endpoint` of the connection"


def error_from_exception(error: Exception, *, provider: str) -> ModelError:
    """Return the typed error for what an SDK or its HTTP client raised. Never raises."""
    if isinstance(error, ModelError):
        return error
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    if response is not None and status is not None:
        body = getattr(error, "body", None)
        return error_from_http(status, response.headers, body, provider=provider, fallback=str(error))
    return _transport_error(error, provider)


def retry_after_seconds(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds to wait: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date.

    Never negative; None when neither header is present and valid. `now` is a Unix time. Never raises.
    """
    milliseconds = _finite(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    spelled = headers.get("retry-after")
    seconds = _finite(spelled)
    if seconds is None and spelled:
        seconds = _seconds_until(spelled, time.time() if now is None else now)
    return None if seconds is None else max(0.0, seconds)


def _kind(status: int | None, codes: list[str], message: str) -> ModelErrorKind:
    decisive = next((_DECISIVE[code] for code in codes if code in _DECISIVE), None)
    if decisive:
        return decisive
    if status in (None, 200, 400, 402, 403, 429) and _QUOTA_EXHAUSTED.search(message):
        return "quota_exhausted"
    if status in (None, 200, 400, 413, 422) and _CONTEXT_EXCEEDED.search(message):
        return "context_length"
    if status not in _NEVER_ABOUT_TOOLS and refuses_tools(message):
        return "no_tools"
    if status is None or status < 400:
        return next((_BY_CODE[code] for code in codes if code in _BY_CODE), "server")
    return _BY_STATUS.get(status, "server" if status >= 500 else "bad_request")


def _read_body(body: Any) -> tuple[list[str], str]:
    """Return the codes and types in an error body of any of the usual shapes, and its message."""
    nested = _layers(body)
    codes = [str(layer[key]).lower() for layer in nested for key in ("code", "type") if layer.get(key)]
    texts = [
        layer[key] for layer in nested for key in ("message", "error", "detail") if isinstance(layer.get(key), str)
    ]
    plain = body if isinstance(body, str) else _listed_problems(nested)
    return codes, next(iter(texts), plain).strip()


def _listed_problems(nested: list[Mapping[str, Any]]) -> str:
    """Return what servers of FastAPI find wrong, as `body.model: Field required`; "" for another body."""
    details = (layer["detail"] for layer in nested if isinstance(layer.get("detail"), list))
    problems = [each for listed in details for each in listed if isinstance(each, Mapping)]
    places = [each["loc"] if isinstance(each.get("loc"), list) else [] for each in problems]
    return "; ".join(
        f"{'.'.join(map(str, place))}: {each.get('msg')}" for place, each in zip(places, problems, strict=True)
    )


def _layers(body: Any) -> list[Mapping[str, Any]]:
    """Return the error objects that are nested in the body, innermost first."""
    return list(_walk(body))[::-1]


def _walk(body: Any) -> Iterator[Mapping[str, Any]]:
    while isinstance(body, Mapping):
        yield body
        body = body.get("error")


def request_id(headers: Mapping[str, str], body: Any) -> str | None:
    found = headers.get("x-request-id") or headers.get("request-id")
    return short_word(found or (body.get("request_id") if isinstance(body, Mapping) else None))


def short_word(value: Any) -> str | None:
    """Return an id or a word as the provider gives it, at most `MAX_NAME_CHARS` of it; None for anything but a text."""
    return valid_text(value[:MAX_NAME_CHARS]) if value and isinstance(value, str) else None


def _transport_error(error: Exception, provider: str) -> ModelError:
    import httpx2

    chain = list(_causes(error))
    innermost = bounded_text(str(chain[-1])) or type(chain[-1]).__name__
    if any(isinstance(cause, TimeoutError | httpx2.TimeoutException) for cause in chain):
        return ModelError(f"The provider did not answer in time: {innermost}", kind="timeout", provider=provider)
    if any(isinstance(cause, httpx2.TransportError | OSError) for cause in chain):
        return ModelError(f"Connection error: {innermost}", kind="connection", provider=provider)
    if any(isinstance(cause, httpx2.DecodingError | ValueError | RecursionError) for cause in chain):
        return ModelError(_unexpected_text(chain[-1], innermost), kind="invalid_response", provider=provider)
    return ModelError(innermost, kind="server", provider=provider)


def _unexpected_text(cause: BaseException, text: str) -> str:
    """Return what is wrong with an answer, without Python's own words for what that led to."""
    if isinstance(cause, RecursionError):
        return f"{UNEXPECTED_FORMAT}: it is nested too deeply"
    if text == UNEXPECTED_FORMAT or isinstance(cause, LookupError | TypeError | AttributeError):
        return UNEXPECTED_FORMAT
    return f"{UNEXPECTED_FORMAT}: {text}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _finite(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return None


SHOWN_CHARS = 300


class UnexpectedFormatError(ValueError):
    """What the provider sent is nothing that its API specifies."""

    def __init__(self, got: str) -> None:
        """`got` is what it sent, as `shown` gives it."""
        super().__init__(UNEXPECTED_FORMAT)
        self.got = got

    def account(self, expected: str) -> str:
        """Return the error's text, with what was expected and what came."""
        return f"{UNEXPECTED_FORMAT}: expected {expected}, got {self.got}"


def json_excerpt(value: Any) -> str:
    """Return the beginning of a JSON value, on one line. Never raises."""
    try:
        return valid_text(one_line(json.dumps(value, ensure_ascii=False), SHOWN_CHARS))
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"
