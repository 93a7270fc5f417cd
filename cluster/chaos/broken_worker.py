"""A worker of a faulty version: its code raises in each workflow task of a run."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from temporalio import activity, workflow
from temporalio.worker import Worker

from perdure.protocol.names import WORKFLOW
from perdure.worker.assembly import deployment_config

from .agents import QUEUE
from .processes import patiently_connected


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Broken:
    @workflow.run
    async def run(self, given: Any) -> None:
        raise RuntimeError("the fault of this version")


@activity.defn
async def nothing() -> None:
    """With an activity, the worker polls both queues, which a version needs to become current."""


async def main() -> None:
    build = os.environ["TEMPORAL_WORKER_BUILD_ID"]
    config = deployment_config(os.environ["TEMPORAL_DEPLOYMENT_NAME"], build)
    client = await patiently_connected()
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Broken],
        activities=[nothing],
        deployment_config=config,
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
