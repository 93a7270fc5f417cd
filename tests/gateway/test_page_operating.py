"""The page in a browser: what an operator does with runs, workers and schedules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.testing import asks, call, says

from ..support.pages import ASKS, Opened, start

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
