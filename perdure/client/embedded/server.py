"""The embedded Temporal server: one per data folder, shared by the perdure processes that use it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from temporalio.client import Client

from ...errors import ConfigurationError
from ..connection import connect_locally
from .data_folder import data_folder
from .file_lock import FileLock, is_locked
from .guard import GRACE_SECONDS
from .launch import ServerState, launch

_START_SECONDS = 30.0


class LocalServer:
    """A Temporal dev server with its database in a file, so that runs survive its restart.

    `async with LocalServer() as server` uses the one that runs for the data folder, or starts it. It ends when
    the last process that uses it has left, whichever started it and however they end.
    """

    def __init__(
        self, folder: str | Path | None = None, *, port: int | None = None, ui_port: int | None = None
    ) -> None:
        """The folder is by default `data_folder()` as it is at `start`.

        Ports left open are 7233 and 8233, or any free ones when those are taken.
        """
        self._folder = Path(folder) if folder else None
        self._port, self._ui_port = port, ui_port
        self._use: FileLock | None = None
        self._state: ServerState | None = None

    @property
    def folder(self) -> Path:
        """Where the server keeps its database, its state and its log."""
        return self._use.path.parent if self._use else self._folder or data_folder()

    @property
    def is_started(self) -> bool:
        """Whether `start` has returned and `leave` was not called since."""
        return self._state is not None

    @property
    def state(self) -> ServerState:
        """Where the server is; only after `start`."""
        if self._state is None:
            raise RuntimeError("LocalServer.start() comes first")
        return self._state

    @property
    def address(self) -> str:
        """`host:port` of the frontend; only after `start`."""
        return self.state.address

    @property
    def ui_url(self) -> str:
        """Where a browser finds the Temporal UI; only after `start`."""
        return self.state.ui_url

    async def connect(self) -> Client:
        """A client of this server with perdure's data converter."""
        return await connect_locally(self.address)

    async def start(self) -> None:
        """Return when a server answers; raises ConfigurationError with the end of its log when none does."""
        self._make_folder()
        use = self._use or FileLock(self.folder / "users.lock")
        starting = FileLock(self.folder / "start.lock")
        await starting.acquire("exclusive", timeout=2 * _START_SECONDS)
        try:
            await use.acquire("shared", timeout=_START_SECONDS)
            self._use = use
            self._state = await self._running() or await launch(
                self.folder, port=self._port, ui_port=self._ui_port, timeout=_START_SECONDS
            )
        except BaseException:
            use.release()
            raise
        finally:
            starting.release()

    def leave(self) -> None:
        """Use the server no longer; it ends a second later unless another process uses it."""
        self._state = None
        if self._use:
            self._use.release()

    async def stop(self) -> None:
        """Leave the server and wait until it has ended; returns at once when another process still uses it."""
        self.leave()
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        while is_locked(self.folder / "server.lock") and not self._has_users() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {str(self.folder)!r} can't be made ({error.strerror}). Expected a folder that you "
                "may write to: name one with --data-dir or PERDURE_HOME."
            ) from error

    def _has_users(self) -> bool:
        """Whether others share the lock. That the guard holds it alone, while it ends the server, is no use."""
        probe = FileLock(self.folder / "users.lock")
        shared = probe.try_acquire("shared")
        probe.release()
        return shared and is_locked(self.folder / "users.lock")

    async def _running(self) -> ServerState | None:
        if not is_locked(self.folder / "server.lock"):
            return None
        state = ServerState.read(self.folder)
        if self._port not in (None, state.port):
            raise ConfigurationError(
                f"The embedded server of {str(self.folder)!r} runs at {state.address}, expected port {self._port}: "
                "leave --port away, end the perdure processes that use it, or take another --data-dir."
            )
        await connect_locally(state.address)
        return state
