"""The SDK clients, one for each endpoint and key in an event loop, so that HTTP connections are reused (§2.4)."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from .._version import __version__
from ..agent import Connection
from ..errors import ModelError
from ..redaction import know_client

NO_KEY = "no-key"
"""Sent to a server that needs no key: the SDKs refuse to start without one."""

MAX_ERROR_BYTES = 16 * 1024 * 1024
"""Of an error's body, unpacked. So much is read because what decides about a retry may be at its end."""
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})

_ClientKey = tuple[str | None, ...]
_imported: set[str] = set()
_lock = Lock()
_known_connections: dict[str, Any] = {}
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_ClientKey, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SdkNames:
    """What is known of an SDK before it is imported."""

    module: str
    client: str
    """The class of its asynchronous client."""
    error: str
    """The class that all its errors derive from."""
    key_variables: tuple[str, ...]
    """Environment variables that the SDK itself reads its credentials from."""
    endpoint_variable: str
    own_key_variable: str | None = None
    """Another variable for the key, which the SDK does not read; it takes precedence."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further arguments of the client."""

    async def load(self) -> None:
        """Imports the SDK in a thread: that takes seconds on a busy machine, and heartbeats must go on.

        Raises ImportError when the SDK is not installed.
        """
        # sys.modules would not do: it also holds modules whose import has only begun.
        if self.module not in _imported:
            await asyncio.to_thread(import_module, self.module)
            _imported.add(self.module)


_OPENAI = SdkNames(
    module="openai",
    client="AsyncOpenAI",
    error="OpenAIError",
    key_variables=("OPENAI_API_KEY",),
    endpoint_variable="OPENAI_BASE_URL",
)
_AZURE = replace(_OPENAI, own_key_variable="AZURE_OPENAI_API_KEY")


def openai_sdk(key: str) -> SdkNames:
    """The SDK for a provider key; Azure has a variable of its own for the key."""
    return _AZURE if key in ("azure", "foundry") else _OPENAI


def client_for(sdk: SdkNames, connection: Connection | None, *, provider: str) -> Any:
    """The client for a connection; the same one for the same endpoint and key in the running event loop.

    Raises ModelError of kind `configuration` when the connection lacks something.
    """
    if connection is not None and connection.kind == "reference":
        return _registered(connection, sdk, provider)
    if connection is not None and connection.kind == "oauth":
        raise _misconfigured(f"A model's connection can't be of kind {connection.kind!r}; use kind: key", provider)
    endpoint = _endpoint(connection, provider)
    api_key = _api_key(sdk, connection, endpoint, provider)
    ambient = tuple(os.environ.get(variable) for variable in (*sdk.key_variables, sdk.endpoint_variable))
    key = (sdk.module, endpoint, api_key, *ambient)
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    if key not in clients:
        clients[key] = _new_client(sdk, endpoint, api_key)
    return clients[key]


async def close_clients() -> None:
    """Closes every client of the running event loop; the next call opens a new one."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.close()


def register_connection(name: str, client: Any) -> None:
    """Registers an asynchronous SDK client (AsyncOpenAI, AsyncAnthropic) under a name, in place of an earlier one."""
    know_client(name, client)
    with _lock:
        _known_connections[name] = client


def get_connection(name: str) -> Any:
    """The client registered under the name, or None."""
    with _lock:
        return _known_connections.get(name)


def clear_connections() -> None:
    """Forgets every registered client, without closing any."""
    with _lock:
        for name in _known_connections:
            know_client(name, None)
        _known_connections.clear()


def _registered(connection: Connection, sdk: SdkNames, provider: str) -> Any:
    client = get_connection(connection.name or "")
    if client is None:
        raise _misconfigured(
            f"No connection is registered as {connection.name!r}: "
            f"call perdure.providers.register_connection({connection.name!r}, client) in the worker's process",
            provider,
        )
    origins = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    if sdk.module not in origins or not iscoroutinefunction(client.post):
        expected = f"{sdk.module}.{sdk.client}"
        raise _misconfigured(
            f"Connection {connection.name!r} is a {type(client).__name__}; {provider!r} needs an {expected}", provider
        )
    return client


def _endpoint(connection: Connection | None, provider: str) -> str | None:
    endpoint = connection.endpoint if connection else None
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise _misconfigured(f"The endpoint {endpoint!r} has to start with http:// or https://", provider)
    return endpoint or None


def _api_key(sdk: SdkNames, connection: Connection | None, endpoint: str | None, provider: str) -> str | None:
    """The key for the client; None lets the SDK read its environment variables."""
    if connection is not None and connection.kind == "anonymous":
        return NO_KEY
    if connection is not None and connection.api_key:
        return connection.api_key
    if sdk.own_key_variable and os.environ.get(sdk.own_key_variable):
        return os.environ[sdk.own_key_variable]
    if any(os.environ.get(variable) for variable in sdk.key_variables):
        return None
    if endpoint or os.environ.get(sdk.endpoint_variable):
        return NO_KEY
    variable = sdk.own_key_variable or sdk.key_variables[0]
    raise _misconfigured(
        f"No API key for {provider!r}: set {variable} in the worker's environment, "
        f"or write `apiKey: ${{env:{variable}}}` in the agent's connection",
        provider,
    )


def _new_client(sdk: SdkNames, endpoint: str | None, api_key: str | None) -> Any:
    client_class = getattr(import_module(sdk.module), sdk.client)
    return client_class(
        api_key=api_key,
        base_url=endpoint,
        max_retries=0,
        default_headers={"User-Agent": f"perdure/{__version__}"},
        http_client=_http_client_class(sdk.module)(verify=tls_context()),
        **dict(sdk.options),
    )


@cache
def _http_client_class(module: str) -> Callable[..., Any]:
    """The SDK's own kind of HTTP client, except that it reads of an error's body no more than `MAX_ERROR_BYTES`.

    The SDKs read such bodies themselves, whatever they unpack to.
    """
    default: Any = import_module(module).DefaultAsyncHttpxClient

    class HttpClient(default):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **options)
            return response if response.is_success or response.is_closed else await _readable(response)

        def __del__(self) -> None:
            """Closes connections that nobody has closed, as the SDKs' own clients do."""
            with suppress(Exception):
                if not self.is_closed:
                    asyncio.get_running_loop().create_task(self.aclose())

    return HttpClient


@cache
def tls_context() -> ssl.SSLContext:
    """What all of a process's connections are checked with: each client of its own would take 30 ms to make one."""
    import httpx2

    return httpx2.create_ssl_context()


async def _read_into(content: bytearray, response: Any) -> None:
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            content += piece
            if len(content) > MAX_ERROR_BYTES:
                return


async def _readable(response: Any) -> Any:
    """The response, read as far as it can be and may be: its status says enough."""
    import httpx2

    content = bytearray()
    with suppress(httpx2.HTTPError):
        await _read_into(content, response)
    await response.aclose()
    # The content is unpacked already, and perhaps not whole.
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _OF_THE_BODY]
    return httpx2.Response(
        response.status_code, headers=headers, content=bytes(content[:MAX_ERROR_BYTES]), request=response.request
    )


def _misconfigured(message: str, provider: str) -> ModelError:
    return ModelError(message, kind="configuration", provider=provider)
