"""200 clients on 20 streamed runs over one gateway process: what each reads, how late, what it
costs.

The delay of a word is the time from when the first reader has it. One `RunHandle.stream` of each
run reads along, in a process of its own, as the worker with its model and the gateway are; the
clients are this process. What each process takes of the machine, and how long it has to wait for
it, says how much of the delay is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bench_actions import METERED_SECONDS, Server, metered_server
from benchmarks.process_load import LoadMeter, child_named
from benchmarks.stage import ROOT, run
from perdure.client import connect, get_run, start_run
from perdure.options import RunOptions
from perdure.prompty.load import load
from perdure.testing import ScriptedModel, says
from perdure.worker import create_worker, tune_process

AGENT = (
    "---\nname: writer\nmodel: {{id: m, connection: {{kind: key, endpoint: "
    "'{endpoint}'}}}}\n---\nuser:\nWrite.\n"
)
GOAL_MILLISECONDS = 50
Times = list[float]
"""When each word was there, by the machine's monotonic clock."""


class Heard:
    """The text of one reader, and when it came."""

    def __init__(self, words: int) -> None:
        self._ends = [
            len(" ".join(f"word{number}" for number in range(count + 1))) for count in range(words)
        ]
        self.text = ""
        self.times: Times = []
        self.attached_at = 0.0

    def add(self, piece: str) -> None:
        self.text += piece
        while len(self.times) < len(self._ends) and len(self.text) >= self._ends[len(self.times)]:
            self.times.append(time.monotonic())


