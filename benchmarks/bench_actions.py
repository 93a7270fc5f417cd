"""What a run costs on Temporal Cloud: its Actions, counted by the server's own metric, beside a
hand-written workflow.

Each way to run is in a namespace of its own, and all of them run at the same time: the metric tells
them apart.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from benchmarks.stage import run, server_at
from perdure import Agent, Message, RunOptions
from perdure.client import connect, get_run, start_run
from perdure.client.connection import set_up_namespace
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says
from perdure.worker import create_worker

MODEL_SECONDS, TOOL_SECONDS = 2.5, 1.5
WORDS = 50
MOST_ACTIONS, MOST_WATCHED_PER_SECOND, MOST_FOR_FIVE = 48, 1.2, 1.2
CLOUD = {"lost_worker_seconds": 30.0, "stream_seconds": 1.0}
"""What `start_run` chooses for Temporal Cloud, which it knows by its address."""
REFUSED = "service_errors_resource_exhausted{"
METERED_SECONDS = 2.0
"""What has happened is in the metric after so long."""
LINE = re.compile(
    r'^action\{action_type="(?P<type>[^"]*)",namespace="(?P<namespace>[^"]*)".*\} (?P<count>\d+)$'
)


@dataclass(frozen=True)
class Way:
    """How a run is started, and by how many clients it is watched."""

    name: str
    stream: bool = False
    watchers: int = 0
    settings: tuple[tuple[str, float], ...] = tuple(CLOUD.items())


WAYS = (
    Way("plain"),
    Way("streamed", stream=True),
    Way("streamed, one reader", stream=True, watchers=1),
    Way("streamed, five readers", stream=True, watchers=5),
    Way("own server", settings=()),
    Way("own server, streamed", stream=True, settings=()),
    Way("own server, streamed, one reader", stream=True, watchers=1, settings=()),
)


@dataclass
class Bill:
    """What one run has cost."""

    actions: Counter[str]
    seconds: float

    @property
    def total(self) -> int:
        return self.actions.total()


@activity.defn(name="bench.wait")
async def wait(seconds: float) -> str:
    """Stand for a model call or a tool."""
    await asyncio.sleep(seconds)
    return "done"


@workflow.defn(name="Bench", sandboxed=False)
class HandWritten:
    """The least that the same calls can cost: nothing but one activity for each."""

    @workflow.run
    async def run(self, rounds: int, scale: float) -> None:
        for round in range(rounds + 1):
            await self._wait(MODEL_SECONDS * scale)
            if round < rounds:
                await self._wait(TOOL_SECONDS * scale)

    async def _wait(self, seconds: float) -> None:
        await workflow.execute_activity(
            "bench.wait", seconds, start_to_close_timeout=timedelta(minutes=1)
        )


class Server:
    """A dev server whose metrics are read."""

    def __init__(self, address: str, metrics: str) -> None:
        self.address = address
        self._metrics = metrics

    @asynccontextmanager
    async def namespace(self) -> AsyncIterator[str]:
        """A new namespace with perdure's search attributes."""
        name = f"bench{uuid.uuid4().hex[:8]}"  # The metric has no hyphens.
        client = await Client.connect(self.address)
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(
                namespace=name, workflow_execution_retention_period=Duration(seconds=86400)
            ),
            retry=True,
        )
        while True:
            try:
                await set_up_namespace(await connect(self.address, namespace=name))
                break
            except RPCError:
                await asyncio.sleep(0.1)
        yield name

    async def actions(self, namespace: str) -> Counter[str]:
        """Return how many Actions of each kind the namespace has had."""
        found = [match for match in map(LINE.match, await self._lines()) if match]
        return Counter(
            {each["type"]: int(each["count"]) for each in found if each["namespace"] == namespace}
        )

    async def refusals(self) -> int:
        """Return how many requests were refused because a quota was used up."""
        return sum(
            int(line.rpartition(" ")[2]) for line in await self._lines() if line.startswith(REFUSED)
        )

    async def _lines(self) -> list[str]:
        text = await asyncio.to_thread(
            lambda: urllib.request.urlopen(self._metrics).read().decode()
        )
        return [line for line in text.splitlines() if line]


