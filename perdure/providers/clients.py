"""The SDK clients, one for each endpoint and key in an event loop, so that HTTP connections are
reused (§2.4).
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import cache, lru_cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from .._version import __version__
from ..agents import Agent
from ..declared_tools import Connection
from ..errors import ModelError
from ..json_types import JsonObject
from ..prompty.worker_limits import AZURE_KEY
from ..redaction import know_client, redact
from ..text import UTF_8
from .azure import ENDPOINT_VARIABLE, AzureTarget, azure_target, entra_token
from .sdks import SdkNames

NO_KEY = "no-key"
"""Sent to a server that needs no key: the SDKs refuse to start without one."""

MAX_ERROR_BYTES = 16 * 1024 * 1024
"""The limit of an error's body, unpacked. It is generous because the part that decides a retry may
come last."""
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})

_KEYS = frozenset({"api_key", "auth_token"})
_AMBIENT = ("organization", "project", "admin_api_key", "webhook_secret", "webhook_key")

_ClientKey = tuple[object, ...]
Secret = str | Callable[[], Awaitable[str]]


_lock = Lock()
_imported: set[str] = set()
_known_connections: JsonObject = {}
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_ClientKey, Any]] = WeakKeyDictionary()


def client_for(sdk: SdkNames, connection: Connection | None, *, provider: str) -> Any:
    """Return the client for a connection; the same one for the same endpoint and key in the running
    event loop.

    Raises ModelError of kind `configuration` if the connection lacks something.
    """
    if connection is not None and connection.kind == "reference":
        return _registered_client(connection, sdk, provider)
    if connection is not None and connection.kind == "oauth":
        raise _misconfiguration(
            f"A model's connection can't be of kind {connection.kind!r}; use kind: key", provider
        )
    target = _target(sdk, connection, provider)
    argument, secret = _key(sdk, connection, target.endpoint, provider)
    is_own = sdk.is_own(target.endpoint)
    told = secret if isinstance(secret, str) else "Entra ID"
    key = (
        sdk.module,
        str(is_own),
        *target,
        os.environ.get(sdk.endpoint_variable),
        argument,
        told,
    )
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    if key not in clients:
        clients[key] = _new_client(sdk, target, {argument: secret}, is_own=is_own)
    return clients[key]


def key_source(sdk: SdkNames, agent: Agent) -> str:
    """Return the setting that has the key of the agent's connection, without the key."""
    connection = agent.model.connection if agent.model else None
    if connection is not None and connection.kind == "reference":
        return f"the client registered as {connection.name!r}"
    if connection is not None and connection.api_key:
        written = redact(connection.api_key, agent=agent)
        return "`apiKey` in the agent's connection" + (
            f", {written}" if written.startswith("${") else ""
        )
    if ambient := sdk.ambient_key(connection.endpoint if connection else None):
        return f"the worker's environment variable {ambient.variable}"
    return "Entra ID, from the worker's environment"


def is_without_key(client: Any) -> bool:
    """Return whether a client made by perdure sends a placeholder instead of a key."""
    return getattr(client, "api_key", None) == NO_KEY


async def load_sdk(sdk: SdkNames) -> None:
    """Import the SDK in a thread: that takes seconds on a busy machine, and heartbeats must go on.

    Raises ImportError when the SDK is not installed.
    """
    # sys.modules is not enough: it also lists modules whose import has only begun.
    if sdk.module not in _imported:
        await asyncio.to_thread(import_module, sdk.module)
        _imported.add(sdk.module)


