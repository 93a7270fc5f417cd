"""What a person sees of a run in Temporal's own UI, in a browser: encrypted, and decoded by the
codec server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest
from temporalio.client import Client

from perdure.payloads.codec_server.app import codec_app, serve
from perdure.payloads.converter import data_converter
from perdure.payloads.encryption.keys import new_key
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.dev_server import free_port, server_in_memory
from ..support.stage import Stage
from ..support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.async_api import FrameLocator, Page

Scripted = Callable[[Script], ScriptedModel]
KEY = new_key("ui")
HOSTILE = (
    "`x` | <img src=http://127.0.0.1:9/seen.png onerror=alert(1)> "
    "![i](http://127.0.0.1:9/i.png)\n\n# <b>loud</b>"
)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def look(at: str) -> str:
    """Look."""
    if at == "sun":
        raise ValueError("too bright")
    return "a blue sky"


@pytest.fixture(scope="module")
async def ui() -> AsyncIterator[tuple[Client, str]]:
    """A server whose UI asks a codec server, an encrypting client of it, and where its UI shows
    runs.
    """
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    codec = codec_app(data_converter(encryption=KEY), ui_origins=[origin])
    async with (
        serve(codec, "127.0.0.1", 0) as endpoint,
        server_in_memory(
            data_converter=data_converter(encryption=KEY),
            arguments=("--ui-codec-endpoint", endpoint),
            ui=True,
            ui_port=port,
        ) as server,
    ):
        yield server.client, f"{origin}/namespaces/default/workflows"


def details(page: Page) -> FrameLocator:
    """The frame in which the UI renders current details."""
    return page.frame_locator("#user-metadata-current-details")


async def open_run(page: Page, ui: tuple[Client, str], run_id: str, view: str) -> None:
    client, url = ui
    described = await client.get_workflow_handle(run_id).describe()
    await page.goto(f"{url}/{run_id}/{described.run_id}/{view}")


async def test_an_encrypted_run_that_waits(
    ui: tuple[Client, str], page: Page, scripted: Scripted
) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    stage = Stage(ui[0], "ui-waiting")
    replies: list[ScriptedReply] = [
        asks(
            call("look", at="sky"),
            call("look", "second", at="sun"),
            call("look", "third", at=HOSTILE),
        ),
        asks(call("pay", amount=7)),
        says("done"),
    ]
    paying = {"name": "pay", "kind": "function", "perdure": {"approval": "always"}}
    async with stage.worker({"look": look, "pay": pay}):
        run = await stage.start(
            scripted_agent(scripted(replies), [{"name": "look", "kind": "function"}, paying])
        )

        async def waits() -> bool:
            return bool((await run.status()).pending_approvals)

        await wait_for(waits)
        await open_run(page, ui, run.id, "user-metadata")
        shown = details(page)
        await shown.get_by_text(f"perdure approve {run.id} call_pay").wait_for()
        lines = await shown.locator("body").inner_text()
        for text in (
            "look(at='sky')",
            "look(at='sun')",
            "pay(amount=7)",
            "waits for approval",
        ):
            assert text in lines
        assert "img src=" in lines, "what the model wrote is shown, and is no HTML"
        assert await shown.locator("img, iframe, h1, b").count() == 0
        await page.get_by_role("tab", name="Event History").click()
        history = page.locator("#content")
        await history.get_by_text("look(at='sky')").first.wait_for()
        await history.get_by_text('"tested"').first.wait_for()
        await history.get_by_text("tokens so far").first.wait_for()
        await run.approve("call_pay")
        assert (await run.result()).output == "done"
    assert not [url for url in requested if ":9/" in url.partition("?")[0]]
