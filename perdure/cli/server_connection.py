"""Opens what a command works on: the server that the environment names, else the embedded one, and a run there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..commands import shell_word
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from ..text import counted
from .console import say
from .problems import Failure

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecutionDescription

    from ..client import RunHandle
    from ..client.embedded.server import LocalServer


async def last_turn(client: Client, session: WorkflowExecutionDescription) -> str:
    """The id of the session's run under way, else of its last one; says which. Raises `Failure` before the first."""
    from ..client import session as conversation_of

    if under_way := run_under_way(session):
        say(f"Session {session.id}: the run under way is {under_way}", "faint")
        return under_way
    runs = await conversation_of(client, None, session.id).runs()
    if not runs:
        raise Failure(f"session {session.id} has no run yet: perdure chat --session {shell_word(session.id)}")
    say(f"Session {session.id}: no run is under way; the last one is {runs[-1].id}", "faint")
    return runs[-1].id


def run_under_way(session: WorkflowExecutionDescription) -> str | None:
    """The id of the session's run under way, if there is one."""
    pending = [child.workflow_id for child in session.raw_description.pending_children]
    return pending[0] if pending else None


@dataclass
class Session:
    """A connected server."""

    client: Client
    embedded: LocalServer | None
    """None when the environment names the server."""
    works: bool = False
    """Whether a worker runs inside this process."""

    @property
    def place(self) -> str:
        """The server, as messages name it."""
        address = self.client.service_client.config.target_host
        return f"{'the embedded server' if self.embedded else 'the server'} at {address}"

    async def connect_again(self) -> Client:
        """A second client of the same server: each worker needs one of its own."""
        from ..client.connection import connect

        return await (self.embedded.connect() if self.embedded else connect())

    async def is_polled(self, task_queue: str, *, now: float | None = None) -> bool:
        """Whether a worker polls the queue; one that has ended counts for seconds, on a server of others for a minute.

        `now` is the server's time, if it is known. Raises `RPCError`.
        """
        from ..activities.inventory import POLL_SECONDS, somebody_polls
        from ..client.embedded import launch as settings

        within = 1.5 * settings.POLL_SECONDS if self.embedded else POLL_SECONDS
        return await somebody_polls(self.client, task_queue, within=within, now=now)

    async def has_ended(self, run_id: str) -> bool:
        """Whether the run is over."""
        return (await self.client.get_workflow_handle(run_id).describe()).close_time is not None

    @property
    def ends_here(self) -> bool:
        """Whether the server, and its UI with it, ends with this command."""
        return self.embedded is not None and self.embedded.was_started_here

    def ui_url(self, run_id: str) -> str | None:
        """Where a browser shows the run; None when that is not known."""
        path = f"/namespaces/{self.client.namespace}/workflows/{quote(run_id, safe='')}"
        base = self._ui_base()
        return base + path if base else None

    def _ui_base(self) -> str | None:
        if self.embedded:
            return self.embedded.ui_url
        if base := os.environ.get("PERDURE_UI_URL"):
            return base.rstrip("/")
        host = self.client.service_client.config.target_host.rpartition(":")[0]
        return "https://cloud.temporal.io" if host.endswith((".tmprl.cloud", ".api.temporal.io")) else None


@asynccontextmanager
async def open_session() -> AsyncIterator[Session]:
    """A connection to the server. Raises `ConfigurationError`, which says what to type, when there is none.

    An embedded server that this command has started ends after it, unless another process uses it.
    """
    from ..client.connection import connect, environment_names_a_server

    if environment_names_a_server():
        yield Session(await connect(), None)
        return
    from ..client.embedded.server import LocalServer

    server = LocalServer()
    await server.start()
    try:
        yield Session(await server.connect(), server)
    finally:
        server.leave()


@asynccontextmanager
async def open_run(run_id: str) -> AsyncIterator[tuple[Session, RunHandle]]:
    """The server and the run that `find_run` finds. Raises as that and `open_session` do."""
    async with open_session() as session:
        yield session, await find_run(session, run_id)


async def find_run(session: Session, run_id: str) -> RunHandle:
    """The run of that id; for a session's, the run under way or the last one, which is said. Raises `Failure`."""
    from temporalio.service import RPCError, RPCStatusCode

    from ..client import get_run
    from ..history.link import not_a_run

    try:
        described = await session.client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise Failure(
            f"there is no run {run_id!r} in the namespace {session.client.namespace!r} of {session.place}. "
            f"Expected an id that `perdure ls` lists. {await _how_long_runs_are_kept(session)}"
        ) from error
    if described.workflow_type == SESSION_WORKFLOW:
        return get_run(session.client, await last_turn(session.client, described))
    if described.workflow_type != WORKFLOW:
        raise Failure(not_a_run(run_id, described.workflow_type))
    return get_run(session.client, run_id)


async def _how_long_runs_are_kept(session: Session) -> str:
    from temporalio.service import RPCError

    from ..client.embedded.server import VARIABLE, days_kept

    try:
        days = await days_kept(session.client)
    except RPCError:
        return "Runs that ended long ago are removed."
    setting = f" ({VARIABLE})" if session.embedded else ""
    return f"Runs are removed {counted(days, 'day')} after their end{setting}."
