"""Runs that ask a remote agent for the weather, and one whose worker is killed while the agent
works.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.client import RunHandle
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, asks, call, says

from .a2a_agents import RemoteAgent
from .agents import scripted_agent
from .stage import Stage
from .waiting import wait_for
from .worker_process import WorkerJob
from .workers import Nursery


def weather(url: str, **more: Any) -> dict[str, Any]:
    """The declaration of a tool `weather`, which is the agent at `url`."""
    return {
        "name": "weather",
        "kind": "a2a",
        "connection": {"kind": "key", "endpoint": url},
        **more,
    }


def asking(*messages: str) -> list[Any]:
    """A model that sends these messages to the agent, one after the other."""
    return [*(asks(call("weather", message=message)) for message in messages), says("done")]


async def has_told(client: Client, run: RunHandle) -> bool:
    """Whether Temporal knows the remote task's id, from a heartbeat."""
    description = await client.get_workflow_handle(run.id).describe()
    details = [
        each.heartbeat_details.payloads for each in description.raw_description.pending_activities
    ]
    return any(b"taskId" in payload.data for payloads in details for payload in payloads)


def tool_texts(result: RunResult[Any]) -> list[str]:
    return [message.text for message in result.messages if message.role == "tool"]


class KilledWeather:
    """A run whose worker was killed while the remote agent worked; another worker goes on."""

    def __init__(self, server: WorkflowEnvironment, folder: str) -> None:
        self._server = server
        self._folder = folder
        self.remote = RemoteAgent()
        self.result: asyncio.Task[RunResult[Any]] = asyncio.create_task(self._play())
        """What the run gives, in the end."""

    async def _play(self) -> RunResult[Any]:
        stage = Stage(self._server.client, f"test-{uuid.uuid4()}")
        address = self._server.client.service_client.config.target_host
        job = WorkerJob(address=address, task_queue=stage.task_queue, folder=self._folder)
        with ScriptedModel(asking("hold")) as model:
            async with self.remote.served() as url, Nursery() as nursery:
                worker = await nursery.start(job)
                run = await stage.start(scripted_agent(model, [weather(url)]))
                await wait_for(lambda: has_told(stage.client, run))
                worker.kill()
                self.remote.released.set()
                await nursery.start(job)
                result = await asyncio.wait_for(run.result(), 60)
        await stage.replay()
        return result