@asynccontextmanager
async def metered_server(*settings: str) -> AsyncIterator[Server]:
    """A dev server with the embedded server's settings, and further dynamic configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with server_at(settings=settings, arguments=("--metrics-port", str(port))) as address:
        yield Server(address, f"http://127.0.0.1:{port}/metrics")


def script(rounds: int, scale: float) -> Callable[[ScriptedRequest], ScriptedReply]:
    """The model's replies: `rounds` calls of the tool, then an answer."""
    text = " ".join(f"word{number}" for number in range(WORDS))

    def reply(request: ScriptedRequest) -> ScriptedReply:
        seconds = MODEL_SECONDS * scale
        pace = {"chunk_delay": seconds / WORDS} if request.is_streaming else {"delay": seconds}
        calls = [{"name": "wait", "id": f"call_{request.step}"}] if request.step < rounds else []
        return says(text).model_copy(
            update={**pace, "tool_calls": ScriptedReply(tool_calls=calls).tool_calls}
        )

    return reply


async def hand_written(server: Server, rounds: int, scale: float) -> Bill:
    """The floor."""
    async with server.namespace() as namespace:
        client, queue = (
            await Client.connect(server.address, namespace=namespace),
            f"bench-{uuid.uuid4()}",
        )
        async with Worker(client, task_queue=queue, workflows=[HandWritten], activities=[wait]):
            began = time.monotonic()
            await client.execute_workflow(
                "Bench", args=[rounds, scale], id=f"bench-{uuid.uuid4()}", task_queue=queue
            )
            seconds = time.monotonic() - began
        await asyncio.sleep(METERED_SECONDS)
        return Bill(await server.actions(namespace), seconds)


async def agent_run(server: Server, way: Way, rounds: int, scale: float) -> Bill:
    """One run of an agent with the same calls."""

    async def tool() -> str:
        """Wait."""
        await asyncio.sleep(TOOL_SECONDS * scale)
        return "done"

    async with server.namespace() as namespace:
        client, queue = await connect(server.address, namespace=namespace), f"bench-{uuid.uuid4()}"
        with ScriptedModel(script(rounds, scale)) as model:
            async with create_worker(client, task_queue=queue, tools={"wait": tool}):
                options = RunOptions(
                    stream=way.stream, max_iterations=rounds + 1, **dict(way.settings)
                )
                messages, began = [Message.user("Go on.")], time.monotonic()
                handle = await start_run(
                    client, agent_of(model), messages=messages, task_queue=queue, options=options
                )
                await asyncio.gather(
                    *(watch(server, namespace, handle.id) for _ in range(way.watchers))
                )
                await handle.result()
                seconds = time.monotonic() - began
                await asyncio.sleep(METERED_SECONDS)
                return Bill(await server.actions(namespace), seconds)


def agent_of(model: ScriptedModel, parameters: Sequence[dict[str, str]] = ()) -> Agent:
    """The agent with the tool `wait`."""
    connection = {"kind": "key", "endpoint": model.openai_endpoint}
    tools = [{"name": "wait", "kind": "function", "parameters": list(parameters)}]
    return Agent.model_validate(
        {"name": "bench", "model": {"id": "m", "connection": connection}, "tools": tools}
    )


async def watch(server: Server, namespace: str, id: str) -> None:
    """Watch the run with a client of its own, to the end."""
    client, pieces = await connect(server.address, namespace=namespace), 0
    async for event in get_run(client, id).stream():
        pieces += event.type == "token"
    assert pieces


async def measure(server: Server, rounds: int, scale: float) -> dict[str, Bill]:
    """What each way costs, by its name; the floor is `hand-written`."""
    works: list[Awaitable[Bill]] = [hand_written(server, rounds, scale)]
    works += [agent_run(server, way, rounds, scale) for way in WAYS]
    bills = await asyncio.gather(*works)
    return dict(zip(["hand-written", *(way.name for way in WAYS)], bills, strict=True))


async def main(rounds: int, scale: float) -> None:
    async with metered_server() as server:
        bills = await measure(server, rounds, scale)
    print(
        f"{rounds} iterations with a tool call and an answer, {MODEL_SECONDS} s and {TOOL_SECONDS} "
        f"s × {scale:g}"
    )
    for name, bill in bills.items():
        kinds = ", ".join(
            f"{count} {type.partition('_')[2]}" for type, count in bill.actions.most_common()
        )
        print(f"  {name:34} {bill.total:4} Actions in {bill.seconds:5.1f} s: {kinds}", flush=True)
    plain, one, five = (
        bills[name] for name in ("plain", "streamed, one reader", "streamed, five readers")
    )
    print(f"  plain {plain.total} (at most {MOST_ACTIONS} for 20 iterations)")
    a_second = (one.total - plain.total) / one.seconds
    print(f"  one reader: {a_second:.2f} more a second (at most {MOST_WATCHED_PER_SECOND})")
    print(
        f"  five readers: {five.total / one.total:.2f} × one (at most {MOST_FOR_FIVE})", flush=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--scale", type=float, default=1.0, help="of the time that calls take")
    given = parser.parse_args()
    run(main(given.rounds, given.scale))
