"""The properties of the providers' SDKs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from ..agents import Model
from ..prompty.worker_limits import AmbientKey, is_listed, keys_for, server_in


@dataclass(frozen=True)
class SdkNames:
    """The properties of an SDK, known before it is imported."""

    module: str
    client: str
    """The class of its asynchronous client."""
    error: str
    """The class that all its errors derive from."""
    keys: tuple[AmbientKey, ...] = ()
    """The environment variables for the provider's key; the first one that is set wins."""
    endpoint_variable: str = ""
    """The variable from which the SDK reads its server; "" for an API without a server of its
    own."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further arguments of the client."""
    is_azure: bool = False
    """Whether the servers are Azure's, which have a client of their own and accept Entra ID."""

    def is_own(self, endpoint: str | None) -> bool:
        """Return whether the endpoint is the provider's or the owner's, so that the SDK's
        environment settings apply to it.
        """
        return any(key.fits(endpoint) for key in self.keys)

    def is_providers(self, address: str) -> bool:
        """Return whether the address is the provider's own, regardless of the environment."""
        server = server_in(address)
        hosts = [host for key in self.keys for host in key.hosts]
        return server is not None and server.scheme == "https" and is_listed(server, hosts)

    def ambient_key(self, endpoint: str | None) -> AmbientKey | None:
        """Return the key of the environment for that endpoint."""
        return next((key for key in self.keys if key.value and key.fits(endpoint)), None)


_OPENAI = SdkNames("openai", "AsyncOpenAI", "OpenAIError", keys_for("openai"), "OPENAI_BASE_URL")
_AZURE = replace(_OPENAI, keys=keys_for("azure"), is_azure=True)
_ANTHROPIC_OPTIONS = (("open_telemetry", False),)
_SDKS = {
    "openai": _OPENAI,
    "azure": _AZURE,
    "foundry": _AZURE,
    "anthropic": SdkNames(
        "anthropic",
        "AsyncAnthropic",
        "AnthropicError",
        keys_for("anthropic"),
        "ANTHROPIC_BASE_URL",
        _ANTHROPIC_OPTIONS,
    ),
}


def sdk_for(provider: str, imitated: str) -> SdkNames:
    """Return the SDK for a provider key. Other providers with the same format get none of the
    imitated provider's settings.
    """
    return _SDKS.get(provider) or replace(_SDKS[imitated], keys=(), endpoint_variable="")


def key_variables(model: Model) -> tuple[str, ...]:
    """Return the variables of which a worker needs one for the provider's own server; () if it
    needs none.
    """
    sdk, connection = _SDKS.get(model.provider_key), model.connection
    is_elsewhere = connection and (
        connection.endpoint or connection.api_key or connection.kind != "key"
    )
    if is_elsewhere or sdk is None or sdk.is_azure:
        return ()
    return (*(key.variable for key in sdk.keys), sdk.endpoint_variable)


def missing_key(model: Model) -> str:
    """Return the message about a missing key for the provider's own server; "" if this process has
    one, or needs none.
    """
    variables = key_variables(model)
    if not variables or any(map(os.environ.get, variables)):
        return ""
    return f"{variables[0]} is not set here: a worker needs it for {model.provider_key}"
