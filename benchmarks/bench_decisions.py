"""How soon a decision that is made in one protocol is seen on the streams of the others, over one
gateway process.

Each session waits for an approval and is followed by perdure's own API, as a run and as a session,
by the AI SDK's stream and by AG-UI's; then the own API approves. The times are from when that
request is answered.
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
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import httpx2

from benchmarks.bench_actions import Server, metered_server
from benchmarks.bench_gateway import line_of, process
from benchmarks.process_load import LoadMeter, child_named
from benchmarks.stage import run
from perdure.client import connect
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.worker import create_worker, tune_process

AGENT = """---
name: payer
model: {{id: m, connection: {{kind: key, endpoint: '{endpoint}'}}}}
tools: [{{name: pay, kind: function, parameters: [{{name: euros, kind: integer, required: true}}],
  perdure: {{approval: always}}}}]
---
"""
GOAL_MILLISECONDS = 200


class Follower(NamedTuple):
    """A stream of one protocol, and what its lines say."""

    protocol: str
    method: str
    path: str
    waits: str
    """Of the call that waits."""
    decided: str
    body: dict[str, Any] | None = None


def followers_of(session: str) -> list[Follower]:
    body = {
        "threadId": session,
        "runId": "r",
        "messages": [],
        "forwardedProps": {"perdure": {"open": True}},
    }
    asked, decided = "permission_requested", "permission_completed"
    return [
        Follower("run", "GET", f"/perdure/runs/{session}/1/events", asked, decided),
        Follower("session", "GET", f"/perdure/sessions/{session}/events", asked, decided),
        Follower(
            "AI SDK",
            "GET",
            f"/ai/payer/{session}/stream?open=1",
            "approval-request",
            "approval-response",
        ),
        Follower("AG-UI", "POST", "/ag-ui/payer", "perdure.waiting", f"perdure.{decided}", body),
    ]


def pay(euros: int) -> str:
    return f"paid {euros}"


def reply(request: ScriptedRequest) -> ScriptedReply:
    """A model that takes its time: a query that meets the end of its run is answered 0.2 s
    later.
    """
    return (
        says("Paid.", delay=1.0)
        if request.body["messages"][-1]["role"] == "tool"
        else asks(call("pay", euros=3))
    )


async def work(address: str, namespace: str, queue: str) -> None:
    """A worker with its model, until SIGTERM."""
    tune_process()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with ScriptedModel(reply) as model:
        async with create_worker(
            await connect(address, namespace=namespace), task_queue=queue, tools={"pay": pay}
        ):
            print(model.openai_endpoint, flush=True)
            await stop.wait()


async def decide(http: httpx2.AsyncClient, session: str) -> dict[str, float]:
    """Approve what waits in a session, while it is followed; returns how late each protocol has
    shown that.
    """
    said = await http.post(
        f"/perdure/sessions/{session}/messages", json={"agent": "payer", "text": "Pay"}
    )
    said.raise_for_status()
    seen_at: dict[str, float] = {}
    waiting = asyncio.Barrier(len(followers_of(session)) + 1)

    async def follow(follower: Follower) -> None:
        told = None
        headers = {"Accept": "text/event-stream"}
        async with http.stream(
            follower.method, follower.path, json=follower.body, headers=headers
        ) as answer:
            async for line in answer.aiter_lines():
                if follower.decided in line:
                    seen_at[follower.protocol] = time.monotonic()
                    return
                if follower.waits in line and told is None:
                    told = group.create_task(waiting.wait())

    async with asyncio.TaskGroup() as group:
        for each in followers_of(session):
            group.create_task(follow(each))
        await waiting.wait()
        (pending,) = (await http.get(f"/perdure/runs/{session}/1")).json()["state"][
            "pending_approvals"
        ]
        decision = {"callId": pending["call_id"], "digest": pending["digest"]}
        (await http.post(f"/perdure/runs/{session}/1/approve", json=decision)).raise_for_status()
        decided_at = time.monotonic()
    return {protocol: at - decided_at for protocol, at in seen_at.items()}


async def measure(server: Server, sessions: int, at_once: int) -> None:
    here, queue = "benchmarks.bench_decisions", f"bench-{uuid.uuid4()}"
    async with (
        server.namespace() as namespace,
        process(here, "work", server.address, namespace, queue) as worker,
    ):
        file = Path(tempfile.mkdtemp()) / "payer.prompty"
        file.write_text(AGENT.format(endpoint=await line_of(worker)))
        place = ("--address", server.address, "--namespace", namespace)
        serving = ("serve", str(file), "--port", "0", "--task-queue", queue, "--json")
        async with process("perdure.cli", *place, *serving) as gate:
            said = ""
            while not said.rstrip().endswith("}"):
                assert (line := await line_of(gate)), "the gateway has ended"
                said += line
            places, late = asyncio.Semaphore(at_once), defaultdict[str, list[float]](list)
            pids = {"gateway": gate.pid, "worker, model": worker.pid, "clients": os.getpid()}
            meter = LoadMeter({**pids, "server": child_named(os.getpid(), "temporal")})
            async with httpx2.AsyncClient(base_url=json.loads(said)["url"], timeout=60) as http:

                async def play(number: int) -> None:
                    async with places:
                        for protocol, seconds in (await decide(http, f"{queue}-{number}")).items():
                            late[protocol].append(seconds * 1000)

                await asyncio.gather(*map(play, range(sessions)))
            meter.report()
    print(f"{sessions} decisions, {at_once} at once; each was seen, after it was answered, within")
    for protocol, times in late.items():
        assert len(times) == sessions
        figures = (
            f"median {median(times):.0f} ms, p95 {quantiles(times, n=20)[-1]:.0f} ms, at most "
            f"{max(times):.0f} ms"
        )
        print(f"  {protocol:8} {figures} (goal {GOAL_MILLISECONDS})", flush=True)


async def main(sessions: int, at_once: int) -> None:
    async with metered_server() as server:
        await measure(server, sessions, at_once)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        run(work(*sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=1)
    given = parser.parse_args()
    run(main(given.sessions, given.at_once))
