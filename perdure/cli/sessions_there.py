"""Sessions that are there: one by its id, and what runs in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .problems import Failure
from .recorded import CommandMemo, read_memo
from .session import Session

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecutionDescription

    from ..agent import Agent


@dataclass(frozen=True)
class FoundSession:
    """A session as the server has it, open or closed."""

    description: WorkflowExecutionDescription
    memo: CommandMemo
    agent: Agent
    """The one that it has begun with."""

    @property
    def task_queue(self) -> str:
        """The queue whose workers execute it and its runs."""
        return self.description.task_queue

    @property
    def has_ended(self) -> bool:
        """Whether it is closed."""
        return self.description.close_time is not None

    @property
    def endpoint(self) -> str:
        """Where its agent expects the model; "" for the provider's own."""
        connection = self.agent.model.connection if self.agent.model else None
        return (connection and connection.endpoint) or ""


async def find_session(server: Session, id: str) -> FoundSession | None:
    """The latest session of that id; None when there is none. Raises `Failure` for the id of something else."""
    from temporalio.service import RPCError, RPCStatusCode

    from ..protocol.names import SESSION_WORKFLOW

    try:
        found = await server.client.get_workflow_handle(id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None
    if found.workflow_type != SESSION_WORKFLOW:
        raise Failure(f"{id!r} is the id of a run, expected that of a session: `perdure ls --sessions` lists them")
    return FoundSession(found, await read_memo(found), await _agent(server.client, id, found.run_id))


async def _agent(client: Client, id: str, link: str) -> Agent:
    from ..history.decode import decode
    from ..history.link import read_start
    from ..protocol.session import SessionInput

    started = await read_start(client, id, link)
    return (await decode(client, started.input.payloads, SessionInput)).setup.agent
