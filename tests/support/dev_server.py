"""A dev server process on a database file, which a test may kill."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from temporalio.client import Client

from perdure.client import connect
from perdure.client.embedded.launch import dev_server_arguments, dynamic_config, find_binary
from perdure.errors import ConfigurationError


class DevServer:
    """The server that `perdure dev` starts, without anything that guards it."""

    def __init__(self, database: Path, *settings: str) -> None:
        """`settings` are pairs of dynamic configuration, `key=value`."""
        self._database = database
        self._settings = dynamic_config(*settings)
        self._port, self._ui_port = free_port(), free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> Client:
        """Start it, on what the file holds; a client when it answers."""
        binary = find_binary()
        assert binary is not None
        self._process = await asyncio.create_subprocess_exec(
            str(binary),
            *dev_server_arguments(self._database, port=self._port, ui_port=self._ui_port),
            *self._settings,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                return await connect(self.address)
            except ConfigurationError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)

    async def kill(self) -> float:
        """SIGKILL; the moment it was sent."""
        assert self._process is not None
        self._process.kill()
        moment = time.monotonic()
        await self._process.wait()
        return moment

    def freeze(self) -> None:
        """SIGSTOP: connections stay, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def __aenter__(self) -> Self:
        self.client = await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
