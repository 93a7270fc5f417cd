"""The page in a browser, against a gateway with a worker: what a person reads, decides and says."""

from __future__ import annotations

import base64
import json
import re
import signal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from temporalio.service import RPCError, RPCStatusCode

from perdure.gateway.identity import TokenFile
from perdure.gateway.page import content_policy
from perdure.gateway.problems import problem_of
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest

from ..support.agents import Scripted
from ..support.command_line import Cli
from ..support.dev_server import free_port
from ..support.families import write_agent
from ..support.pages import ASKS, INPUTS, PAY, Opened, send_refund, start, waits
from ..support.receiver import SECRET, receiving
from ..support.stage import Stage
from ..support.waiting import wait_for
from .conftest import Serve

if TYPE_CHECKING:
    from playwright.async_api import Page

HOSTILE = (
    "</script><img src=x onerror=\"document.title='owned'\"> **bold** "
    "[link](javascript:document.title='owned') ![i](http://127.0.0.1:9/i.png) \u202egnp"
)


MARKED = ".prose, .quoted, .arguments, a.run, pre, code"
"""The elements that show text of models, tools and people as theirs."""
UNMARKED = """(others) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const { textContent, parentElement } = texts.currentNode;
    if (textContent.includes("onerror") && !parentElement.closest(others)) found.push(parentElement.outerHTML);
  }
  return found;
}"""

LARGE = 9_007_199_254_740_993
"""A number of JavaScript would round it to an even one."""


async def test_a_run_is_started_followed_and_approved_with_an_edited_argument(
    opened: Opened, page: Page
) -> None:
    asked = asks(call("send_refund", "c1", euros=LARGE, note="Sorry."), text="I refund all of it.")
    script = [asked, says("Refunded, **done**.")]
    inputs = [*INPUTS, {"name": "fast", "kind": "boolean"}]
    start_at = "?state=of-nobody#/start/tested"
    async with opened(script, path=start_at, agent={"inputs": inputs}) as (_, served):
        await page.get_by_label("Order").fill("seven")
        await page.get_by_role("button", name="Start Tested").click()
        await page.get_by_text("Not a whole number.").wait_for()
        await page.locator("#field-order:focus").wait_for()
        await page.get_by_label("Order").fill("7")
        await page.get_by_label("Rome").check()
        await page.get_by_text("Request as JSON").click()
        assert "fast" not in await page.locator("details pre").inner_text()
        await page.get_by_role("button", name="Start Tested").click()
        await page.get_by_role("heading", name="Send refund?").wait_for()
        await page.get_by_text(re.compile("[0-9]+ waiting for a person")).wait_for()
        assert re.match(r"\([0-9]+\) perdure", await page.title())
        assert await page.locator("link[rel=icon][href*=waiting]").count() == 1
        await page.get_by_label("Euros").fill("12x")
        await page.get_by_text("Not a whole number.").wait_for()
        assert await page.get_by_role("button", name="Approve").is_disabled()
        await page.get_by_label("Euros").fill(str(LARGE))
        await page.get_by_label("Note").fill("Sorry!")
        await page.get_by_role("button", name="Approve with 1 change").click()
        await page.get_by_role("heading", name="Answer").wait_for()
        assert await page.locator(".end strong").inner_text() == "done"
        row = await page.locator(".call").inner_text()
        assert "approved" in row
        assert f"refunded {LARGE}" in row
        assert await page.locator(".call del").inner_text() == f'euros: {LARGE}, note: "Sorry."'
        id = page.url.split("/")[-1]
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_text("More", exact=True).click()
        await page.get_by_role("button", name="Copy for an agent").click()
        await page.get_by_role("button", name="Copied").wait_for()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"# Run {id}\n\nAgent tested, done, 2 iterations")
        assert "### Call `send_refund`: done" in copied
        assert copied.index("## Answer") < copied.index("## Iteration 2")
        await page.goto(f"{served.url}/#/?q=order+7")
        listed = page.locator("a.run", has_text=id)
        await listed.get_by_text("Refunded, done.").wait_for()
        assert "Order 7" in await listed.inner_text()
        await page.get_by_label("Search runs").fill("order nobody")
        await listed.wait_for(state="detached")
        await page.get_by_label("Search runs").fill(id)
        await page.get_by_label("Period").select_option("1")
        await listed.wait_for()
        await page.get_by_role("button", name=re.compile("[0-9] done")).click()
        assert "status=done" in page.url


