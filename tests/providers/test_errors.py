"""§12.4, §12.5: what a provider's failure is classified as."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.loop.failed_calls import may_pass
from perdure.providers.errors import error_from_http


def openai_error(
    message: str, code: str | None = None, type_: str = "invalid_request_error"
) -> JsonObject:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def anthropic_error(message: str, type_: str) -> JsonObject:
    return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_body"}


TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
    "tokens."
)
NO_CREDIT = "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, openai_error("Bad value"), "bad_request"),
        (400, openai_error(TOO_LONG, "context_length_exceeded"), "context_length"),
        (400, openai_error(TOO_LONG), "context_length"),
        (400, {"object": "error", "message": TOO_LONG, "code": 400}, "context_length"),
        (400, openai_error("Limit", "billing_hard_limit_reached"), "quota_exhausted"),
        (
            400,
            anthropic_error(
                "prompt is too long: 200001 tokens > 200000 maximum", "invalid_request_error"
            ),
            "context_length",
        ),
        (
            400,
            anthropic_error(
                "input length and `max_tokens` exceed context limit", "invalid_request_error"
            ),
            "context_length",
        ),
        (400, anthropic_error(NO_CREDIT, "invalid_request_error"), "quota_exhausted"),
        (400, anthropic_error("max_tokens: required", "invalid_request_error"), "bad_request"),
        (401, openai_error("Incorrect API key provided", "invalid_api_key"), "authentication"),
        (401, anthropic_error("invalid x-api-key", "authentication_error"), "authentication"),
        (402, {"error": {"message": "Insufficient Balance"}}, "quota_exhausted"),
        (402, anthropic_error("Pay", "billing_error"), "quota_exhausted"),
        (403, anthropic_error("Not allowed", "permission_error"), "permission"),
        (404, openai_error("The model `x` does not exist", "model_not_found"), "not_found"),
        (404, {"error": "model 'x' not found"}, "not_found"),
        (408, "", "timeout"),
        (409, openai_error("Conflict"), "server"),
        (
            413,
            anthropic_error("Request exceeds the maximum size", "request_too_large"),
            "context_length",
        ),
        (418, {}, "bad_request"),
        (422, {"detail": [{"loc": ["body"]}]}, "bad_request"),
        (429, openai_error("Rate limit reached", "rate_limit_exceeded", "requests"), "rate_limit"),
        (
            429,
            openai_error(
                "You exceeded your current quota", "insufficient_quota", "insufficient_quota"
            ),
            "quota_exhausted",
        ),
        (429, anthropic_error("Slow down", "rate_limit_error"), "rate_limit"),
        (429, "<html>Too Many Requests</html>", "rate_limit"),
        (500, openai_error("The server had an error", None, "server_error"), "server"),
        (500, anthropic_error("Overloaded", "overloaded_error"), "overloaded"),
        (502, "<html>Bad Gateway</html>", "server"),
        (503, openai_error("The engine is currently overloaded"), "overloaded"),
        (504, None, "timeout"),
        (529, anthropic_error("Overloaded", "overloaded_error"), "overloaded"),
        (200, anthropic_error("Overloaded", "overloaded_error"), "overloaded"),
        (200, anthropic_error("Internal", "api_error"), "server"),
        (None, {"error": {"message": "Unknown"}}, "server"),
        (None, openai_error(TOO_LONG, "context_length_exceeded"), "context_length"),
    ],
)
def test_classes(status: int | None, body: Any, kind: str) -> None:
    error = error_from_http(status, {}, body, provider="p")
    assert (error.kind, error.provider, error.status) == (kind, "p", status)


def test_only_what_may_pass_is_asked_again() -> None:
    kinds = {
        status: error_from_http(status, {}, {}, provider="p").kind
        for status in (400, 401, 403, 404, 422)
    }
    assert not any(map(may_pass, kinds.values()))
    passing = [
        error_from_http(status, {}, {}, provider="p").kind
        for status in (408, 429, 500, 502, 503, 529)
    ]
    assert all(map(may_pass, passing))


def test_text_and_request_id() -> None:
    error = error_from_http(
        429, {"x-request-id": "req_1"}, openai_error("Slow down"), provider="openai"
    )
    assert (error.message, error.request_id) == ("Slow down", "req_1")
    in_body = error_from_http(
        529, {}, anthropic_error("Full", "overloaded_error"), provider="anthropic"
    )
    assert (in_body.message, in_body.request_id) == ("Full", "req_body")
    assert (
        error_from_http(
            502, {"request-id": "r"}, "", provider="p", fallback="Error code: 502"
        ).request_id
        == "r"
    )
    assert (
        error_from_http(502, {}, "", provider="p", fallback="Error code: 502").message
        == "Error code: 502"
    )
    assert error_from_http(502, {}, None, provider="p").message == "HTTP status 502"
