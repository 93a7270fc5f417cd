"""Dev servers for tests: in memory, and on a database file as a process that a test may kill."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import GrpcCompression
from temporalio.testing import WorkflowEnvironment

from perdure.client import connect
from perdure.client.embedded.launch import FAST, dev_server_arguments, dynamic_config, find_binary
from perdure.errors import ConfigurationError
from perdure.payloads.converter import perdure_data_converter
from perdure.protocol import search_attributes

ONE_PARTITION = ("matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1")
"""Dynamic configuration: with the default of four, a server spends a quarter of its time on
partitions."""
SHORT_CONNECTIONS = (
    'frontend.keepAliveMaxConnectionAge="1s"',
    'frontend.keepAliveMaxConnectionAgeGrace="1s"',
)
"""Every server closes old connections, as a rule after five minutes, and what is asked just then is
lost."""


@asynccontextmanager
async def server_in_memory(
    *settings: str,
    data_converter: DataConverter = perdure_data_converter,
    arguments: tuple[str, ...] = (),
    **more: Any,
) -> AsyncIterator[WorkflowEnvironment]:
    """A server with perdure's search attributes; `settings` are pairs of dynamic configuration,
    `key=value`. As `perdure.client.connect` does on this machine, its client compresses nothing.
    """
    binary = find_binary()
    async with await WorkflowEnvironment.start_local(
        data_converter=data_converter,
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=[*dynamic_config(*FAST, *ONE_PARTITION, *settings), *arguments],
        search_attributes=search_attributes.ALL,
        **more,
    ) as environment:
        yield WorkflowEnvironment.from_client(
            await environment.connect_client(
                data_converter=data_converter,
                identity=environment.client.identity,
                grpc_compression=GrpcCompression.NONE,
            )
        )


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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()


def free_port() -> int:
    """A port that nobody has, outside those from which systems give one to whoever asks for any."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.SystemRandom().randrange(15_000, 30_000)))
            except OSError:
                continue
            port: int = probe.getsockname()[1]
            return port