async def test_a_decision_that_comes_too_late_is_not_used(opened: Opened, page: Page) -> None:
    async with opened([ASKS, says("Done.")]) as (_, served):
        await start(served, "late")
        found = await waits(served, "late")
        await page.goto(f"{served.url}/#/run/late/decide/c1")
        await page.get_by_role("button", name="Deny…").click()
        await page.get_by_label("Why not?").fill("not ours")

        async def somebody_is_faster(route: Any) -> None:
            async with served.asking() as http:
                body = {"callId": "c1", "digest": found["digest"]}
                assert (await http.post("/runs/late/approve", json=body)).is_success
            await route.continue_()

        await page.route("**/runs/late/deny", somebody_is_faster)
        await page.get_by_role("button", name="Deny and stop the run").click()
        await page.get_by_text("Your answer was not used").first.wait_for()
        async with served.asking() as http:
            result = (await http.get("/runs/late/result", params={"wait": 20})).json()
        assert result["output"] == "Done."
        await page.goto(f"{served.url}/#/run/late/decide/c1")
        await page.get_by_text("(an unverified name)").first.wait_for()
        await page.goto(f"{served.url}/#/run/late")
        await page.locator("#call-c1 .row").click()
        await page.get_by_text(re.compile("^1 execution, .* of waiting for a person$")).wait_for()
        await page.goto(f"{served.url}/#/run/late/decide/c%")
        await page.get_by_text("The run has made no such call.").wait_for()
        await page.goto(f"{served.url}/#/nonsense")
        await page.get_by_role("heading", name="No such view").wait_for()


async def test_a_denial_is_told_to_the_agent_and_a_question_is_answered(
    opened: Opened, page: Page
) -> None:
    question = {"question": "Which one?", "choices": ["Oak", "Elm"]}
    replies = [ASKS, asks(call("ask_user", "c2", **question)), says("Done.")]
    read: list[list[str]] = []

    def script(request: ScriptedRequest) -> ScriptedReply:
        read.append([each.text for each in request.messages if each.role == "tool"])
        return replies[len(read[-1])]

    async with opened(script) as (_, served):
        await start(served, "both")
        await page.goto(f"{served.url}/#/run/both")
        await page.get_by_role("button", name="Deny…").click()
        await page.get_by_label("Why not?").fill("only one of them")
        await page.get_by_role("button", name="Deny and tell the agent").click()
        await page.get_by_text("only one of them").first.wait_for()
        await page.get_by_label("Elm").check()
        await page.get_by_role("button", name="Answer: Elm").click()
        await page.get_by_role("heading", name="Answer").wait_for()
        assert "Elm" in await page.locator("#call-c2").inner_text()
        await page.goto(f"{served.url}/#/run/both/decide/c2")
        await page.get_by_role("heading", name="Answered").wait_for()
        await page.goto(f"{served.url}/#/run/both/fork/3")
        await page.get_by_text("Result", exact=True).nth(1).click()
        await page.get_by_label("Result of ask_user").fill("Oak")
        await page.get_by_text("Result, edited").wait_for()
        await page.get_by_role("button", name="Start fork").click()
        await page.wait_for_url(re.compile(r"#/run/(?!both)[^/]+$"))
        await page.get_by_role("heading", name="Answer").wait_for()
        assert read[-1] == [read[-2][0], "Oak"]
        assert "Elm" in read[-2][1]


