"""One worker of the runs, until it is killed; of the version that its environment names, if any."""

from __future__ import annotations

import asyncio
import os
import sys

from perdure.activities.run_cache import DEFAULT_CACHE_BYTES
from perdure.prompty.worker_limits import OPEN
from perdure.worker import create_worker

from . import tools
from .agents import QUEUE
from .processes import patiently_connected


async def main(folder: str) -> None:
    client = await patiently_connected()
    worker = create_worker(
        client,
        task_queue=QUEUE,
        tools=[] if "CHAOS_WITHOUT_TOOLS" in os.environ else tools.ALL,
        deployment=os.environ.get("TEMPORAL_DEPLOYMENT_NAME"),
        build_id=os.environ.get("TEMPORAL_WORKER_BUILD_ID"),
        limits=OPEN,
        prompt_root=folder,
        max_concurrent_activities=40,
        conversation_cache_bytes=int(os.environ.get("CHAOS_CACHE_BYTES", DEFAULT_CACHE_BYTES)),
    )
    print("ready", os.getpid(), flush=True)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
