"""The page in a browser: what an operator does with runs, workers and schedules."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from temporalio.client import Client

from perdure.cli.serve import examine
from perdure.cli.server_connection import ServerConnection
from perdure.client import RunHandle, start_run
from perdure.client.schedules import create_schedule, delete_schedule
from perdure.gateway.identity import TokenFile
from perdure.payloads.converter import data_converter
from perdure.prompty.load import load
from perdure.testing import ScriptedReply, asks, call, says
from perdure.worker import create_worker

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import Waits, token
from ..support.browser import PATIENCE
from ..support.families import calls, family_script, write_agent
from ..support.pages import ASKS, PAY, Opened, send_refund, start, waits
from ..support.stage import FEW_POLLS, Stage
from ..support.waiting import wait_for
from .conftest import Serve

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page


KEY = f"k1:{'A' * 43}="
pytestmark = pytest.mark.usefixtures("no_pause_stays")


async def test_a_run_is_paused_and_goes_on_and_a_held_one_with_a_higher_limit(
    opened: Opened, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    async def is_known_to_the_worker() -> bool:
        return "A pause begins: run 'paused'" in caplog.text

    question = asks(call("ask_user", "c1", question="Which one?", choices=["Oak", "Elm"]))
    agent = {"metadata": {"perdure": {"onFailure": "hold", "maxIterations": 2}}}
    async with opened([question, ASKS, says("Done.")], agent=agent) as (_, served):
        await start(served, "paused")
        await page.goto(f"{served.url}/#/run/paused")
        await page.get_by_label("Elm").wait_for()
        await page.get_by_role("button", name="Pause", exact=True).click()
        await page.get_by_role("button", name="Pausing").wait_for()
        await wait_for(is_known_to_the_worker)
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
        row = page.locator(".called").first
        refused = {"status": 409, "json": {"kind": "approval_stale", "detail": "It has changed."}}
        await page.route("**/approve", lambda route: route.fulfill(**refused), times=1)
        await row.get_by_role("link", name="Review").click()
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_role("heading", name="Your answer was not used").wait_for()
        await page.goto(f"{served.url}/#/run/family")
        await row.get_by_role("alert").get_by_text("not used. It has changed.").wait_for()
        for number in range(3):
            await page.locator(".called").nth(number).get_by_role("link", name="Review").click()
            await page.get_by_role("button", name="Approve", exact=True).click()
            await page.get_by_role("heading", name="Approved").wait_for()
            await page.goto(f"{served.url}/#/run/family")
        await page.get_by_text("All is read.").wait_for()
        await row.get_by_text("I have read.").wait_for()


async def test_an_operator_sees_findings_and_workers_and_releases_what_is_held(
    opened: Opened, page: Page
) -> None:
    agent = {"metadata": {"perdure": {"onFailure": "hold"}}}
    async with opened(lambda request: ScriptedReply(status=401), agent=agent) as (_, served):
        client, queue = served.gateway.client, served.gateway.task_queue
        served.gateway.examine = partial(examine, ServerConnection(client, None), queue)
        offered = served.gateway.offers["tested"].agent
        await create_schedule(
            client, queue, offered, {"order": 7}, every=86400, paused=True, task_queue=queue
        )
        await start(served, "stuck")
        await page.goto(f"{served.url}/#/operate")
        worker = page.locator(".card", has_text=queue)
        await worker.get_by_text("send_refund").wait_for()
        held = page.get_by_label("Held runs").locator("li", has_text="stuck")
        await held.scroll_into_view_if_needed()  # other tests' queues stand above it
        await held.get_by_text("401").wait_for()
        await held.get_by_role("button", name="Go on").click()
        schedule = page.get_by_label("Schedules").locator("li", has_text=queue)
        await schedule.get_by_role("button", name="Run now").click()
        await schedule.get_by_text("1 run started").wait_for()
        await schedule.get_by_role("button", name="Resume").click()
        await schedule.get_by_role("button", name="Pause").click()
        await schedule.get_by_text("paused").wait_for()
        await page.get_by_label("Agent to pause").fill(queue)
        await page.get_by_label("Reason for the pause").fill("stock-taking")
        await page.get_by_role("button", name="Pause…").click()
        await page.get_by_role("button", name="Pause them").click()
        pause = page.get_by_label("Pauses").locator("li", has_text=queue)
        await pause.get_by_text("stock-taking").wait_for()
        await pause.get_by_role("button", name="Release").click()
        await pause.wait_for(state="detached")
        await page.get_by_role("img", name=re.compile("Runs by day.*[0-9] failed")).wait_for()
        assert await page.get_by_role("cell", name="tested").count() == 1
        await delete_schedule(client, queue)


async def test_operators_are_those_of_no_tenant(
    serve_agents: Serve, scripted: Scripted, tokens: TokenFile
) -> None:
    async with (
        serve_agents(scripted_agent(scripted([])), known=[tokens]) as served,
        served.asking("token-of-ann-at-acme") as ann,
        served.asking("token-of-the-operator") as olga,
    ):
        for path in ("pauses", "schedules", "doctor"):
            refused = await ann.get(f"/{path}", headers={"Cache-Control": "max-age=3"})
            assert (refused.status_code, refused.json()["kind"]) == (403, "not_operator")
        for path in ("pauses", "pauses/any/release", "schedules/any/run"):
            assert (await ann.post(f"/{path}", json={})).status_code == 403
        long = {"agent": "tested", "reason": "x" * 2001}
        for scope in ({}, {"agent": "tested", "all": True}, long):
            assert (await olga.post("/pauses", json=scope)).status_code == 422
        assert (await olga.get("/pauses")).json() == []
        assert (await olga.get("/schedules")).status_code == 200
        assert (await olga.get("/doctor")).json()["kind"] == "no_doctor"
        for path in ("schedules/none/run", "schedules/none/burn"):
            assert (await olga.post(f"/{path}", json={})).status_code == 404


async def test_two_decide_and_those_who_may_not_read_why(browser: Browser, waits: Waits) -> None:
    pages: dict[str, Page] = {}
    for who in ("carl", "ann", "fay", "gus"):
        context = await browser.new_context(viewport={"width": 390, "height": 800})
        context.set_default_timeout(PATIENCE)
        pages[who] = page = await context.new_page()
        call_id = waits.pending.call_id
        await page.goto(f"{waits.served.url}/#/run/{waits.run}/decide/{call_id}")
        await page.get_by_label("Bearer token").fill(token(who))
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_text("0 of 2 approvals").wait_for()
    carl, ann, fay, gus = pages.values()
    await carl.get_by_text("You may not decide this: it needs the role finance.").wait_for()
    assert await carl.locator("#approve").is_disabled()
    await ann.locator("#approve").click()
    await ann.get_by_role("alert").wait_for()
    assert "ann" in await ann.get_by_role("alert").inner_text()
    await fay.locator("#approve").click()
    await fay.get_by_text("You have approved this.").wait_for()
    await gus.get_by_text("1 of 2 approvals").wait_for()
    await gus.get_by_text(re.compile("fay, ")).wait_for()
    await gus.locator("#approve").click()
    for page in pages.values():
        await page.get_by_role("heading", name="Approved").wait_for()
        await page.context.close()


async def test_a_run_without_its_key_is_neither_shown_nor_decided(
    opened: Opened, page: Page, stage: Stage
) -> None:
    settings: dict[str, Any] = {**stage.client.config()}
    settings["data_converter"] = data_converter(encryption=KEY)
    few: dict[str, Any] = {**FEW_POLLS}
    sealed, queue = Client(**settings), f"{stage.task_queue}-sealed"
    tools = {"send_refund": send_refund}
    async with (
        opened(lambda request: ASKS) as (_, served),
        create_worker(sealed, task_queue=queue, tools=tools, **few),
    ):
        agent = served.gateway.offers["tested"].agent
        secret = await start_run(sealed, agent, {"order": 7}, task_queue=queue, id="secret")
        await start(served, "plain")
        await waits(served, "plain")
        await wait_for(partial(_waits, secret))
        async with served.asking() as http:
            found = (await http.get("/approvals")).json()
            found = [each["runId"] for each in found if each["runId"] in ("plain", "secret")]
            assert found == ["plain"]
            shown = await http.get("/runs/secret")
            steered = await http.post("/runs/secret/steer", json={"text": "in the clear"})
        for refused in (shown, steered):
            assert (refused.status_code, refused.json()["kind"]) == (409, "encrypted")
        await page.get_by_label("Waiting", exact=True).get_by_text("secret").click()
        await page.get_by_role("heading", name="This run is encrypted").wait_for()
        await page.get_by_text("Nobody decides what they cannot read.").wait_for()
        await page.goto(f"{served.url}/#/run/secret/decide/c1")
        await page.get_by_role("heading", name="This run is encrypted").wait_for()
        assert await page.get_by_role("button", name="Approve").count() == 0
        await secret.cancel()


async def _waits(run: RunHandle) -> bool:
    return bool((await run.status()).pending_approvals)
