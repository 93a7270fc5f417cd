"""Many calls at once where the server takes few requests a second: whether any of them is made
twice, and all end.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
import uuid
from collections import Counter

from temporalio.service import RPCError

from benchmarks.bench_actions import CLOUD, agent_of, metered_server
from benchmarks.stage import run
from perdure import Message, RunOptions
from perdure.activities.pollers import quota_of
from perdure.client import connect, start_run
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call
from perdure.worker import create_worker


async def main(runs: int, calls: int, rate: int, seconds: float) -> None:
    logging.basicConfig(level=logging.WARNING, format="  log %(asctime)s: %(message).200s")
    executed: Counter[str] = Counter()

    async def wait(which: str) -> str:
        """Wait."""
        executed[which] += 1
        await asyncio.sleep(seconds)
        return which

    def script(request: ScriptedRequest) -> ScriptedReply:
        if request.step:
            return ScriptedReply(text="done", delay=seconds)
        run = request.messages[0].text
        asked = [
            call("wait", f"call_{number}", which=f"{run}, call {number}") for number in range(calls)
        ]
        return asks(*asked).model_copy(update={"delay": seconds})

    async with metered_server(f"frontend.namespaceRPS={rate}") as server:
        client, queue = await connect(server.address), f"bench-{uuid.uuid4()}"
        with ScriptedModel(script) as model:
            agent = agent_of(model, parameters=[{"name": "which", "kind": "string"}])
            async with create_worker(
                client, task_queue=queue, tools={"wait": wait}, max_concurrent_activities=1000
            ):
                began = time.monotonic()
                options = RunOptions(
                    parallel_tool_calls=True,
                    tool_timeout=10 * seconds,
                    max_parallel_tools=calls,
                    **CLOUD,
                )

                async def one(number: int) -> str:
                    while True:
                        try:
                            handle = await start_run(
                                client,
                                agent,
                                messages=[Message.user(f"run {number}")],
                                task_queue=queue,
                                options=options,
                            )
                            break
                        except RPCError as error:
                            if not quota_of(error):
                                raise
                            await asyncio.sleep(1)
                    return str((await handle.result()).output)

                ends = await asyncio.gather(*map(one, range(runs)), return_exceptions=True)
                took, refused = time.monotonic() - began, await server.refusals()
    asked = Counter((each.messages[0].text, each.step) for each in model.requests)
    failed = Counter(repr(end)[:150] for end in ends if end != "done")
    print(
        f"{runs} runs, each with {calls} calls at once, all of {seconds:g} s; {rate} requests a "
        f"second: {took:.0f} s"
    )
    print(f"  requests that the server has refused: {refused}")
    print(
        f"  tools executed: {executed.total()}, of them again: {executed.total() - len(executed)}"
    )
    print(f"  model calls: {asked.total()}, of them again: {asked.total() - len(asked)}")
    print(f"  runs that did not end well: {failed.total()} {dict(failed) or ''}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--calls", type=int, default=50, help="that each run makes at once")
    parser.add_argument(
        "--rate", type=int, default=100, help="requests a second that the namespace may make"
    )
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="that a model call and a tool take"
    )
    given = parser.parse_args()
    run(main(given.runs, given.calls, given.rate, given.seconds))
