"""The page beside Temporal's UI and the command line: a long run in both, an operator's walk, the
decision on a phone, and a tab that stays open on a busy run: `python -m
benchmarks.bench_page_beside`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Mount, Route
from temporalio.client import Client

from perdure.client import start_run
from perdure.gateway.app import gateway_app
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.history.chain import read_links
from perdure.payloads.codec_server.app import serve
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest
from perdure.worker import create_worker
from tests.support.agents import scripted_agent
from tests.support.dev_server import server_in_memory

from .bench_page import HEAP, scrolled, shown_run

QUEUE = "page"
ROW = re.compile("Workflow (Execution|Task) (Completed|Continued|Started)")
"""The first row of a history in Temporal's UI, newest first."""
FAILS, LONG = 13, 99
DOWN = """() => {
  const all = [document.scrollingElement, ...document.querySelectorAll("main, main *")];
  for (const each of all.filter((each) => each.scrollHeight > each.clientHeight + 200).slice(0, 5))
    each.scrollTop = each.scrollHeight * STEP;
}"""
TOOLS: list[dict[str, Any]] = [
    {"name": "find", "kind": "function", "parameters": [{"name": "order", "kind": "integer"}]},
    {
        "name": "send_refund",
        "kind": "function",
        "parameters": [{"name": "euros", "kind": "integer", "required": True}],
        "perdure": {"approval": "always"},
    },
]


def replies(iterations: int) -> Callable[[ScriptedRequest], ScriptedReply]:
    """A model that waits for a person, fails in iteration 5, or calls a tool again and again."""

    def reply(request: ScriptedRequest) -> ScriptedReply:
        order = int(str(request.messages[0]).partition("Order ")[2][:2])
        look = asks(call("find", f"c{request.step}", order=order), text="I look.")
        if order == FAILS:
            return look if request.step < 4 else ScriptedReply(status=400)
        if order == LONG:
            return look if request.step < iterations else says("Done.")
        refund = asks(call("send_refund", "c0", euros=258), text="I refund all of it.")
        return says("Done.") if request.step else refund

    return reply


async def long_run(browser: Browser, client: Client, url: str, ui: str) -> dict[str, Any]:
    """The same run on the page and, its longest history, in Temporal's UI."""
    links = [(link.run_id, len(link.history)) async for link in read_links(client, "long")]
    figures: dict[str, Any] = {"history_events": sum(count for _, count in links)}
    page = await browser.new_page()
    figures["page"] = await shown_run(page, f"{url}/#/run/long")
    await page.close()
    run_id, count = max(links, key=lambda each: each[1])
    page = await browser.new_page()
    requests = [0]
    page.on("request", lambda request: requests.__setitem__(0, requests[0] + 1))
    began = time.monotonic()
    await page.goto(f"{ui}/namespaces/default/workflows/long/{run_id}/history")
    await page.get_by_text(ROW).first.wait_for()
    first = time.monotonic() - began
    await page.wait_for_load_state("networkidle")
    whole = time.monotonic() - began
    figures["temporal"] = {"events": count, "first_s": first, "whole_s": whole}
    figures["temporal"] |= {"scroll_ms": await scrolled(page, DOWN), "requests": requests[0]}
    figures["temporal"]["heap_mb"] = await page.evaluate(HEAP)
    await page.close()
    return figures


