"""What both OpenAI APIs know of their SDK before it is imported."""

from __future__ import annotations

from dataclasses import replace

from .clients import SdkNames

_OPENAI = SdkNames(
    module="openai",
    client="AsyncOpenAI",
    error="OpenAIError",
    key_variables=("OPENAI_API_KEY",),
    endpoint_variable="OPENAI_BASE_URL",
)
_AZURE = replace(_OPENAI, own_key_variable="AZURE_OPENAI_API_KEY")


def openai_sdk(key: str) -> SdkNames:
    """The SDK for a provider key; Azure's keys have a variable of their own."""
    return _AZURE if key in ("azure", "foundry") else _OPENAI
