"""What goes wrong on the second day (key, model's name, rate, a long conversation), in each
service's words.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.providers.errors import error_from_http

Case = tuple[int, dict[str, str], Any, str]
LATER = {"retry-after": "2"}


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, **more}}


def google(code: int, status: str, message: str) -> list[dict[str, Any]]:
    return [{"error": {"code": code, "message": message, "status": status}}]


def flat(message: str, type: str, code: Any) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": type, "param": None, "code": code}


FULL = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
CASES: dict[str, Case] = {
    "gemini key": (
        400,
        {},
        google(400, "INVALID_ARGUMENT", "Missing or invalid Authorization header."),
        "authentication",
    ),
    "gemini model": (
        404,
        {},
        google(404, "NOT_FOUND", "models/gemini-4 is not found for API version v1main"),
        "not_found",
    ),
    "gemini rate": (
        429,
        LATER,
        google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted"),
        "rate_limit",
    ),
    "gemini long": (
        400,
        {},
        google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
        ),
        "context_length",
    ),
    "deepseek key": (
        401,
        {},
        openai("Authentication Fails, Your api key: ****rong is invalid"),
        "authentication",
    ),
    "deepseek model": (
        400,
        {},
        openai("Model Not Exist", code="invalid_request_error"),
        "not_found",
    ),
    "deepseek money": (402, {}, openai("Insufficient Balance"), "quota_exhausted"),
    "deepseek long": (400, {}, openai(FULL, code="invalid_request_error"), "context_length"),
    "mistral key": (401, {}, {"detail": "Unauthorized"}, "authentication"),
    "mistral model": (
        400,
        {},
        flat("Invalid model: mistral-lage", "invalid_model", "1500"),
        "not_found",
    ),
    "mistral rate": (429, LATER, flat("Rate limit exceeded", "rate_limited", "1300"), "rate_limit"),
    "mistral long": (
        400,
        {},
        flat(
            "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
            "invalid",
            "3051",
        ),
        "context_length",
    ),
    "vllm key": (401, {}, {"error": "Unauthorized"}, "authentication"),
    "vllm model": (
        404,
        {},
        flat("The model `llama` does not exist.", "NotFoundError", 404),
        "not_found",
    ),
    "vllm path": (404, {}, {"detail": "Not Found"}, "not_found"),
    "vllm tools": (
        400,
        {},
        flat('"auto" tool choice requires --enable-auto-tool-choice', "BadRequestError", 400),
        "no_tools",
    ),
    "vllm long": (400, {}, flat(FULL, "BadRequestError", 400), "context_length"),
    "azure key": (
        401,
        {},
        {
            "error": {
                "code": "401",
                "message": "Access denied due to invalid subscription key or wrong API endpoint.",
            }
        },
        "authentication",
    ),
    "azure model": (
        404,
        {},
        {
            "error": {
                "code": "DeploymentNotFound",
                "message": "The API deployment for this resource does not exist.",
            }
        },
        "not_found",
    ),
    "azure rate": (
        429,
        LATER,
        {"error": {"code": "429", "message": "have exceeded token rate limit"}},
        "rate_limit",
    ),
    "azure long": (400, {}, openai(FULL, code="context_length_exceeded"), "context_length"),
    "glm key": (
        401,
        {},
        {"error": {"code": "1000", "message": "Authentication Failed"}},
        "authentication",
    ),
    "kimi model": (
        404,
        {},
        openai("Not found the model kimi-k9 or Permission denied"),
        "not_found",
    ),
    "xai model": (
        404,
        {},
        {"code": "entity", "error": "The model grok-9 does not exist"},
        "not_found",
    ),
    "cohere model": (
        404,
        {},
        {"message": "model 'x' not found, make sure the ID is right"},
        "not_found",
    ),
    "ollama model": (
        404,
        {},
        openai('model "llama9" not found, try pulling it first'),
        "not_found",
    ),
    "lmstudio model": (404, {}, {"error": "No models loaded. Please load a model"}, "not_found"),
}


@pytest.mark.parametrize(("status", "headers", "body", "kind"), CASES.values(), ids=CASES)
def test_the_kind_of_what_goes_wrong(
    status: int, headers: dict[str, str], body: Any, kind: str
) -> None:
    error = error_from_http(status, headers, body, provider="p")
    assert (error.kind, error.retry_after) == (kind, 2.0 if headers else None)
    assert error.kind != "context_length" or error.limit == 8192
