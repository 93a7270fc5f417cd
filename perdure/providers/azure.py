"""Connections to Azure's resources, which deploy OpenAI's models under names and versions and
accept Entra ID.

https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from ..declared_tools import Connection
from ..errors import ModelError

ENDPOINT_VARIABLE = "AZURE_OPENAI_ENDPOINT"
VERSION_VARIABLE = "OPENAI_API_VERSION"
SCOPE = "https://cognitiveservices.azure.com/.default"
"""The scope of a token of Entra ID."""
_RESOURCE = re.compile(
    r"(?P<root>https?://[^/?#]+?)/*(?:/openai(?:/deployments/(?P<deployment>[^/?#]+)(?:/chat/completions)?)?)?/*"
    r"(?:\?(?P<query>[^#]*))?"
)
"""A resource: its root, or a deployment's address in the form of Azure's pages."""


class AzureTarget(NamedTuple):
    """The target of a connection, which decides the SDK's client."""

    endpoint: str | None
    """The base URL, None for the provider's own; for `AsyncAzureOpenAI`, the root of the
    resource."""
    version: str | None = None
    """The API version, for `AsyncAzureOpenAI`; None for `AsyncOpenAI`."""
    deployment: str | None = None
    """The deployment in the endpoint; None if the model names it."""


def azure_target(connection: Connection | None, provider: str) -> AzureTarget:
    """Return the target of the connection; without an endpoint, the one that the worker's
    environment names.

    A resource is called in the version that the connection, its endpoint or the environment names;
    without any, by its API v1, which has no versions. An endpoint with another path is a base URL,
    unless the connection names a version. Raises ModelError of kind `configuration` if there is no
    endpoint.
    """
    given = connection.endpoint if connection else None
    endpoint = given or os.environ.get(ENDPOINT_VARIABLE) or os.environ.get("OPENAI_BASE_URL")
    if not endpoint:
        raise ModelError(
            f"No endpoint for {provider!r}: write `endpoint: https://RESOURCE.openai.azure.com` in "
            f"the agent's connection, or set {ENDPOINT_VARIABLE} in the worker's environment",
            kind="configuration",
            provider=provider,
        )
    named = connection.api_version if connection else None
    resource = _RESOURCE.fullmatch(endpoint)
    if resource is None:
        is_base = named is None or endpoint.rstrip("/").endswith("/v1")
        return AzureTarget(endpoint) if is_base else AzureTarget(endpoint.rstrip("/"), named)
    root, asked = resource["root"], parse_qs(resource["query"] or "").get("api-version", [None])[0]
    version = named or asked or os.environ.get(VERSION_VARIABLE)
    if not version:
        return AzureTarget(f"{root}/openai/v1")
    return AzureTarget(root, version, resource["deployment"])


def entra_token(provider: str) -> str:
    """Return a token of Entra ID for the identity that `azure-identity`'s `DefaultAzureCredential`
    finds here.

    It is valid now; the library caches it until it expires. Takes a while. Raises ModelError.
    """
    try:
        from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError
    except ImportError:
        text = "Entra ID needs azure-identity: pip install 'perdure[azure]' on the worker"
        raise ModelError(text, kind="configuration", provider=provider) from None
    try:
        token: str = _credential().get_token(SCOPE).token
    except (ServiceRequestError, ServiceResponseError) as error:
        raise ModelError(f"Entra ID: {error}", kind="connection", provider=provider) from None
    except AzureError as error:
        raise ModelError(
            f"Entra ID did not issue a token: {error}", kind="authentication", provider=provider
        ) from None
    return token


@cache
def _credential() -> Any:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()
