"""The page in a browser: what an operator does with runs, workers and schedules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.prompty.load import load
from perdure.testing import asks, call, says

from ..support.families import calls, family_script, write_agent
from ..support.pages import ASKS, PAY, Opened, Scripted, send_refund, start
from .conftest import Serve

if TYPE_CHECKING:
    from playwright.async_api import Page


async def test_a_run_is_paused_and_goes_on_and_a_held_one_with_a_higher_limit(
    opened: Opened, page: Page
) -> None:
    question = asks(call("ask_user", "c1", question="Which one?", choices=["Oak", "Elm"]))
    agent = {"metadata": {"perdure": {"onFailure": "hold", "maxIterations": 2}}}
    async with opened([question, ASKS, says("Done.")], agent=agent) as (_, served):
        await start(served, "paused")
        await page.goto(f"{served.url}/#/run/paused")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await page.get_by_role("button", name="Pausing").wait_for()
        await page.get_by_label("Elm").check()
        await page.get_by_role("button", name="Answer: Elm").click()
        held = page.get_by_label("The run is held")
        await held.get_by_role("heading", name="Paused").wait_for()
        await held.get_by_role("button", name="Go on").click()
        await page.get_by_role("button", name="Approve", exact=True).click()
        await held.get_by_role("heading", name="A limit is reached").wait_for()
        await held.get_by_text("2 now").wait_for()
        await held.get_by_role("button", name="Go on").click()
        await held.get_by_text("Raise the limit that is reached.").wait_for()
        await held.get_by_label("Iterations").fill("5")
        await held.get_by_text("Other limits or another model").click()
        await held.get_by_label("Model").fill("openai/other")
        await held.get_by_role("button", name="Go on").click()
        await page.get_by_role("heading", name="Answer").wait_for()
        noted = page.get_by_text(re.compile("anybody let it go on with max_iterations 5"))
        assert "openai/other" in await noted.inner_text()


async def test_called_agents_stand_in_their_call_and_are_decided_from_there(
    scripted: Scripted, serve_agents: Serve, page: Page, tmp_path: Path
) -> None:
    asked = [call("reader", f"r{n}") for n in range(4)]
    reader = [asks(call("send_refund", "p1", euros=3), text="I need money."), says("I have read.")]
    model = scripted(
        family_script({"lead": [asks(*asked), says("All is read.")], "reader": reader})
    )
    write_agent(tmp_path, "reader.prompty", model, tools=[PAY], prompt="user:\nRead")
    limits = {"perdure": {"maxTotalTokens": 9000, "parallelToolCalls": True}}
    tools, prompt = [calls("reader.prompty")], "user:\nRead it all."
    lead = write_agent(tmp_path, "lead.prompty", model, tools=tools, prompt=prompt, metadata=limits)
    async with serve_agents(load(lead), tools={"send_refund": send_refund}) as served:
        async with served.asking() as http:
            await http.post("/runs", json={"agent": "lead", "id": "family"})
        await page.goto(f"{served.url}/#/run/family")
        await page.get_by_text(re.compile("of 9.0k")).wait_for()
        row = page.locator(".called").first
        await row.get_by_text("Send refund waits").wait_for()
        await row.get_by_role("button", name="Open here").click()
        await row.get_by_text("I need money.").wait_for()
        await page.locator(".called").nth(3).get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Cancel this agent").click()
        for number in range(3):
            await page.locator(".called").nth(number).get_by_role("link", name="Review").click()
            await page.get_by_role("button", name="Approve", exact=True).click()
            await page.get_by_role("heading", name="Approved").wait_for()
            await page.goto(f"{served.url}/#/run/family")
        await page.get_by_text("All is read.").wait_for()
        assert "I have read." in await row.inner_text()