async def test_a_run_is_steered_forked_and_cancelled(opened: Opened, page: Page) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        return ASKS.model_copy(update={"text": f"I have {len(request.messages)} wishes."})

    async with opened(script) as (_, served):
        await start(served, "long")
        await page.goto(f"{served.url}/#/run/long")
        await page.get_by_label(re.compile("Tell the agent something")).fill("Only one charge.")
        sent: list[JsonObject] = []

        async def answer_is_lost(route: Any) -> None:
            sent.append(await (await route.fetch()).json())
            await route.abort()

        send = page.get_by_role("button", name="Send", exact=True)
        await page.route("**/steer", answer_is_lost, times=1)
        await send.click()
        await page.get_by_text("The gateway does not answer.").wait_for()
        await send.click()
        await page.get_by_text("1 message queued").wait_for()
        assert len(sent) == 1
        forking = await page.get_by_role("link", name="Fork…").get_attribute("href")
        await page.goto(f"{served.url}/{(forking or '').rsplit('/', 1)[0]}/99")
        await page.get_by_text("choose one of them").wait_for()
        assert await page.get_by_role("button", name="Start fork").count() == 0
        await page.goto(f"{served.url}/{forking}")
        await page.get_by_text("left out of the fork").wait_for()
        await page.get_by_label(re.compile("What should change")).fill("Nothing of it.")
        await page.get_by_label(re.compile("^Model")).fill("openai/other")
        await page.route("**/fork", answer_is_lost, times=1)
        await page.get_by_role("button", name="Start fork").click()
        await page.get_by_text("The gateway does not answer.").wait_for()
        await page.get_by_role("button", name="Start fork").click()
        await page.wait_for_url(re.compile(r"#/run/(?!long)[^/]+$"))
        assert page.url.endswith(f"/{sent[1]['id']}"), "the fork of the lost answer"
        await page.get_by_text("Nothing of it.").first.wait_for()
        await page.locator("aside code", has_text="other").wait_for()
        await page.get_by_role("link", name="compare", exact=True).click()
        await page.get_by_text("The first difference is in iteration 1.").wait_for()
        marks = page.locator("section.pair").first.locator("mark")
        assert await marks.all_inner_texts() == ["1", "2"]
        await page.go_back()
        await page.get_by_role("button", name="Cancel run").click()
        await page.get_by_role("button", name="Cancel the run").click()
        await page.get_by_role("heading", name="Cancelled").wait_for()


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
COVERED = """() => {
  const [card, composer] = [".card.person", ".composer"].map((each) => document.querySelector(each).getBoundingClientRect());
  return composer.top < card.bottom && card.top < composer.bottom;
}"""


def chatty(request: ScriptedRequest) -> ScriptedReply:
    """Calls a tool for "Refund it", is slow for "Slowly", and counts the files that it sees."""
    said = [each for each in request.messages if each.role == "user"]
    if said[-1].text == "Refund it" and request.messages[-1].role == "user":
        return ASKS
    files = json.dumps(request.body).count('"type": "image_url"')
    words = f"After {len(said)} messages and {files} files, **{said[-1].text}**"
    return says(words, chunk_delay=0.5 if said[-1].text == "Slowly" else 0.0)


async def test_a_session_is_a_chat_of_ten_turns_with_files(
    opened: Opened, page: Page, tmp_path: Path, axe: str
) -> None:
    (tmp_path / "dot<b>.png").write_bytes(PIXEL)
    (tmp_path / "large.bin").write_bytes(bytes(4_600_000))
    agent = {"instructions": "system:\nTalk.", "inputs": []}
    async with opened(chatty, path="#/sessions", agent=agent) as (_, served):
        await page.get_by_label("Begin a conversation with tested", exact=True).fill("Hello")
        await page.get_by_role("button", name="Send", exact=True).click()
        await page.get_by_text("After 1 messages and 0 files, Hello").wait_for()
        session = page.url

        async def lose(route: Any) -> None:
            await route.fetch()
            await route.abort()

        await page.route("**/sessions/*/messages", lose, times=1)
        await page.get_by_label("Say something", exact=True).fill("Word 2")
        await page.keyboard.press("Control+Enter")
        await page.get_by_text("The gateway does not answer.").wait_for()

        async def say(text: str, answer: str) -> None:
            await page.get_by_label("Say something", exact=True).fill(text)
            await page.keyboard.press("Control+Enter")
            await page.get_by_text(answer).wait_for()
            await page.get_by_text("waits for your message").wait_for()

        for number in range(2, 7):
            await say(f"Word {number}", f"After {number} messages and 0 files, Word {number}")
        chosen = page.get_by_label("Attach files: Say something")
        await chosen.set_input_files(tmp_path / "large.bin")
        await page.get_by_text("have 4.6 MB, at most 4.5 MB are possible").wait_for()
        await chosen.set_input_files(tmp_path / "dot<b>.png")
        await say("See", "After 7 messages and 1 files, See")
        await page.locator(".said img").wait_for()
        async with page.expect_download() as coming:
            await page.get_by_role("button", name="Save").click()
        saved = await coming.value
        assert saved.suggested_filename == "dot_b_.png"
        assert Path(await saved.path()).read_bytes() == PIXEL

        await page.get_by_label("Say something", exact=True).fill("Refund it")
        await page.keyboard.press("Control+Enter")
        await page.locator("#approve:enabled").wait_for()
        await page.set_viewport_size({"width": 390, "height": 420})
        height = await page.evaluate("document.documentElement.scrollHeight")
        for top in range(0, height, 100):
            await page.evaluate("(top) => scrollTo(0, top)", top)
            assert not await page.evaluate(COVERED), "the composer covers the card"
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        found = await page.evaluate(f"{axe}; axe.run().then((found) => found.violations)")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_text("After 8 messages and 1 files, Refund it").wait_for()
        await page.get_by_text("waits for your message").wait_for()

        await page.get_by_label("Say something", exact=True).fill("Slowly")
        await page.keyboard.press("Control+Enter")
        await page.get_by_text(re.compile("^After")).nth(8).wait_for()
        await page.get_by_label(re.compile("As the next turn")).check()
        await page.get_by_label("Say something", exact=True).fill("Queued\nwords")
        await page.keyboard.press("Control+Enter")
        await page.get_by_text("1 message queued").wait_for()
        await page.get_by_role("button", name="Stop this turn").click()
        await page.get_by_text("Stopped").wait_for()
        await page.get_by_text("After 10 messages and 1 files, Queued words").wait_for()
        assert await page.locator(".turn").count() == 10
        await page.reload()
        await page.get_by_text("After 10 messages and 1 files, Queued words").wait_for()
        await page.get_by_text("10 turns").wait_for()

        await page.get_by_role("button", name="Edit and resend").nth(6).click()
        await page.get_by_label("Say this in its place").fill("Look")
        await page.get_by_role("button", name="Send in a new session").click()
        await page.get_by_text("After 7 messages and 1 files, Look").wait_for()
        assert page.url != session
        await page.get_by_text("After 6 messages and 0 files, Word 6").wait_for()
        await say("More", "After 8 messages and 1 files, More")
        await page.get_by_role("button", name="Close", exact=True).click()
        await page.get_by_role("button", name="Close the session").click()
        await page.get_by_text("closed", exact=True).wait_for()
        await page.goto(session)
        await page.get_by_text("10 turns").wait_for()