async def walk(browser: Browser, url: str, *, knows_keys: bool) -> dict[str, Any]:
    """Open the page, decide the longest wait, see why another run failed, start it again from
    iteration 3 with another model. Who does not know the page's keys clicks what it shows.
    """
    page, clicks, keys = await browser.new_page(), 1, 0
    began = time.monotonic()
    await page.goto(f"{url}/")
    waiting = page.get_by_role("link", name=re.compile("waiting for a person"))
    await waiting.wait_for()
    if knows_keys:
        await page.keyboard.press("w")
        await page.locator("#approve:enabled").wait_for()
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")
        keys += 3
    else:
        await waiting.click()
        await page.locator("#approve:enabled").click()
        clicks += 2
    await page.get_by_role("heading", name="Approved").wait_for()
    decided, run = time.monotonic() - began, page.url.split("/")[-3]
    await page.get_by_role("link", name="Runs", exact=True).click()
    failed = page.locator("a.run", has_text="fails")
    await failed.locator(".last.failed").wait_for()
    why = await failed.locator(".last").inner_text()
    understood = time.monotonic() - began
    await failed.click()
    await page.get_by_role("link", name="Fork before iteration").click()
    await page.locator("ol.fork").get_by_role("button", name="3", exact=True).click()
    await page.get_by_label("Model (empty for the same)").click()
    clicks += 5
    await page.keyboard.type("openai/other")
    keys += len("openai/other")
    await page.get_by_role("button", name="Start fork").click()
    clicks += 1
    await page.locator("aside code", has_text="openai/other").wait_for()
    seconds = {"decided_s": decided, "understood_s": understood, "all_s": time.monotonic() - began}
    await page.close()
    return {"run": run, "clicks": clicks, "keys": keys, "why": why[:120], **seconds}


async def on_a_phone(browser: Browser, url: str) -> float:
    """The seconds from the link of a notice to the decision, 390 px wide."""
    context = await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = await context.new_page()
    began = time.monotonic()
    await page.goto(f"{url}/#/run/waits-3/decide/c0")
    await page.locator("#approve:enabled").tap()
    await page.get_by_role("heading", name="Approved").wait_for()
    seconds = time.monotonic() - began
    await context.close()
    return seconds


async def by_commands(address: str) -> dict[str, Any]:
    """The same walk by the command line, with what its user has to type."""
    commands = (
        ("ls", "--waiting"),
        ("approve", "waits-4"),
        ("ls", "--status", "failed"),
        ("show", "fails"),
        ("fork", "fails", "--at", "3", "--model", "openai/other", "--detach"),
    )
    environment = {**os.environ, "TEMPORAL_ADDRESS": address}
    began, failures = time.monotonic(), []
    for each in commands:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("perdure")),
            *each,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        if process.returncode:
            failures.append(said.decode()[-300:])
    keys = sum(len("perdure " + " ".join(each)) + 1 for each in commands)
    seconds = time.monotonic() - began
    return {"commands": len(commands), "keys": keys, "all_s": seconds, "failures": failures}


async def in_temporal(browser: Browser, ui: str) -> dict[str, Any]:
    """In Temporal's UI: how long until the failure's cause is read."""
    page = await browser.new_page()
    began = time.monotonic()
    await page.goto(f"{ui}/namespaces/default/workflows")
    await page.get_by_role("link", name="fails", exact=True).first.click()
    await page.get_by_text("400").first.wait_for()
    seconds = time.monotonic() - began
    await page.close()
    return {"clicks_to_the_cause": 1, "understood_s": seconds}


def hour(iterations: int, progress: list[int]) -> Callable[[Request], Any]:
    """A run that writes 40 pieces of text and calls a tool in each iteration, as fast as it is
    read.
    """

    async def frames() -> AsyncIterator[str]:
        seq = 0

        def frame(type: str, data: dict[str, Any], call_id: str | None = None) -> str:
            event: dict[str, Any] = {"seq": seq, "type": type, "iteration": progress[0]}
            event |= {"position": str(seq), "time": 1.8e9 + seq / 11, "data": data}
            return f"event: {type}\ndata: {json.dumps({**event, 'call_id': call_id})}\n\n"

        usage = {"input_tokens": 900, "output_tokens": 40, "cached_input_tokens": 500}
        usage["total_tokens"] = 940
        for number in range(1, iterations + 1):
            progress[0], id = number, f"c{number}"
            parts: list[tuple[str, dict[str, Any], str | None]]
            parts = [("llm_start", {}, None), *[("token", {"token": "word "}, None)] * 40]
            parts += [("llm_complete", {"usage": usage, "text": "word " * 40}, None)]
            parts += [("tool_call_start", {"name": "find", "arguments": '{"order": 7}'}, id)]
            parts += [("tool_result", {"name": "find", "result": "A vase."}, id)]
            for part in parts:
                seq += 1
                yield frame(*part)
            await asyncio.sleep(0.02)
        await asyncio.sleep(3600)

    async def events(request: Request) -> StreamingResponse:
        return StreamingResponse(frames(), media_type="text/event-stream")

    return events


