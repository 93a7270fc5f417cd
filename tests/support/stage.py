"""What a test of runs stands on: a worker on a queue of its own, and a replay of everything that it
recorded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Worker

from perdure.agents import Agent
from perdure.client import RunHandle, connect, start_run
from perdure.history.chain import read_links
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.worker import create_worker

from .agents import QUESTION
from .noted import NotingRunner, Stands, cuts_of, differences

CUT = bool(os.environ.get("PERDURE_TESTS_CUT"))
"""Whether histories are replayed cut at each of their tasks, too."""
FEW_POLLS = {"max_concurrent_workflow_task_polls": 2, "max_concurrent_activity_task_polls": 2}
"""Options of a worker for a few runs: to begin and end ten polls is a sixth of what a short run
costs."""


class Stage:
    """Starts runs and workers on one task queue, and knows them."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client = client
        self.task_queue = task_queue
        self.runs: list[RunHandle] = []
        self._numbers = count()
        self.stands = Stands()
        """How the runs of this process's workers stood, after each of their tasks."""

    async def start(
        self,
        agent: Agent,
        messages: Sequence[Message] | None = None,
        *,
        id: str | None = None,
        tenant: str | None = None,
        **options: Any,
    ) -> RunHandle:
        """Start a run; `options` are those of `RunOptions`. Retries do not wait, unless they say
        so.
        """
        settings = {"retry_base_seconds": 0.0, **options}
        run = await start_run(
            self.client,
            agent,
            messages=list(messages or QUESTION),
            task_queue=self.task_queue,
            id=id or self.task_queue.replace("test-", f"run-{next(self._numbers)}-"),
            options=RunOptions(**settings),
            tenant=tenant,
        )
        self.runs.append(run)
        return run

    @asynccontextmanager
    async def worker(self, tools: Any = (), **more: Any) -> AsyncIterator[Worker]:
        """A worker in this process, for as long as the block runs; its tools share the event loop
        of the test.
        """
        settings = {
            "tool_loop": asyncio.get_running_loop(),
            "unsandboxed_workflow_runner": NotingRunner(self.stands),
            **FEW_POLLS,
            **more,
        }
        async with create_worker(
            self.client, task_queue=self.task_queue, tools=tools, **settings
        ) as worker:
            yield worker

    @asynccontextmanager
    async def another_worker(self, tools: Any = (), **more: Any) -> AsyncIterator[Worker]:
        """A second worker beside the first, with a connection of its own, as each worker needs."""
        address = self.client.service_client.config.target_host
        client = await connect(address, data_converter=self.client.data_converter)
        async with create_worker(client, task_queue=self.task_queue, tools=tools, **more) as worker:
            yield worker

    async def replay(self, *, cut: bool = CUT) -> None:
        """Replay every history that the runs recorded; raises when the code as it is would not have
        made it, or not have stood where it did. With `cut`, also as much of each as there was when
        each of its tasks began.
        """
        if self.runs:
            await replay_runs(
                self.client, *(run.id for run in self.runs), live=self.stands, cut=cut
            )


async def replay_runs(
    client: Client, *workflow_ids: str, live: Stands | None = None, cut: bool = CUT
) -> None:
    """Replay all links of these runs. Raises what the replay does, and where it stands otherwise
    than `live`.
    """

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for workflow_id in workflow_ids:
            async for link in read_links(client, workflow_id):
                yield WorkflowHistory(workflow_id, link.history)

    await replay(client, histories(), live=live, cut=cut)


async def replay(
    client: Client,
    histories: AsyncIterator[WorkflowHistory],
    *,
    live: Stands | None = None,
    cut: bool = CUT,
) -> None:
    """Replay histories of runs and sessions. Raises what the replay does, and where it stands
    otherwise than `live`.
    """

    async def parts() -> AsyncIterator[WorkflowHistory]:
        async for history in histories:
            for part in cuts_of(history) if cut else ():
                yield part
            yield history

    found = await differences(client, parts(), live or Stands())
    assert not found, "\n".join(found)
