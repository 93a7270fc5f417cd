"""A worker of the benchmarks, in a process of its own; at its end it prints its peak memory in
MB.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from perdure.client import connect
from perdure.worker import create_worker, tune_process

from .tools import look_much_up, look_up, look_up_in_thread


async def main(kind: str, address: str, task_queue: str, endpoint: str) -> None:
    if kind == "floor":
        from .floor import Floor, FloorActivities

        client = await Client.connect(address)
        activities = FloorActivities(endpoint).all
        worker = Worker(client, task_queue=task_queue, workflows=[Floor], activities=activities)
    else:
        tune_process()
        client = await connect(address)
        more: dict[str, Any] = {"conversation_cache_bytes": 0} if kind == "forgetful" else {}
        if kind == "traced":
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

            more["tracer_provider"] = provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        tools = [{"threads": look_up_in_thread, "published": look_much_up}.get(kind, look_up)]
        worker = create_worker(client, task_queue=task_queue, tools=tools, **more)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with worker:
        print("ready", flush=True)
        await stop.wait()
    print(peak_megabytes(), flush=True)


def peak_megabytes() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
