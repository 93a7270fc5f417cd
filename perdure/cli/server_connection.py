"""Connects to the server that a command works on: the one that the environment names, else the
embedded one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription

from ..activities.pollers import POLL_SECONDS, Version, somebody_polls
from ..client.connection import connect, environment_names_a_server
from ..client.embedded import launch as settings
from ..client.embedded.server import LocalServer
from ..json_types import JsonObject, JsonView
from .problems import UsageProblem


def run_under_way(session: WorkflowExecutionDescription) -> str | None:
    """Return the id of the session's open run, if there is one."""
    pending = [child.workflow_id for child in session.raw_description.pending_children]
    return pending[0] if pending else None


@dataclass
class ServerConnection:
    """Connection of a command to its server."""

    client: Client
    embedded: LocalServer | None
    """None when the environment names the server."""
    works: bool = False
    """Whether a worker runs inside this process."""

    @property
    def place(self) -> str:
        """The server's name in messages."""
        address = self.client.service_client.config.target_host
        return f"{'the embedded server' if self.embedded else 'the server'} at {address}"

    async def connect_again(self) -> Client:
        """Return a second client of the same server: each worker needs one of its own."""
        return await (self.embedded.connect() if self.embedded else connect())

    async def is_polled(
        self, task_queue: str, *, now: float | None = None, version: Version | None = None
    ) -> bool:
        """Return whether a worker polls the queue; one that has ended counts for seconds, elsewhere
        for a minute.

        `now` is the server's time, if it is known; with `version`, only its workers count. Raises
        `RPCError`.
        """
        within = 1.5 * settings.POLL_SECONDS if self.embedded else POLL_SECONDS
        return await somebody_polls(
            self.client, task_queue, within=within, now=now, version=version
        )

    async def has_ended(self, run_id: str) -> bool:
        """Return whether the run is over."""
        return (await self.client.get_workflow_handle(run_id).describe()).close_time is not None

    @property
    def ends_here(self) -> bool:
        """True when the server and its UI end with this command."""
        return self.embedded is not None and self.embedded.was_started_here

    def ui_url(self, run_id: str) -> str | None:
        """Return the run's address in the Temporal UI; None when it is not known."""
        path = f"/namespaces/{self.client.namespace}/workflows/{quote(run_id, safe='')}"
        base = self._ui_base()
        return base + path if base else None

    def _ui_base(self) -> str | None:
        if self.embedded:
            return self.embedded.ui_url
        if base := os.environ.get("PERDURE_UI_URL"):
            return base.rstrip("/")
        host = self.client.service_client.config.target_host.rpartition(":")[0]
        return (
            "https://cloud.temporal.io"
            if host.endswith((".tmprl.cloud", ".api.temporal.io"))
            else None
        )


@asynccontextmanager
async def connect_to_server() -> AsyncIterator[ServerConnection]:
    """Connect to the server. Raises `ConfigurationError`, which says what to type, when there is
    none.

    An embedded server that this command has started ends after it, unless another process uses it.
    """
    if environment_names_a_server():
        yield ServerConnection(await connect(), None)
        return
    server = LocalServer()
    await server.start()
    try:
        yield ServerConnection(await server.connect(), server)
    finally:
        server.leave()


MEMO = "perdure"
"""The name in a run's memo under which `perdure run` notes what `CommandMemo` has, as plain
JSON."""


@dataclass(frozen=True)
class CommandMemo:
    """The arguments of the command that started a run, for later commands."""

    folder: str = ""
    """Where the command was typed: sources are relative to it."""
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By option (`--tools` …), as they were typed."""
    scripted: str | None = None

    def as_memo(self, task_queue: str) -> JsonObject:
        """Return the entry of the run's memo."""
        values = {
            "folder": self.folder,
            **{option.removeprefix("--"): each for option, each in self.sources.items()},
            "scripted": self.scripted,
            "taskQueue": task_queue,
        }
        return {MEMO: {name: value for name, value in values.items() if value}}

    @classmethod
    def read(cls, memo: JsonView) -> CommandMemo:
        """Read the entry of a run's memo; an empty one for a run that another program started."""
        entry = memo.get(MEMO)
        if not isinstance(entry, Mapping):
            return cls()
        named = {
            f"--{name}": list(value) for name, value in entry.items() if isinstance(value, list)
        }
        folder, scripted = str(entry.get("folder") or ""), entry.get("scripted")
        return cls(folder=folder, sources=named, scripted=scripted)

    @property
    def has_code(self) -> bool:
        """True when `perdure resume` finds code here that a worker of the run needs."""
        return bool(self.sources or self.scripted)

    def existing_folder(self) -> str:
        """Return the folder in which the command was typed. Raises `UsageProblem` if it is gone."""
        folder = self.folder or "."
        if not Path(folder).is_dir():
            raise UsageProblem(
                f"the run was started in {folder!r}, which does not exist (any more): name its "
                "code with --tools"
            )
        return folder


async def read_memo(run: WorkflowExecution) -> CommandMemo:
    """Read the run's memo; an empty one for a memo that can't be decoded with this process's
    converter.
    """
    try:
        return CommandMemo.read(await run.memo())
    except Exception:
        # Whatever a converter raises: what is said of the run is only less helpful then.
        return CommandMemo()
