"""`perdure codec-server` and `encryption-key`: show encrypted or compressed payloads, and make a
key.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

from ..client.embedded.server import LocalServer
from ..errors import ConfigurationError
from ..payloads.codec_server import TOKEN_VARIABLE
from ..payloads.converter import converter_from_environment
from ..payloads.encryption import encryption_from_environment, is_configured
from ..payloads.encryption.keys import new_key
from .command import execute
from .console import answer, say
from .given import Given
from .problems import UsageProblem

LOOPBACK = ("127.0.0.1", "localhost")
DEFAULT_UIS = ("http://localhost:8233", "http://127.0.0.1:8233")


def codec_server(given: Given) -> None:
    """Run the codec server."""
    token = _token(given.host)
    if encryption_from_environment() is None:
        say(
            "No keys (PERDURE_ENCRYPTION_KEY): payloads are decompressed and fetched; "
            "encrypted ones stay encrypted."
        )
    origins = [_origin(url) for url in given.ui_origin or DEFAULT_UIS]
    execute(_serve(given.host, given.port, origins, token), is_service=True)


def _token(host: str) -> str:
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and host not in LOOPBACK:
        raise UsageProblem(
            f"--host {host}: everybody who reaches it could read every payload. Expected "
            f"{TOKEN_VARIABLE} with it, or --host {LOOPBACK[0]}"
        )
    return token


def _origin(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageProblem(
            f"--ui-origin {url!r}: expected the UI's address, such as https://temporal.example.com"
        )
    return f"{parts.scheme}://{parts.netloc}"


async def _serve(host: str, port: int, origins: Sequence[str], token: str) -> None:
    async with _serve_codec(host, port, origins, token) as url:
        say(
            f"Codec server: {url}   (UI: settings, codec server; CLI: --codec-endpoint {url})",
            "strong",
        )
        say(f"for the UI at: {', '.join(origins)}")
        await asyncio.Event().wait()


@asynccontextmanager
async def _serve_codec(
    host: str, port: int, origins: Sequence[str], token: str
) -> AsyncIterator[str]:
    try:
        from ..payloads.codec_server.app import codec_app, serve
    except ImportError as error:
        raise ConfigurationError(
            f"the codec server needs packages that are not installed ({error}): pip install "
            "'perdure[serve]'"
        ) from error
    hosts = LOOPBACK if host in LOOPBACK and not token else ("*",)
    app = codec_app(converter_from_environment(), token=token, ui_origins=origins, hosts=hosts)
    async with serve(app, host, port) as url:
        yield url


@asynccontextmanager
async def codec_for_ui(server: LocalServer) -> AsyncIterator[None]:
    """Make the embedded server's UI show encrypted payloads while the block runs, if the
    environment sets encryption.

    Reports if that is not possible. Raises `ConfigurationError` for keys that can't be used.
    """
    if not is_configured():
        yield
        return
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(_serve_codec_for(server))
            say(
                f"codec server:    {server.state.codec_endpoint}   (for the UI, which shows "
                "payloads decrypted)"
            )
        except ConfigurationError as error:
            say(f"The Temporal UI shows payloads encrypted: {error}")
        yield


@asynccontextmanager
async def _serve_codec_for(server: LocalServer) -> AsyncIterator[None]:
    endpoint = server.state.codec_endpoint
    if not endpoint:
        raise ConfigurationError(
            "its server was started without encryption. End the perdure processes that use it, "
            "then start it again"
        )
    origins = [server.ui_url, server.ui_url.replace(*LOOPBACK)]
    async with _serve_codec(LOOPBACK[0], urlsplit(endpoint).port or 0, origins, ""):
        yield


def encryption_key(given: Given) -> None:
    """Print a new key."""
    answer(new_key(given.id or datetime.now(UTC).date().isoformat()))
    say("Keep it secret, and do not lose it: without it, the encrypted data is lost.", "faint")
