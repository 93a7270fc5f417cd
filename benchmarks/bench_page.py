"""The page in Chromium: what its first load takes, a long list, a long run, and what open pages
cost the server: `python -m benchmarks.bench_page`.

The events of the long run are made here and given to the page as a gateway would; all else is a
real gateway with a worker on a server in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, Route, async_playwright
from temporalio.client import Client, Interceptor, OutboundInterceptor

from perdure.client import start_run
from perdure.gateway.app import gateway_app
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.payloads.codec_server.app import serve
from perdure.testing import ScriptedModel, says
from perdure.worker import create_worker
from tests.support.agents import scripted_agent
from tests.support.dev_server import server_in_memory

OPEN_SECONDS = 20.0
LOADED = """() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter((each) => !each.name.includes("/perdure/")).reduce((sum, each) => sum + each.transferSize, 0)"""  # noqa: E501
HEAP = "() => performance.memory.usedJSHeapSize / 1e6"
FRAME = "() => new Promise(requestAnimationFrame)"
WINDOW = """() => {
  const each = document.querySelector(".window");
  each.scrollTop = each.scrollHeight * STEP;
}"""


class Counting(Interceptor):
    """Counts the requests of a client to Temporal."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """Count what passes."""
        counts = self.counts

        class Outbound(OutboundInterceptor):
            def list_workflows(self, input: Any) -> Any:
                counts["list"] += 1
                return super().list_workflows(input)

            async def count_workflows(self, input: Any) -> Any:
                counts["count"] += 1
                return await super().count_workflows(input)

            async def describe_workflow(self, input: Any) -> Any:
                counts["describe"] += 1
                return await super().describe_workflow(input)

            async def query_workflow(self, input: Any) -> Any:
                counts["query"] += 1
                return await super().query_workflow(input)

        return Outbound(next)


def long_run(iterations: int) -> str:
    """The events of a run with four events in each iteration, as a stream."""
    frames, seq = [], 0
    usage = {"input_tokens": 900, "output_tokens": 30, "cached_input_tokens": 500}
    for number in range(1, iterations + 1):
        told: list[tuple[str, dict[str, Any], str | None]] = [
            ("llm_start", {}, None),
            ("llm_complete", {"usage": {**usage, "total_tokens": 930}, "text": "I look."}, None),
            ("tool_call_start", {"name": "find", "arguments": '{"order": 7}'}, f"c{number}"),
            ("tool_result", {"name": "find", "result": "A vase, 129.00."}, f"c{number}"),
        ]
        for type, data, call_id in told:
            seq += 1
            event = {"seq": seq, "type": type, "iteration": number, "position": str(seq)}
            event |= {"time": 1.8e9 + seq, "data": data, "call_id": call_id}
            frames.append(f"id: {seq}\nevent: {type}\ndata: {json.dumps(event)}\n\n")
    end = {"seq": seq + 1, "type": "done", "iteration": iterations, "position": str(seq + 1)}
    end |= {"time": 1.8e9 + seq, "data": {"response": "Done."}}
    return "".join([*frames, f"id: {seq + 1}\nevent: done\ndata: {json.dumps(end)}\n\n"])


async def scrolled(page: Page, expression: str) -> float:
    """The milliseconds of one of 20 steps of scrolling."""
    began = time.monotonic()
    for step in range(20):
        await page.evaluate(expression.replace("STEP", str(step / 20)))
        await page.evaluate(FRAME)
    return 1000 * (time.monotonic() - began) / 20


async def shown_run(page: Page, address: str) -> dict[str, float]:
    """The seconds until a run's first iteration and its answer are there; then its events."""
    began = time.monotonic()
    await page.goto(address)
    await page.locator(".iteration").first.wait_for()
    first = time.monotonic() - began
    await page.get_by_role("heading", name="Answer").wait_for()
    whole = time.monotonic() - began
    await page.get_by_role("tab", name="Events").click()
    step = await scrolled(page, WINDOW)
    heap = await page.evaluate(HEAP)
    return {"first_s": first, "whole_s": whole, "scroll_ms": step, "heap_mb": heap}


async def measured_run(page: Page, url: str, id: str, events: int) -> dict[str, float]:
    """Open a run of so many events."""
    stream = long_run(events // 4)

    async def answer(route: Route) -> None:
        await route.fulfill(content_type="text/event-stream", body=stream)

    await page.route(f"**/runs/{id}/events**", answer)
    return await shown_run(page, f"{url}/#/run/{id}")


async def open_pages(browser: Browser, url: str, count: int, counting: Counting) -> Counter[str]:
    """The requests to Temporal while so many pages show the list."""
    contexts = [await browser.new_context() for _ in range(count)]
    for context in contexts:
        await (await context.new_page()).goto(f"{url}/")
    await asyncio.sleep(5.0)
    counting.counts.clear()
    await asyncio.sleep(OPEN_SECONDS)
    found = Counter(counting.counts)
    for context in contexts:
        await context.close()
    return found


async def started_runs(client: Client, agent: Any, count: int) -> None:
    """Start so many runs, fifty at a time, and await them."""
    for first in range(0, count, 50):
        ids = range(first, min(first + 50, count))
        runs = [
            await start_run(client, agent, {"order": n}, task_queue="page", id=f"run-{n}")
            for n in ids
        ]
        await asyncio.gather(*(each.result() for each in runs))


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    figures: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(server_in_memory())
        counting = Counting()
        settings: dict[str, Any] = {**server.client.config(), "interceptors": [counting]}
        client = Client(**settings)
        model = stack.enter_context(ScriptedModel(lambda request: says("Done.")))
        inputs = [{"name": "order", "kind": "integer"}]
        agent = scripted_agent(model, instructions="user:\nOrder {{order}}", inputs=inputs)
        gateway = Gateway(client, {"tested": OfferedAgent("tested", agent, Path("a"))}, "page")
        await stack.enter_async_context(create_worker(server.client, task_queue="page"))
        await started_runs(server.client, agent, given.runs)
        url = await stack.enter_async_context(serve(gateway_app(gateway), "127.0.0.1", 0))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=given.chromium, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        page = await browser.new_page()
        began = time.monotonic()
        await page.goto(f"{url}/")
        await page.locator("a.run").first.wait_for()
        figures["first_row_s"] = time.monotonic() - began
        figures["first_load_bytes"] = await page.evaluate(LOADED)
        began = time.monotonic()
        rows = page.locator("a.run")
        for shown in (200, 400, 800, 1000):
            if await rows.count() < min(given.runs, 1000):
                await page.get_by_role("button", name="Show more").click()
                await rows.nth(min(shown, given.runs) - 1).wait_for(state="attached")
        figures["listed"] = await rows.count()
        figures["listed_s"] = time.monotonic() - began
        figures["list_heap_mb"] = await page.evaluate(HEAP)
        figures["events"] = await measured_run(page, url, "run-0", given.events)
        await page.close()
        for count in (1, given.pages):
            figures[f"pages_{count}"] = dict(await open_pages(browser, url, count, counting))
        await browser.close()
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(given)), indent=1))
