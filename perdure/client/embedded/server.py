"""The embedded Temporal server: one per data folder, shared, with a retention of a year."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client

from ...errors import ConfigurationError
from ...payloads.converter import converter_from_environment
from ...private_files import data_folder, make_private_folder
from ..connection import connect_locally
from .guard import GRACE_SECONDS
from .launch import launch, running_server
from .state import FileLock, ServerState, has_users, is_locked

VARIABLE = "PERDURE_RETENTION_DAYS"
DEFAULT_DAYS = 365


async def keep_closed_runs(client: Client) -> None:
    """Set the retention of closed runs in the client's namespace to `retention_days()`, and raise
    as it does.
    """
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(timedelta(days=retention_days()))
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=client.namespace, config=config), retry=True
    )


def retention_days() -> int:
    """Return how many days a closed run is kept. Raises `ConfigurationError` for an invalid
    setting.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT_DAYS)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 36_500:
        raise ConfigurationError(f"{VARIABLE}={text!r}: expected a number of days, from 1 to 36500")
    return int(text)


_START_SECONDS = 30.0


class LocalServer:
    """A Temporal dev server with its database in a file, so that runs survive its restart.

    `async with LocalServer() as server` uses the server that runs for the data folder, or starts
    it. The server ends when the last process that uses it has left or ended, whichever process
    started it.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        port: int | None = None,
        ui_port: int | None = None,
        patience: float = 2 * _START_SECONDS,
    ) -> None:
        """`folder` is by default the result of `data_folder()` at `start`.

        The ports are by default 7233 and 8233, or any free ones if those are taken. `patience` is
        the time in seconds to wait for another process that is starting the server.
        """
        self._retry = patience
        self._folder = Path(folder) if folder else None
        self.was_started_here = False
        """Whether this process has started the server."""
        self._port, self._ui_port = port, ui_port
        self._use: FileLock | None = None
        self._state: ServerState | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of the server's database, state and log."""
        return self._use.path.parent if self._use else self._folder or data_folder()

    @property
    def is_started(self) -> bool:
        """Return whether `start` has returned, without a later `leave` or `stop`."""
        return self._state is not None

    @property
    def state(self) -> ServerState:
        """Return the server's addresses. Raises `RuntimeError` before `start`, as do `address`,
        `ui_url` and `connect`.
        """
        if self._state is None:
            raise RuntimeError("LocalServer.start() comes first")
        return self._state

    @property
    def address(self) -> str:
        """`host:port` of the frontend."""
        return self.state.address

    @property
    def ui_url(self) -> str:
        """URL of the Temporal UI."""
        return self.state.ui_url

    async def connect(self) -> Client:
        """Return a client of this server, with perdure's data converter. Raises
        `ConfigurationError` when the server is gone.
        """
        return await connect_locally(self.address)

    async def start(self) -> None:
        """Use the folder's running server, or start one; return when it answers.

        Raises `ConfigurationError`, with the end of the server's log, when it does not answer, and
        for invalid settings of clients in the environment.
        """
        converter_from_environment()
        self._make_folder()
        use = self._use or FileLock(self.folder / "users.lock")
        try:
            # A running server needs no turn.
            if not (use.try_acquire("shared") and await self._join_running()):
                await self._start_in_turn(use)
        except BaseException:
            self._state = None
            use.release()
            raise
        self._use = use

    async def _join_running(self) -> bool:
        try:
            self._state = await self._running_state()
        except ConfigurationError:
            # It may be starting or ending: take a turn.
            return False
        return self._state is not None

    async def _start_in_turn(self, use: FileLock) -> None:
        starting = FileLock(self.folder / "start.lock")
        await starting.acquire("exclusive", timeout=self._retry)
        try:
            await use.acquire("shared", timeout=_START_SECONDS)
            self._state = await self._running_state()
            if self._state is None:
                ports = {"port": self._port, "ui_port": self._ui_port}
                self._state = await launch(self.folder, **ports, timeout=_START_SECONDS)
                self.was_started_here = True
        finally:
            starting.release()
        await keep_closed_runs(await self.connect())

    def leave(self) -> None:
        """Stop using the server; it ends within about a second unless another process uses it."""
        self._state = None
        if self._use:
            self._use.release()

    async def stop(self) -> None:
        """Leave the server and wait until it has ended; returns at once when another process uses
        it.
        """
        self.leave()
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        while (
            is_locked(self.folder / "server.lock")
            and not has_users(self.folder)
            and time.monotonic() < deadline
        ):
            await asyncio.sleep(0.02)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def _make_folder(self) -> None:
        try:
            make_private_folder(self.folder, is_own=self.folder == data_folder())
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {str(self.folder)!r} can't be created ({error.strerror}). "
                "Expected a folder with write access: name one with --data-dir or PERDURE_HOME."
            ) from error

    async def _running_state(self) -> ServerState | None:
        state = await running_server(self.folder)
        if state is None:
            return None
        for option, wanted, place in (
            ("port", self._port, state.address),
            ("ui-port", self._ui_port, state.ui_url),
        ):
            if wanted is not None and place.rpartition(":")[2] != str(wanted):
                raise ConfigurationError(
                    f"The embedded server of {str(self.folder)!r} runs at {place}, expected port "
                    f"{wanted}: omit --{option}, end the perdure processes that use the server, or "
                    "use another --data-dir."
                )
        return state