async def close_clients() -> None:
    """Close every client of the running event loop; the next call opens a new one."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.close()


def register_connection(name: str, client: Any) -> None:
    """Register an asynchronous SDK client (AsyncOpenAI, AsyncAnthropic) under a name, replacing an
    earlier one.
    """
    know_client(name, client)
    with _lock:
        _known_connections[name] = client


def get_connection(name: str) -> Any:
    """Return the client registered under the name, or None."""
    with _lock:
        return _known_connections.get(name)


def clear_connections() -> None:
    """Forget every registered client, without closing any."""
    with _lock:
        for name in _known_connections:
            know_client(name, None)
        _known_connections.clear()


def _registered_client(connection: Connection, sdk: SdkNames, provider: str) -> Any:
    client = get_connection(connection.name or "")
    if client is None:
        raise _misconfiguration(
            f"No connection is registered as {connection.name!r}: call "
            f"perdure.providers.register_connection({connection.name!r}, client) in the worker's "
            "process",
            provider,
        )
    origins = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    if sdk.module not in origins or not iscoroutinefunction(client.post):
        expected = f"{sdk.module}.{sdk.client}"
        raise _misconfiguration(
            f"Connection {connection.name!r} is a {type(client).__name__}; {provider!r} needs an "
            f"{expected}",
            provider,
        )
    return client


def _target(sdk: SdkNames, connection: Connection | None, provider: str) -> AzureTarget:
    endpoint = connection.endpoint if connection else None
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise _misconfiguration(
            f"The endpoint {endpoint!r} has to start with http:// or https://", provider
        )
    if sdk.is_azure:
        return azure_target(connection, provider)
    if not endpoint and not sdk.endpoint_variable:
        text = (
            f"No endpoint for {provider!r}: write `endpoint`, the URL of its API, in the agent's "
            "connection"
        )
        raise _misconfiguration(text, provider)
    return AzureTarget(endpoint or None)


def _key(
    sdk: SdkNames, connection: Connection | None, endpoint: str | None, provider: str
) -> tuple[str, Secret]:
    """Return the client's argument for the key, and the key; a key from the environment only for
    its own servers.
    """
    if connection is not None and connection.kind == "anonymous":
        return "api_key", NO_KEY
    if connection is not None and connection.api_key:
        return "api_key", connection.api_key
    if ambient := sdk.ambient_key(endpoint):
        return ambient.argument, ambient.value
    if sdk.is_azure and connection is not None and connection.kind == "foundry":
        if AZURE_KEY.fits(endpoint):
            return "azure_ad_token_provider", partial(asyncio.to_thread, entra_token, provider)
        raise _misconfiguration(
            f"A token of Entra ID only goes to Azure's hosts, not to {endpoint!r}. If that host is "
            f"yours, name it in {ENDPOINT_VARIABLE} of the worker's environment",
            provider,
        )
    is_azures = sdk.is_azure and AZURE_KEY.fits(endpoint)
    if not is_azures and (endpoint or os.environ.get(sdk.endpoint_variable)):
        return "api_key", NO_KEY
    variable = (AZURE_KEY if is_azures else sdk.keys[0]).variable
    entra = ", or `kind: foundry` for a token of Entra ID" if is_azures else ""
    raise _misconfiguration(
        f"No API key for {provider!r}: set {variable} in the worker's environment, or write "
        f"`apiKey: ${{env:{variable}}}` in the agent's connection{entra}",
        provider,
    )


def _new_client(sdk: SdkNames, target: AzureTarget, key: dict[str, Secret], *, is_own: bool) -> Any:
    headers = {"User-Agent": f"perdure/{__version__}"}
    name = "AsyncAzureOpenAI" if target.version else sdk.client
    place: JsonObject = {"azure_endpoint": target.endpoint, "api_version": target.version}
    if target.deployment:
        place["azure_deployment"] = target.deployment
    if not target.version:
        place = {"base_url": target.endpoint}
        # A plain client sends a token as it sends keys, and asks for a current one.
        key = {
            argument if argument == "auth_token" else "api_key": secret
            for argument, secret in key.items()
        }
    client = getattr(import_module(sdk.module), name)(
        **key,
        **place,
        max_retries=0,
        default_headers=headers,
        # No cookies: all of the worker's runs would share them, for ever.
        http_client=_http_client_class(sdk.module)(
            verify=tls_context(), cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        ),
        **dict(sdk.options),
    )
    if not is_own:
        # Other settings that the SDK reads from the environment are not for this server.
        client._custom_headers = headers
        for name in {*_AMBIENT, *_KEYS} - key.keys():
            if getattr(client, name, None):
                setattr(client, name, None)
    return client


@cache
def _http_client_class(module: str) -> Callable[..., Any]:
    """SDK's own HTTP client class, changed to follow no redirects, and to limit error bodies.

    On a redirect, httpx removes no key but `Authorization`. The SDKs read an error's body
    themselves, without a limit on its unpacked size; this class reads at most `MAX_ERROR_BYTES`.
    """
    default: Any = import_module(module).DefaultAsyncHttpxClient

    class HttpClient(default):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            options["follow_redirects"] = False
            response = await super().send(request, **options)
            readable = (
                response if response.is_success or response.is_closed else await _readable(response)
            )
            readable.encoding = (
                UTF_8  # The encoding of JSON and events, whatever charset the server declares.
            )
            return readable

        def __del__(self) -> None:
            """Close connections that were left open, as the SDKs' own clients do."""
            with suppress(Exception):
                if not self.is_closed:
                    asyncio.get_running_loop().create_task(self.aclose())

    return HttpClient


@lru_cache
def tls_context(*, trust_env: bool = True) -> ssl.SSLContext:
    """Return the TLS context that all of a process's connections share: creating one takes 30
    ms.
    """
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


async def _read_into(content: bytearray, response: Any) -> None:
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            content += piece
            if len(content) > MAX_ERROR_BYTES:
                return


async def _readable(response: Any) -> Any:
    """Return the response with its content as far as it is readable and within the limit: its
    status is enough.
    """
    import httpx2

    content = bytearray()
    with suppress(httpx2.HTTPError):
        await _read_into(content, response)
    await response.aclose()
    # The content is unpacked already, and may be incomplete.
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in _OF_THE_BODY
    ]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=bytes(content[:MAX_ERROR_BYTES]),
        request=response.request,
    )


def _misconfiguration(message: str, provider: str) -> ModelError:
    return ModelError(message, kind="configuration", provider=provider)
