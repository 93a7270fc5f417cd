"""Serves the application over HTTP while a block runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette

from ...errors import ConfigurationError

END_SECONDS = 2
"""How long requests that are under way may take when the server ends."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command that this is a part of."""
        yield


@asynccontextmanager
async def serving(app: Starlette, host: str, port: int) -> AsyncIterator[str]:
    """The URL at which the application is served; port 0 is any free one.

    Raises `ConfigurationError` when the port can't be had.
    """
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise ConfigurationError(
            f"The codec server can't listen at {host}:{port} ({error.strerror}). Expected a free port of this machine: "
            "give another --port or --host"
        ) from error
    listening.listen()
    return listening
