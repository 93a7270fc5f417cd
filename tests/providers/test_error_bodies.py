"""Errors as services send them: kind, wait and figures of each; and no body at all with which
reading them fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.json_types import JsonObject
from perdure.providers.error_bodies import read_body
from perdure.providers.errors import asked_wait, error_from_http


def said(message: str, **more: Any) -> JsonObject:
    return {"error": {"message": message, **more}}


def google(code: int, status: str, message: str, *details: JsonObject) -> list[JsonObject]:
    return [
        {"error": {"code": code, "message": message, "status": status, "details": list(details)}}
    ]


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.2s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."

OVERFLOWS: dict[str, tuple[int, Any, int | None, int | None]] = {
    "OpenAI": (
        400,
        said(
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9000 tokens."
        ),
        8192,
        9000,
    ),
    "OpenAI, Responses": (
        400,
        said("Your input exceeds the context window of this model.", type="x"),
        None,
        None,
    ),
    "OpenAI, a text": (
        400,
        said(
            "Invalid 'messages[3].content': string too long. Expected a string with maximum length "
            "1048576, but got a string with length 2000000 instead."
        ),
        1048576,
        2000000,
    ),
    "OpenAI, a minute": (
        429,
        said(
            "Request too large for gpt-4o in organization org-123456789 on tokens per min (TPM): "
            "Limit 30000, Requested 40000. The input or output tokens must be reduced in order to "
            "run successfully.",
            code="rate_limit_exceeded",
        ),
        30000,
        40000,
    ),
    "Groq, a minute": (
        413,
        said(
            "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit "
            "6000, Requested 7214, please reduce your message size and try again.",
            code="rate_limit_exceeded",
        ),
        6000,
        7214,
    ),
    "Anthropic": (
        400,
        {
            "type": "error",
            "error": {"message": "prompt is too long: 200001 tokens > 200000 maximum"},
        },
        200000,
        200001,
    ),
    "Anthropic, with the answer": (
        400,
        {
            "error": {
                "message": (
                    "input length and `max_tokens` exceed context limit: 199000 + 8192 > "
                    "200000, decrease"
                )
            }
        },
        200000,
        207192,
    ),
    "Anthropic, bytes": (
        413,
        said("Request exceeds the maximum size", type="request_too_large"),
        None,
        None,
    ),
    "Gemini": (
        400,
        google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed "
            "(1048575).",
        ),
        1048575,
        1196265,
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 262144 tokens. However, you "
            "requested 0 output tokens and your prompt contains at least 262145 input tokens",
            "code": 400,
        },
        262144,
        262145,
    ),
    "vLLM, older": (
        400,
        {
            "message": (
                "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
            )
        },
        4096,
        5000,
    ),
    "SGLang": (
        400,
        {
            "message": (
                "The input (5000 tokens) is longer than the model's context length (4096 tokens)."
            )
        },
        4096,
        5000,
    ),
    "llama.cpp": (
        400,
        said(
            "request (124071 tokens) exceeds the available context size (123904 tokens), try "
            "increasing it",
            type="exceed_context_size_error",
        ),
        123904,
        124071,
    ),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, "
            "the model is loaded with context length of only 4096 tokens"
        },
        4096,
        5000,
    ),
    "Ollama": (400, {"error": "the input length exceeds the context length"}, None, None),
    "TGI": (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
            "Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
            "error_type": "validation",
        },
        4096,
        5000,
    ),
    "Mistral": (
        400,
        {
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length"
        },
        32768,
        40000,
    ),
    "Bedrock": (400, {"message": "Input is too long for requested model."}, None, None),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": (
                "This model's maximum prompt length is 131072 but the request contains "
                "537812 tokens."
            ),
        },
        131072,
        537812,
    ),
    "Cohere": (
        400,
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - "
            "received 5000. Try using a shorter prompt"
        },
        4081,
        5000,
    ),
    "Moonshot": (
        400,
        said(
            "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)"
        ),
        131072,
        140000,
    ),
    "Cerebras": (
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is "
            "9000 while limit is 8192"
        },
        8192,
        9000,
    ),
    "GitHub": (
        413,
        said("Request body too large for gpt-4o model. Max size: 8000 tokens."),
        8000,
        None,
    ),
    "Copilot": (400, said("prompt token count of 70000 exceeds the limit of 64000"), 64000, 70000),
    "Alibaba": (400, said("Range of input length should be [1, 129024]"), 129024, None),
    "Zhipu": (400, said("Prompt exceeds max length", code="1261"), None, None),
    "MiniMax": (400, said("invalid params, context window exceeds limit (2013)"), 2013, None),
    "Fireworks": (
        400,
        said("The prompt is too long: 140000, model maximum context length: 131071"),
        131071,
        140000,
    ),
    "litellm": (
        400,
        said(
            "litellm.ContextWindowExceededError: Context Window exceeded for given call.",
            code="400",
        ),
        None,
        None,
    ),
    "OpenRouter": (
        400,
        said(
            "Provider returned error",
            code=400,
            metadata={
                "raw": json.dumps(said("prompt is too long: 1,200,000 tokens > 1,000,000 maximum"))
            },
        ),
        1000000,
        1200000,
    ),
    "in a stream": (
        200,
        said(
            "This model's maximum context length is 8192 tokens, your messages have 9000", code=400
        ),
        8192,
        9000,
    ),
    "nginx": (
        413,
        "<html><head><title>413 Request Entity Too Large</title></head></html>",
        None,
        None,
    ),
}


@pytest.mark.parametrize(("status", "body", "limit", "asked"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_overflows_and_their_figures(
    status: int, body: Any, limit: int | None, asked: int | None
) -> None:
    error = error_from_http(status, {}, body, provider="p")
    assert (error.kind, error.limit, error.asked) == ("context_length", limit, asked)


NO_OVERFLOWS = {
    "OpenAI": (
        "max_tokens is too large: 100000. This model supports at most 16384 completion "
        "tokens, but you gave more"
    ),
    "Anthropic": (
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for "
        "claude-opus-4"
    ),
    "an image": (
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5500000 bytes > "
        "5242880 bytes"
    ),
    "tools": (
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got "
        "one with length 200"
    ),
    "a parameter": "Unrecognized request argument supplied: context_length",
}


@pytest.mark.parametrize("text", NO_OVERFLOWS.values(), ids=NO_OVERFLOWS)
def test_what_a_shorter_conversation_would_not_mend(text: str) -> None:
    assert error_from_http(400, {}, said(text), provider="p").kind == "bad_request"


OTHERS: dict[str, tuple[int | None, Any, str, float | None]] = {
    "Azure's filter": (
        400,
        said(
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy.",
            code="content_filter",
            innererror={
                "code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {"hate": {"filtered": True}},
            },
        ),
        "refusal",
        None,
    ),
    "Azure's inner code": (
        400,
        said("Bad", code="BadRequest", innererror={"code": "ResponsibleAIPolicyViolation"}),
        "refusal",
        None,
    ),
    "Gemini's safety": (400, google(400, "PROHIBITED_CONTENT", "Blocked"), "refusal", None),
    "Anthropic's filter": (
        400,
        said("Output blocked by content filtering policy"),
        "refusal",
        None,
    ),
    "OpenAI's reasoning": (
        400,
        said(
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy",
            code="invalid_prompt",
        ),
        "refusal",
        None,
    ),
    "OpenRouter's moderation": (
        403,
        said('Your input was flagged for "violence"', code=403, metadata={"reasons": ["violence"]}),
        "refusal",
        None,
    ),
    "DeepSeek's filter": (400, said("Content Exists Risk"), "refusal", None),
    "Alibaba's filter": (
        400,
        {"code": "DataInspectionFailed", "message": "Input data may be bad"},
        "refusal",
        None,
    ),
    "Gemini, a minute": (
        429,
        google(429, "RESOURCE_EXHAUSTED", QUOTA, RETRY_INFO),
        "rate_limit",
        3.2,
    ),
    "Gemini, in words": (
        429,
        google(429, "RESOURCE_EXHAUSTED", f"{QUOTA} Please retry in 3.2s."),
        "rate_limit",
        3.2,
    ),
    "Gemini, not in the plan": (
        429,
        google(429, "RESOURCE_EXHAUSTED", f"{QUOTA} limit: 0"),
        "quota_exhausted",
        None,
    ),
    "Gemini, the key": (
        400,
        google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}),
        "authentication",
        None,
    ),
    "Gemini, the key, without a reason": (
        400,
        google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        "authentication",
        None,
    ),
    "xAI, the key": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***ng.",
        },
        "authentication",
        None,
    ),
    "DeepSeek, the model": (
        400,
        said("Model Not Exist", type="invalid_request_error"),
        "not_found",
        None,
    ),
    "Mistral, the model": (
        400,
        {
            "object": "error",
            "message": "Invalid model: mistral-lage",
            "type": "invalid_model",
            "code": "1500",
        },
        "not_found",
        None,
    ),
    "OpenRouter, the model": (
        400,
        said("openai/gpt-55 is not a valid model ID", code=400),
        "not_found",
        None,
    ),
    "Zhipu, the model": (
        400,
        said("Unknown Model, please check the model code.", code="1211"),
        "not_found",
        None,
    ),
    "MiniMax, the model": (
        400,
        said("invalid params, unknown model 'abab' (2013)"),
        "not_found",
        None,
    ),
    "Bedrock, the model": (
        400,
        {"message": "The provided model identifier is invalid."},
        "not_found",
        None,
    ),
    "Azure, the deployment": (
        404,
        said("The API deployment for this resource does not exist.", code="DeploymentNotFound"),
        "not_found",
        None,
    ),
    "Moonshot, the model": (
        404,
        said("Not found the model kimi-k9 or Permission denied"),
        "not_found",
        None,
    ),
    "LM Studio, the model": (
        404,
        {"error": "No models loaded. Please load a model"},
        "not_found",
        None,
    ),
    "an option that is not the model's": (
        400,
        said("invalid model parameter: temperature"),
        "bad_request",
        None,
    ),
    "OpenAI, no money": (429, said(QUOTA, code="insufficient_quota"), "quota_exhausted", None),
    "no money, by a proxy": (429, QUOTA, "quota_exhausted", None),
    "OpenAI, a minute": (
        429,
        said(
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, "
            "Requested 1500. Please try again in 1m0.5s.",
            code="rate_limit_exceeded",
        ),
        "rate_limit",
        60.5,
    ),
    "Azure, a minute": (
        429,
        said("Rate limit is exceeded. Try again in 20 seconds.", code="429"),
        "rate_limit",
        20.0,
    ),
    "Groq": (
        429,
        said("Rate limit reached. Please try again in 120ms. Need more?"),
        "rate_limit",
        0.12,
    ),
    "Anthropic, no money": (
        400,
        said(
            "You have reached your specified API usage limits. You will regain access on "
            "2026-08-01 at 00:00 UTC."
        ),
        "quota_exhausted",
        None,
    ),
    "OpenRouter, no money": (
        402,
        said("This request requires more credits", code=402),
        "quota_exhausted",
        None,
    ),
    "Bedrock": (
        429,
        {"message": "Too many tokens, please wait before trying again."},
        "rate_limit",
        None,
    ),
    "Bedrock, 400": (
        400,
        {"__type": "x#ThrottlingException", "message": "Slow"},
        "rate_limit",
        None,
    ),
    "Moonshot": (
        429,
        said("Busy, please try later", type="engine_overloaded_error"),
        "overloaded",
        None,
    ),
    "OpenRouter, in a stream": (200, said("Rate limited", code=429), "rate_limit", None),
    "OpenRouter, quoted": (
        429,
        said(
            "Provider returned error",
            code=429,
            metadata={"raw": "busy", "headers": {"Retry-After": "7"}},
        ),
        "rate_limit",
        7.0,
    ),
    "Google, in a stream": (None, {"status": "UNAVAILABLE", "message": "Busy"}, "overloaded", None),
    "Cloudflare": (
        524,
        "<!DOCTYPE html><html><title>a timeout occurred</title></html>",
        "timeout",
        None,
    ),
}


@pytest.mark.parametrize(("status", "body", "kind", "wait"), OTHERS.values(), ids=OTHERS)
def test_kinds_and_waits(status: int | None, body: Any, kind: str, wait: float | None) -> None:
    error = error_from_http(status, {}, body, provider="p")
    assert (error.kind, error.retry_after) == (kind, wait)


def test_aws_names_the_error_in_a_header() -> None:
    headers = {"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/coral/"}
    assert error_from_http(400, headers, {"message": "Slow"}, provider="p").kind == "rate_limit"


MESSAGES = {
    "a page": (
        "<html>\n<head><title>502 Bad&nbsp;Gateway</title></head><body>x</body>",
        "502 Bad Gateway",
    ),
    "a page without a headline": ("<html><body><p>No <b>luck</b></p></body></html>", "No luck"),
    "an empty page": ("<html></html>", "an empty page"),
    "AWS": (
        "<?xml version='1.0'?><Error><Code>X</Code><Message>Denied</Message></Error>",
        "Denied",
    ),
    "a list of objects": ([{"error": {"message": "Gone"}}], "Gone"),
    "a list of texts": ({"error": ["first", "second", "first"]}, "first; second"),
    "Ollama": ({"error": "model 'x' not found"}, "model 'x' not found"),
    "fastify": ({"statusCode": 400, "error": "Bad Request", "message": "no model"}, "no model"),
    "FastAPI": (
        {"detail": [{"loc": ["body", "model"], "msg": "Field required"}]},
        "body.model: Field required",
    ),
    "Mistral": (
        {"message": {"detail": [{"loc": ["body", "n"], "msg": "Too low"}, {"msg": "Bad"}]}},
        "body.n: Too low; Bad",
    ),
    "Bedrock": ({"Message": "Denied"}, "Denied"),
    "litellm": (
        said('litellm.BadRequestError: OpenAIException - {"error": {"message": "No"}}'),
        None,
    ),
    "OpenRouter": (
        said("Provider returned error", metadata={"raw": '{"detail": "No"}'}),
        "Provider returned error: No",
    ),
    "JSON that is no error": (
        said('Wrong arguments {"a": 1} here'),
        'Wrong arguments {"a": 1} here',
    ),
    "Cloudflare": (
        {"success": False, "errors": [{"code": 10000, "message": "Authentication"}]},
        "Authentication",
    ),
    "a problem": ({"status": 404, "title": "Not Found", "detail": "Function 'x'"}, "Function 'x'"),
}


@pytest.mark.parametrize(("body", "text"), MESSAGES.values(), ids=MESSAGES)
def test_messages(body: Any, text: str | None) -> None:
    assert read_body(body).message == (text or "litellm.BadRequestError: OpenAIException - No")


def test_an_unknown_body_is_shown() -> None:
    error = error_from_http(418, {}, {"weird": 1}, provider="p")
    assert (error.message, error.kind) == ('HTTP status 418: {"weird": 1}', "bad_request")


NOW = 1_764_000_000.0


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "300"}, 300.0),
        ({"retry-after": "2m30s"}, 150.0),
        ({"retry-after": str(int(NOW + 40))}, 40.0),
        ({"retry-after": "2025-11-24T16:01:00Z"}, 60.0),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
    ],
)
def test_waits_in_headers(headers: dict[str, str], wait: float | None) -> None:
    assert asked_wait(headers, [], "", now=NOW) == wait


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["<html>", '{"error": "x"}']),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "detail",
                    "details",
                    "code",
                    "type",
                    "loc",
                    "metadata",
                    "raw",
                    "headers",
                    "retryDelay",
                ]
            )
            | st.text(),
            inner,
            max_size=5,
        )
    ),
)


@given(
    status=st.none() | st.integers(100, 999),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-request-id"]),
        st.text(),
    ),
    body=JSON | JSON.map(lambda value: f"it failed: {json.dumps(value)}"),
)
@settings(max_examples=200, deadline=None)
def test_no_body_makes_reading_fail(status: int | None, headers: dict[str, str], body: Any) -> None:
    error = error_from_http(status, headers, body, provider="p")
    assert error.message
    assert error.retry_after is None or error.retry_after >= 0
    error.message.encode()


@pytest.mark.parametrize(
    "body",
    [
        "<title>" * 20_000,
        "<html>" + "<" * 100_000,
        '{"error": ' * 20_000,
        "[" * 100_000,
        "retry in " * 20_000,
        "1 + " * 50_000,
        "maximum " * 20_000,
        "9" * 100_000,
        '{"a' * 30_000,
    ],
)
def test_hostile_bodies_are_read_in_linear_time(body: str) -> None:
    began = time.process_time()
    error_from_http(400, {}, said(body), provider="p")
    error_from_http(400, {}, body, provider="p")
    assert time.process_time() - began < 1.5


def tree(keys: Sequence[str], depth: int) -> Any:
    return {key: tree(keys, depth - 1) for key in keys} if depth else {"x": 1}


TEXT_KEYS = (
    "message",
    "Message",
    "detail",
    "error_description",
    "errorMessage",
    "msg",
    "error",
    "errors",
    "title",
)


@pytest.mark.parametrize(
    "body",
    [
        tree(TEXT_KEYS, 5),
        {"error": [{"error": [{"error": [{"error": ""}] * 50}] * 50}] * 50},
        {"error": ['{"message": {"message": {}}} ' * 100] * 5_000},
        {"error": {"headers": {f"ratelimit-reset-{number}": "1" for number in range(300_000)}}},
        {"error": {"retryDelay": "1 " * 4_000_000}},
        "<html>" + "<h1>" * 4_000_000,
    ],
    ids=["tree", "lists", "texts", "headers", "wait", "page"],
)
def test_a_body_of_many_megabytes_takes_little_time(body: Any) -> None:
    began = time.process_time()
    error_from_http(400, {}, body, provider="p")
    assert time.process_time() - began < 1


def test_a_message_is_read_beside_much_else() -> None:
    body = {
        "other": [[0] * 50] * 100_000,
        "error": {"details": [{}] * 100_000, "message": "no such model"},
    }
    assert error_from_http(404, {}, body, provider="p").message == "no such model"