async def open_for_an_hour(browser: Browser, url: str, iterations: int, at: list[int]) -> Any:
    """Memory after a collection, at each quarter of the hour."""
    page = await browser.new_page()
    session = await page.context.new_cdp_session(page)
    await page.goto(f"{url}/#/run/busy")
    found = []
    for quarter in range(1, 5):
        while at[0] < iterations * quarter / 4:
            await asyncio.sleep(0.1)
        await page.wait_for_timeout(3000)
        await session.send("HeapProfiler.collectGarbage")
        nodes = await page.evaluate("document.querySelectorAll('*').length")
        heap = await page.evaluate(HEAP)
        found.append({"iterations": at[0], "heap_mb": heap, "elements": nodes})
    await page.close()
    return found


@asynccontextmanager
async def everything(given: argparse.Namespace) -> AsyncIterator[tuple[Any, ...]]:
    """A server with its UI, a worker, a gateway and a browser."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(server_in_memory(ui=True, ui_port=port))
        model = stack.enter_context(ScriptedModel(replies(given.iterations)))
        inputs = [{"name": "order", "kind": "integer"}]
        agent = scripted_agent(model, TOOLS, instructions="user:\nOrder {{order}}", inputs=inputs)
        tools = {"find": lambda order: "A vase.", "send_refund": lambda euros: "refunded"}
        worker = create_worker(server.client, task_queue=QUEUE, tools=tools)
        await stack.enter_async_context(worker)
        offers = {"tested": OfferedAgent("tested", agent, Path("a"))}
        app, progress = gateway_app(Gateway(server.client, offers, QUEUE)), [0]
        busy = Route("/perdure/runs/busy/events", hour(given.hour, progress))
        both = Starlette(routes=[busy, Mount("/", app)])
        url = await stack.enter_async_context(serve(both, "127.0.0.1", 0))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=given.chromium, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        yield server.client, agent, url.rstrip("/"), f"http://127.0.0.1:{port}", browser, progress
        await browser.close()


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    figures: dict[str, Any] = {"load": os.getloadavg()[0]}
    async with everything(given) as (client, agent, url, ui, browser, progress):
        waits = [(f"waits-{number}", 20 + number) for number in range(1, 5)]
        for id, order in (*waits, ("fails", FAILS)):
            run = await start_run(client, agent, {"order": order}, task_queue=QUEUE, id=id)
            async for event in run.stream():
                if event.type == "permission_requested":
                    break  # so that the longest wait is known
        for name, part in (
            ("walk", lambda: walk(browser, url, knows_keys=True)),
            ("walk_unknowing", lambda: walk(browser, url, knows_keys=False)),
            ("phone_s", lambda: on_a_phone(browser, url)),
            ("commands", lambda: by_commands(client.service_client.config.target_host)),
            ("walk_in_temporal", lambda: in_temporal(browser, ui)),
            ("hour", lambda: open_for_an_hour(browser, url, given.hour, progress)),
        ):
            if name == "hour" and not given.hour:
                continue
            figures[name] = await part()
            print(json.dumps({name: figures[name]}), flush=True)
        if not given.iterations:
            return figures
        options = {"max_iterations": given.iterations + 1}
        long: dict[str, Any] = {"task_queue": QUEUE, "id": "long", "options": options}
        await (await start_run(client, agent, {"order": LONG}, **long)).result()
        figures["long_run"] = await long_run(browser, client, url, ui)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=1000, help="0: no long run")
    parser.add_argument("--hour", type=int, default=900, help="0: no tab that stays open")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=1))
