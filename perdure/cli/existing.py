"""The runs that commands are about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .problems import Failure
from .session import Session, open_session

if TYPE_CHECKING:
    from ..client import RunHandle


@asynccontextmanager
async def open_run(run_id: str) -> AsyncIterator[tuple[Session, RunHandle]]:
    """The server and the run; raises Failure when the server has no run of that id."""
    from temporalio.service import RPCError, RPCStatusCode

    from ..client import get_run

    async with open_session() as session:
        try:
            await session.client.get_workflow_handle(run_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise Failure(
                f"there is no run {run_id!r} in the namespace {session.client.namespace!r} of {session.place}. "
                "Expected an id that `perdure ls` lists."
            ) from error
        yield session, get_run(session.client, run_id)