async def test_nothing_that_others_wrote_is_more_than_text(opened: Opened, page: Page) -> None:
    script = [asks(call("send_refund", "c1", euros=1, note=HOSTILE), text=HOSTILE), says(HOSTILE)]
    agent = {"description": HOSTILE}
    async with opened(script, agent=agent) as (_, served):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await start(served, "hostile")
        await waits(served, "hostile")
        for place in ("", "#/run/hostile/decide/c1", "#/run/hostile", "#/start/tested"):
            await page.goto(f"{served.url}/{place}")
            await page.locator("main").wait_for()
            await page.get_by_text("onerror").first.wait_for()
            assert await page.evaluate(UNMARKED, MARKED) == [], "text in the page's own voice"
        await page.goto(f"{served.url}/#/run/hostile")
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_role("heading", name="Answer").wait_for()
        answer = page.locator(".end .prose")
        assert await answer.locator("img, script").count() == 0
        assert await answer.locator("a[href^=javascript]").count() == 0
        assert "U+202Egnp" in await answer.inner_text()
        assert await page.title() != "owned"
        assert all(url.startswith(served.url) for url in asked)


async def test_a_token_opens_the_page_and_stays_out_of_the_address(
    opened: Opened, page: Page, tokens: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with opened([ASKS, says("Done.")], known=[tokens]) as (_, served):
        await page.get_by_label("Bearer token").fill("token-of-nobody-here-at-all")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_text("The gateway does not accept this token").wait_for()
        await page.get_by_label("Bearer token").fill("token-of-ann-at-acme")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("Search runs").wait_for()
        assert "token" not in page.url
        assert await page.evaluate("Object.keys(localStorage).length") == 0
        loaded = "performance.getEntriesByType('resource').map((each) => each.name).join()"
        assert "token-of" not in await page.evaluate(loaded)
        await start(served, "mine", "token-of-ann-at-acme")
        await start(served, "theirs", "token-of-bob-at-bolt")
        await page.get_by_text("acme:mine").first.wait_for()
        assert await page.get_by_text("theirs").count() == 0
        assert len(caplog.records) > 5
        assert "token-of-ann" not in caplog.text
        await page.get_by_role("link", name=re.compile("waiting for a person")).click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Bearer token").wait_for()
        assert "mine" not in await page.content() + page.url + await page.title()


async def test_the_page_stays_without_a_worker_offline_and_while_its_gateway_is_killed(
    scripted: Scripted, page: Page, stage: Stage, cli: Cli, tmp_path: Path
) -> None:
    model = scripted([ASKS, says("Done.")])
    file = write_agent(tmp_path, "tested.prompty", model, tools=[PAY], prompt="user:\nHi")
    port = str(free_port())
    arguments = ("serve", str(file), "--task-queue", stage.task_queue, "--port", port)
    gateway = await cli.start(*arguments)
    await gateway.says("Page: ")
    await page.goto(f"http://127.0.0.1:{port}/#/start/tested")
    await page.get_by_role("button", name="Start Tested").click()
    await page.get_by_text(f"perdure worker --task-queue {stage.task_queue}").wait_for()
    async with stage.worker([send_refund]):
        await page.get_by_role("heading", name="Send refund?").wait_for()
        id = page.url.split("/")[-1]
        await page.get_by_label("Note").fill("Kept.")
        away = page.get_by_text("No connection to the gateway since")
        await page.context.set_offline(True)
        await away.wait_for()
        await page.context.set_offline(False)
        await away.wait_for(state="detached")
        gone = problem_of(RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b""))
        assert gone is not None
        no_server = {"status": gone.status, "json": gone.body.model_dump()}
        await page.route("**/perdure/**", lambda route: route.fulfill(**no_server))
        await page.get_by_text("Temporal server does not answer (tcp connect error)").wait_for()
        await page.unroute_all(behavior="wait")
        await page.get_by_text("Temporal server does not answer").wait_for(state="detached")
        sessions, new, fork = [await page.context.new_page() for _ in range(3)]
        await sessions.goto(f"http://127.0.0.1:{port}/#/sessions")
        await (
            sessions.get_by_text("No sessions yet.").or_(sessions.locator("a.run")).first.wait_for()
        )
        await new.goto(f"http://127.0.0.1:{port}/#/sessions")
        await fork.goto(f"http://127.0.0.1:{port}/#/sessions")
        await gateway.finish(signal.SIGKILL)
        await away.wait_for()
        assert await page.get_by_label("Note").input_value() == "Kept."
        await new.evaluate("location.hash = '#/start/tested'")
        await fork.evaluate(f"location.hash = '#/run/{id}/fork/1'")
        for each in (sessions, new, fork):
            await each.get_by_text("The gateway does not answer.").wait_for()
        gateway = await cli.start(*arguments)
        await away.wait_for(state="detached")
        await new.get_by_role("button", name="Start Tested").wait_for()
        await fork.get_by_role("button", name="Start fork").wait_for()
        for each in (sessions, new, fork):
            await each.get_by_text("The gateway does not answer.").wait_for(state="detached")
            await each.close()
        await page.get_by_role("button", name="Approve with 1 change").click()
        await page.get_by_role("heading", name="Answer").wait_for()
        await page.goto("about:blank")
    await gateway.finish(signal.SIGTERM)


