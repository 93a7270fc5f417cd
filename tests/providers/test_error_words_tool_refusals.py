"""Which answers of providers say that a model takes no tools, and which only that a request is
wrong.
"""

from __future__ import annotations

import pytest

from perdure.providers.errors import error_from_http

REFUSALS = {
    "Ollama": (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    "vLLM": (
        400,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    ),
    "OpenRouter": (
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit: …",
    ),
    "OpenRouter, tool_choice": (
        404,
        "No endpoints found that support the provided 'tool_choice' value.",
    ),
    "OpenAI": (
        400,
        "tools is not supported in this model. For a list of supported models, refer to …",
    ),
    "OpenAI, parameter": (400, "Unsupported parameter: 'tools' is not supported with this model."),
    "Azure": (400, "Functions are not supported for this API version or this model version."),
    "xAI": (
        400,
        "Invalid request content: The model does not support tool use or function calling but "
        "tools or tool_choice have been specified on the request.",
    ),
    "DeepInfra": (
        405,
        "Tool calling is not supported for model: mistralai/Mistral-Small-24B-Instruct-2501",
    ),
    "llama.cpp": (500, "tools param requires --jinja flag"),
    "llama.cpp, older": (500, "Unsupported param: tools"),
    "Bedrock": (400, "This model doesn't support tool use."),
    "DeepSeek": (422, "deepseek-reasoner does not support Function Calling"),
    "Groq": (400, "`tool calling` is not supported with this model"),
    "Gemini": (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    "Novita": (400, "model features function calling not support"),
}

OTHERS = {
    "a schema": (
        400,
        "Invalid schema for function 'echo': In context=(), 'required' is required to be supplied",
    ),
    "a name": (
        400,
        "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    "a conversation": (
        400,
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    ),
    "too many": (400, "Invalid 'tools': array too long. Expected an array with maximum length 128"),
    "a rate limit": (429, "This model does not support tools at this rate"),
    "a key": (401, "This key does not support tools"),
    "images": (400, "This model does not support image input"),
    "a model": (404, "model 'toolace' not found"),
    "a fault": (500, "The server had an error while processing tools"),
}


@pytest.mark.parametrize(("status", "text"), REFUSALS.values(), ids=REFUSALS)
def test_tools_are_refused(status: int, text: str) -> None:
    error = error_from_http(status, {}, {"error": {"message": text}}, provider="openai")
    assert error.kind == "no_tools"


@pytest.mark.parametrize(("status", "text"), OTHERS.values(), ids=OTHERS)
def test_something_else_is_wrong(status: int, text: str) -> None:
    assert (
        error_from_http(status, {}, {"error": {"message": text}}, provider="openai").kind
        != "no_tools"
    )
