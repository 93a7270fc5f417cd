"""The pictures of the page in docs/ and in the README: `PERDURE_PICTURES=docs/images` renews
them.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from perdure.cli.serve import examine
from perdure.cli.server_connection import ServerConnection
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.pages import PAY, send_refund
from .conftest import Serve

if TYPE_CHECKING:
    from playwright.async_api import Page

MAX_BYTES = 150_000
RUN = "#/run/refund-88213"
SCREENS = {
    "runs": ("#/", "longest first"),
    "run": (RUN, "of 20.0k"),
    "decision": (f"{RUN}/decide/c3", "Send refund?"),
    "fork": (f"{RUN}/fork/2", "left out of the fork"),
    "compare": (f"{RUN}/compare/refund-88213", "No difference"),
    "start": ("#/start/refunds", "Start Refunds"),
    "operate": ("#/operate", "Totals"),
    "sessions": ("#/sessions", "Sessions"),
}
"""Addresses, and a text that is there when each is drawn."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SHOWN = ("runs", "fork", "operate")
"""The screens in docs/ beside the run and the decision."""
ORDER = '{"order": 88213, "items": [{"name": "vase", "price": 129.0, "count": 3}]}'
MAIL = "Two of the three vases arrived broken. Please send my money back."
WORDS = "Two of the three vases arrived broken. They cost 129.00 each, so I refund **258.00**."


@pytest.mark.trial
async def test_pictures_of_a_real_run(
    scripted: Scripted, serve_agents: Serve, page: Page, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("PERDURE_PICTURES") or tmp_path)
    one = [{"name": "order", "kind": "integer", "required": True}]
    found = [{"name": name, "kind": "function", "parameters": one} for name in ("find", "mails")]
    script = [
        asks(call("find", "c1", order=88213), call("mails", "c2", order=88213)).model_copy(
            update={"text": "I look at the order, and at the customer's mails.", "delay": 1.0}
        ),
        asks(call("send_refund", "c3", euros=258, note="Two vases arrived broken."), text=WORDS),
        says("Done."),
    ]
    agent = scripted_agent(
        scripted(script),
        [PAY, *found],
        description="Refunds customers.",
        instructions="user:\nCustomer 4417 asks for a refund of order 88213.",
        metadata={"perdure": {"maxTotalTokens": 20000}},
    )
    agent.name = "refunds"
    tools = {"send_refund": send_refund, "find": lambda order: ORDER, "mails": lambda order: MAIL}
    async with serve_agents(agent, tools=tools) as served, served.asking() as http:
        client, queue = served.gateway.client, served.gateway.task_queue
        served.gateway.examine = partial(examine, ServerConnection(client, None), queue)
        await http.post("/runs", json={"agent": "refunds", "id": "refund-88213"})
        await page.set_viewport_size({"width": 1280, "height": 1160})
        await page.goto(f"{served.url}/#/run/refund-88213")
        await page.locator("#approve:enabled").wait_for()
        await page.get_by_text("of 20.0k").wait_for()
        await page.get_by_text("1 waiting for a person").wait_for()
        await page.mouse.move(5, 500)
        await page.locator("h1").scroll_into_view_if_needed()
        await page.screenshot(path=folder / "page-run.png")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.emulate_media(color_scheme="dark")
        await page.goto(f"{served.url}/#/run/refund-88213/decide/c3")
        await page.locator("#approve:enabled").wait_for()
        await page.screenshot(path=folder / "page-decision.png")
        for name, (place, text) in SCREENS.items():
            for width, scheme in product((1280, 390), SCHEMES):
                await page.emulate_media(color_scheme=scheme)
                await page.set_viewport_size({"width": width, "height": 900})
                await page.goto(f"{served.url}/{place}")
                await page.get_by_text(text).first.wait_for()
                await page.wait_for_timeout(1500)
                is_shown = name in SHOWN and (width, scheme) == (1280, "light")
                file = f"page-{name}.png" if is_shown else f"{name}-{width}-{scheme}.png"
                await page.screenshot(path=(folder if is_shown else tmp_path) / file)
        await http.post("/runs/refund-88213/cancel", json={})
    for name in (*(f"page-{each}.png" for each in SHOWN), "page-run.png", "page-decision.png"):
        assert 10_000 < (folder / name).stat().st_size < MAX_BYTES