async def work(address: str, namespace: str, queue: str, words: str, per_second: str) -> None:
    """A worker with its model, until SIGTERM."""
    tune_process()
    stop, text = asyncio.Event(), " ".join(f"word{number}" for number in range(int(words)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with ScriptedModel(
        lambda request: says(text, chunk_delay=1 / float(per_second), delay=5.0)
    ) as model:
        async with create_worker(await connect(address, namespace=namespace), task_queue=queue):
            print(model.openai_endpoint, flush=True)
            await stop.wait()


async def read_directly(address: str, namespace: str, words: str, *ids: str) -> None:
    """One `RunHandle.stream` of each run; prints when each word came, and stays until it is
    ended.
    """
    client = await connect(address, namespace=namespace)
    print("ready", flush=True)

    async def read(id: str) -> Times:
        heard = Heard(int(words))
        async for event in get_run(client, id).stream():
            if event.type == "token":
                heard.add(event.data["token"])
        return heard.times

    print(
        json.dumps(dict(zip(ids, await asyncio.gather(*map(read, ids)), strict=True))), flush=True
    )
    await asyncio.Event().wait()


async def read_over_http(url: str, id: str, words: int) -> Heard:
    """One client of perdure's own API, as small as it can be: 200 of them share this process."""
    place, heard, event = urlsplit(url), Heard(words), ""
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    lines = [
        f"GET /perdure/runs/{id}/events HTTP/1.1",
        f"Host: {place.netloc}",
        "Accept: text/event-stream",
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    await reader.readline()
    heard.attached_at = time.monotonic()
    while line := await reader.readline():
        if line.startswith(b"event: "):
            event = line[7:].decode().strip()
        elif line.startswith(b"data: ") and event == "token":
            heard.add(json.loads(line[6:])["data"]["token"])
        elif not line.strip() and event in ("done", "failed", "cancelled"):
            break
    writer.close()
    return heard


@asynccontextmanager
async def process(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A process of this Python, which is ended with the block."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments), stdout=asyncio.subprocess.PIPE, cwd=ROOT, limit=2**26
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.terminate()
            await started.wait()


async def line_of(started: asyncio.subprocess.Process) -> str:
    assert started.stdout is not None
    return (await started.stdout.readline()).decode().strip()


def megabytes(pid: int, what: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) / 1024


async def measure(
    server: Server, clients: int, runs: int, words: int, per_second: int
) -> dict[str, Any]:
    """Figures of one load."""
    here, queue = "benchmarks.bench_gateway", f"bench-{uuid.uuid4()}"
    async with (
        server.namespace() as namespace,
        process(
            here, "work", server.address, namespace, queue, str(words), str(per_second)
        ) as worker,
    ):
        file = Path(tempfile.mkdtemp()) / "writer.prompty"
        file.write_text(AGENT.format(endpoint=await line_of(worker)))
        place = ("--address", server.address, "--namespace", namespace)
        async with process(
            "perdure.cli",
            *place,
            "serve",
            str(file),
            "--port",
            "0",
            "--task-queue",
            queue,
            "--json",
        ) as gate:
            said = ""
            while not said.rstrip().endswith("}"):
                assert (line := await line_of(gate)), "the gateway has ended"
                said += line
            url, before = json.loads(said)["url"], megabytes(gate.pid, "VmRSS")
            client, agent = await connect(server.address, namespace=namespace), load(file)
            handles = [
                await start_run(client, agent, task_queue=queue, options=RunOptions(stream=True))
                for _ in range(runs)
            ]
            ids = [each.id for each in handles]
            async with process(
                here, "direct", server.address, namespace, str(words), *ids
            ) as direct:
                assert await line_of(direct) == "ready"
                watched, began = [ids[number % runs] for number in range(clients)], time.monotonic()
                meter = LoadMeter(
                    {
                        "gateway": gate.pid,
                        "clients": os.getpid(),
                        "direct readers": direct.pid,
                        "worker, model": worker.pid,
                        "server": child_named(os.getpid(), "temporal"),
                    }
                )
                heard = await asyncio.gather(*(read_over_http(url, id, words) for id in watched))
                directly: dict[str, Times] = json.loads(await line_of(direct))
                meter.report()
            await asyncio.gather(*(each.result() for each in handles))
            memory = megabytes(gate.pid, "VmHWM")
        await asyncio.sleep(METERED_SECONDS)
        actions = (await server.actions(namespace)).total()
    text = " ".join(f"word{number}" for number in range(words))
    late: dict[str, Times] = {"clients": [], "direct": []}
    all_attached_at = max((each.attached_at for each in heard), default=0.0)
    for id, times in directly.items():
        readers = [each.times for watch, each in zip(watched, heard, strict=True) if watch == id]
        for word, at in enumerate(times):
            if at < all_attached_at:
                continue
            first = (
                min(at, *(each[word] for each in readers if len(each) > word)) if readers else at
            )
            late["direct"].append(at - first)
            late["clients"] += [each[word] - first for each in readers if len(each) > word]
    whole = sum(each.text == text for each in heard)
    attached = all_attached_at - began
    return {
        "whole": whole,
        "late": late,
        "attached": attached,
        "memory": (before, memory),
        "actions": actions / runs,
    }


def report(clients: int, runs: int, words: int, per_second: int, found: dict[str, Any]) -> None:
    print(f"{clients} clients on {runs} runs, each of {words} words at {per_second} a second")
    print(f"  {found['whole']} of {clients} have read every word once")
    if clients:
        print(f"  all have attached within {found['attached']:.1f} s; later words count for delays")
        p95 = {who: quantiles(times, n=20)[-1] * 1000 for who, times in found["late"].items()}
        for who, times in found["late"].items():
            figures = (
                f"median {median(times) * 1000:.0f} ms, p95 {p95[who]:.0f} ms, at most "
                f"{max(times) * 1000:.0f} ms"
            )
            print(f"  {who:8} later than the first that had a word: {figures}")
        print(
            f"  p95 over the direct reader's: {p95['clients'] - p95['direct']:.0f} ms (goal "
            f"{GOAL_MILLISECONDS})"
        )
    before, memory = found["memory"]
    print(f"  memory of the gateway: {before:.0f} MB before, at most {memory:.0f} MB")
    print(f"  Actions of each run: {found['actions']:.1f}", flush=True)


async def main(clients: int, runs: int, words: int, per_second: int) -> None:
    async with metered_server() as server:
        for number in (0, clients):
            report(
                number,
                runs,
                words,
                per_second,
                await measure(server, number, runs, words, per_second),
            )


if __name__ == "__main__":
    roles = {"work": work, "direct": read_directly}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        run(roles[sys.argv[1]](*sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--per-second", type=int, default=20)
    given = parser.parse_args()
    run(main(given.clients, given.runs, given.words, given.per_second))