VIOLATIONS = """(rules) => axe.run(document, rules).then(({ violations, passes }) =>
  passes.length ? violations.map((each) => [each.id, each.nodes[0].html]) : "nothing is examined")"""
WIDTH = "document.documentElement.scrollWidth"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules whose outcome depends on the colours."""


async def test_each_screen_is_accessible_also_dark_and_on_a_narrow_one(
    opened: Opened, page: Page, axe: str
) -> None:
    async with opened(lambda request: ASKS) as (_, served):
        await start(served, "one")
        await waits(served, "one")
        run = "#/run/one"
        for place in (
            "",
            run,
            f"{run}/decide/c1",
            f"{run}/fork/1",
            "#/start/tested",
            "#/operate",
            "#/sessions",
            f"{run}/compare/one",
        ):
            await page.goto(f"{served.url}/{place}")
            await page.locator("main h1, main h2").first.wait_for(state="attached")
            await page.wait_for_timeout(300)
            await page.evaluate(f"() => {{ if (!window.axe) {{ {axe} }} }}")
            for scheme, width in product(SCHEMES, (1280, 320)):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                await page.set_viewport_size({"width": width, "height": 800})
                found = await page.evaluate(VIOLATIONS, COLOURS if scheme == "dark" else {})
                assert found == [], (place, scheme, width)
                assert await page.evaluate(WIDTH) <= width, place
                assert await page.evaluate("document.getAnimations().length") == 0, place
            # 1,280 pixels at a zoom of 200 %.
            await page.set_viewport_size({"width": 640, "height": 400})
            assert await page.evaluate(WIDTH) <= 640, place
        developer = await page.context.new_cdp_session(page)
        manifest = await developer.send("Page.getAppManifest")
        assert (manifest["errors"], json.loads(manifest["data"])["display"]) == ([], "standalone")
        found = (await developer.send("Page.getInstallabilityErrors"))["installabilityErrors"]
        assert {each["errorId"] for each in found} <= {"in-incognito"}
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.get_by_role("button", name="Notify me").click()
        await page.get_by_text("The browser blocks notifications of this page").wait_for()
        await page.goto(f"{served.url}/{run}/decide/c1")
        await page.get_by_role("button", name="Deny…").click()
        await page.get_by_role("button", name="Deny and stop the run").click()
        await page.goto(f"{served.url}/{run}")
        await page.get_by_role("heading", name="Cancelled").wait_for()


async def test_the_link_of_a_notice_leads_to_a_decision_on_a_phone_and_keys_alone_decide(
    opened: Opened, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_WEBHOOK_SECRET", SECRET)
    async with receiving() as receiver, opened([ASKS, says("Done.")]) as (_, served):
        monkeypatch.setenv("PERDURE_WEBHOOKS", receiver.url)
        monkeypatch.setenv("PERDURE_GATEWAY_URL", served.url)

        async def is_told() -> bool:
            return bool(receiver.taken)

        await start(served, "phone")
        await wait_for(is_told)
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(receiver.of_type("run.waiting")[0]["page"])
        await page.get_by_role("heading", name="Send refund?").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_role("heading", name="Approved").wait_for()
        monkeypatch.delenv("PERDURE_WEBHOOKS")
        await start(served, "keys")
        await page.goto(served.url)
        await page.get_by_text(re.compile("[0-9]+ waiting for a person")).wait_for()
        await page.keyboard.press("w")
        await page.wait_for_url(re.compile("/decide/"))
        await page.goto(f"{served.url}/#/run/keys/decide/c1")
        await page.get_by_role("heading", name="Send refund?").wait_for()
        await page.locator("#approve:enabled").wait_for()
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Approved").wait_for()


OTHERS = """<iframe src="{url}/"></iframe><form method="post" enctype="text/plain"
 action="{url}/perdure/runs"><input name="x"></form>"""


async def test_pages_of_other_origins_neither_frame_it_nor_post(
    serve_agents: Serve, page: Page
) -> None:
    async with serve_agents() as served:

        async def other(request: Any) -> HTMLResponse:
            return HTMLResponse(OTHERS.format(url=served.url))

        async with serve(Starlette(routes=[Route("/", other)]), "127.0.0.1", 0) as url:
            await page.goto(url)
            assert await page.frames[1].locator("#app").count() == 0
            path = f"{served.url}/perdure/runs"
            ask = "(url) => { fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include'}); }"
            for act in (ask, "document.forms[0].submit()"):
                async with page.expect_response(path) as found:
                    await page.evaluate(act, path)
                assert (await found.value).status == 403


async def test_its_policy_lets_nothing_in_from_elsewhere(serve_agents: Serve) -> None:
    async with serve_agents(hosts=["127.0.0.1"]) as served, httpx2.AsyncClient() as http:
        answer = await http.get(f"{served.url}/")
        policy = answer.headers["content-security-policy"]
        assert policy == content_policy(answer.text)
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        names = re.findall(r'"\./(page/[^"]+)"|(?:src|href)="(page/[^"]+)"', answer.text)
        assert len(names) > 10
        size = len(answer.content)
        for name in ("".join(each) for each in names):
            found = await http.get(f"{served.url}/{name}")
            assert found.status_code == 200
            assert found.headers["cache-control"] == "no-cache"
            size += int(found.headers.get("content-length", 0))
        assert size < 150_000, "compressed, the first load is larger than it may be"
        assert (await http.get(f"{served.url}/page/../own.py")).status_code == 404
        refused = await http.get(f"{served.url}/", headers={"Host": "rebound.example:80"})
        assert (refused.status_code, refused.json()["kind"]) == (400, "host")
        assert (await http.get(f"{served.url}/page/%2e%2e/own.py")).status_code == 404
