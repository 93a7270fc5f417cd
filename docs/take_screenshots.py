"""Takes the pictures of docs/operations/temporal-ui.md: `python docs/take_screenshots.py [FOLDER]`, with
Chromium and playwright.

Three runs of one agent, a running, a waiting and a finished one, on an embedded server of their
own, by a scripted model. The browser is Debian's (`apt-get install chromium`).
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, async_playwright

from perdure.client import RunHandle, start_run
from perdure.client.embedded.server import LocalServer
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import tool
from perdure.worker import create_worker

IMAGES = Path(__file__).with_name("images")
QUESTION = "Order 10248 has not arrived. Where is it? If it is lost, I want my money back."

DESK = """\
---
name: help-desk
description: Answers customers of a shop, and pays them back where the rules say so.
model: {{id: gpt-4o, provider: openai, connection: {{kind: key, endpoint: "{endpoint}"}}}}
inputs: [{{name: question, kind: string}}]
tools:
  - {{name: find_order, kind: function, parameters: [{{name: number, kind: integer}}]}}
  - {{name: track_parcel, kind: function, parameters: [{{name: code, kind: string}}]}}
  - {{name: refund, kind: function, parameters: [{{name: order, kind: integer}}, {{name: euros, kind: float}}]}}
  - {{name: write_reply, kind: prompty, path: reply-writer.prompty, mode: single}}
---
system:
You help the customers of a shop.

user:
{{{{question}}}}
"""
WRITER = """\
---
name: reply-writer
model: {{id: gpt-4o-mini, provider: openai, connection: {{kind: key, endpoint: "{endpoint}"}}}}
inputs: [{{name: notes, kind: string}}]
---
system:
You write short, friendly letters.

user:
{{{{notes}}}}
"""
NOTES = "Parcel 1Z-5523 is lost. 24.90 euros were paid back today."
STEPS = [
    asks(
        call("find_order", "call_1", number=10248),
        call("track_parcel", "call_2", code="1Z-5523"),
        text="I look at the order and at its parcel.",
        input_tokens=612,
        output_tokens=58,
    ),
    asks(call("track_parcel", "call_3", code="1Z-5523"), input_tokens=804, output_tokens=24),
    asks(call("refund", "call_4", order=10248, euros=24.9), input_tokens=911, output_tokens=31),
    asks(call("write_reply", "call_5", notes=NOTES), input_tokens=987, output_tokens=40),
    says(
        "Your parcel is lost. I am sorry! 24.90 euros are on their way.",
        input_tokens=1102,
        output_tokens=47,
    ),
]


@tool
def find_order(number: int) -> dict[str, object]:
    """One order, with what was paid for it."""
    return {"number": number, "paid": 24.9, "parcel": "1Z-5523"}


class Carrier:
    """Its service is down the first time that a run asks."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def track_parcel(self, code: str) -> str:
        """Where a parcel is."""
        if code not in self._asked:
            self._asked.add(code)
            raise TimeoutError("the carrier does not answer")
        self._asked.remove(code)
        return "lost"


@tool(needs_approval=True)
def refund(order: int, euros: float) -> str:
    """Pay an amount back."""
    return f"{euros} euros paid back"


def reply(request: ScriptedRequest) -> ScriptedReply:
    """Return what both agents' model says."""
    if request.body["model"] == "gpt-4o-mini":
        text = "Dear customer, your parcel is lost, and we have paid 24.90 euros back. Kind regards"
        return says(text, input_tokens=73, output_tokens=29)
    return STEPS[request.step]


class Shop:
    """The agents' files, and a server and a worker for their runs."""

    def __init__(self, server: LocalServer, folder: Path, queue: str) -> None:
        self.server, self.file, self.queue = server, folder / "help-desk.prompty", queue

    async def start(self, id: str) -> RunHandle:
        """Start a run of the help desk."""
        client = await self.server.connect()
        return await start_run(
            client, self.file, {"question": QUESTION}, id=id, task_queue=self.queue
        )

    async def finished(self, id: str) -> RunHandle:
        """A run that has ended."""
        run = await self.waiting(id)
        await run.approve("call_4", by="anna")
        await run.result()
        return run

    async def waiting(self, id: str) -> RunHandle:
        """A run that waits for a person."""
        run = await self.start(id)
        while not (await run.status()).pending_approvals:
            await asyncio.sleep(0.1)
        return run


@asynccontextmanager
async def open_shop() -> AsyncIterator[Shop]:
    """A server with Temporal's UI, and a worker, that end with the block."""
    folder = Path(tempfile.mkdtemp())
    try:
        with ScriptedModel(reply) as model:
            for name, text in {"help-desk": DESK, "reply-writer": WRITER}.items():
                (folder / f"{name}.prompty").write_text(text.format(endpoint=model.openai_endpoint))
            async with LocalServer(folder / "server") as server:
                worker = create_worker(
                    await server.connect(),
                    task_queue="help",
                    tools={
                        "find_order": find_order,
                        "track_parcel": Carrier().track_parcel,
                        "refund": refund,
                    },
                    prompt_root=folder,
                )
                async with worker:
                    yield Shop(server, folder, "help")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def picture(
    page: Page, url: str, file: Path, *, expected: str, frame: str | None = None
) -> None:
    """Open a page of the UI, wait until it shows the text, and write what is on it, without the
    margins, to a file.
    """
    await page.goto(url)
    shown = page.frame_locator(f"#{frame}").locator("body") if frame else page.locator("#content")
    await shown.get_by_text(expected).first.wait_for(timeout=60_000)
    await asyncio.sleep(1.0)  # for fonts, and for what slides in
    file.parent.mkdir(parents=True, exist_ok=True)
    await page.locator("#content").screenshot(path=file)


async def main(folder: Path) -> None:
    """Write all pictures into the folder."""
    async with open_shop() as shop, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = await browser.new_page(viewport={"width": 1500, "height": 1210})
        details = "user-metadata-current-details"
        finished = await shop.finished("order-10248")
        url = await ui_url(shop, finished, "timeline")
        await picture(page, url, folder / "finished-timeline.png", expected="refund")
        await page.set_viewport_size({"width": 1500, "height": 1000})
        waiting = await shop.waiting("order-10249")
        url = await ui_url(shop, waiting, "user-metadata")
        await picture(
            page, url, folder / "waiting.png", expected="waits for approval", frame=details
        )
        await browser.close()
        await waiting.cancel()


async def ui_url(shop: Shop, run: RunHandle, view: str) -> str:
    """Where the UI shows the run."""
    described = await (await shop.server.connect()).get_workflow_handle(run.id).describe()
    return f"{shop.server.ui_url}/namespaces/default/workflows/{run.id}/{described.run_id}/{view}"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if sys.argv[1:] else IMAGES))
