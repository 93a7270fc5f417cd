"""The page and hostile text: in every field that the gateway answers, and in Markdown."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from perdure.cli.serve import examine
from perdure.cli.server_connection import ServerConnection
from perdure.client import session
from perdure.client.schedules import create_schedule, delete_schedule
from perdure.messages import ImagePart
from perdure.testing import asks, call, says

from ..support.pages import Opened, start, waits

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

ATTACK = (
    "<img src=x onerror=alert(1)><script>alert(1)</script><svg onload=alert(1)></svg>"
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>[x](javascript:alert(1))"
    "\"'`${alert(1)}\u202e</textarea></title><style>*{display:none}</style>"
)
KEPT = {
    *("status", "type", "kind", "position", "op", "role", "digest", "level", "trace_id"),
    *("started", "closed", "next", "since", "digest", "overlap", "callId", "call_id", "run_id"),
    *("message_id", "id"),
}
"""Fields by which the page chooses what it shows; all others have the attack."""
ID = "\"'><img src=x onerror=alert(1)>[«id»](javascript:alert(1))"


def poisoned(value: Any, path: str) -> Any:
    """The value with the attack in each text, after the name of its field."""
    if isinstance(value, dict):
        return {
            name: each if name in KEPT else poisoned(each, f"{path}.{name}")
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [poisoned(each, path) for each in value]
    if not isinstance(value, str):
        return value
    if path.endswith(".arguments"):
        return json.dumps(poisoned(json.loads(value), path))
    return f"{value}«{path}»{ATTACK}"


async def poison(route: Route) -> None:
    """Let the gateway's answer through with the attack in it; streams of open runs as they are."""
    request = route.request
    path = request.url.split("/perdure", 1)[1].split("?")[0]
    wants_stream = "event-stream" in (await request.all_headers()).get("accept", "")
    if request.method != "GET" or (wants_stream and not re.search("/ended[^/]*/", path)):
        await route.continue_()
        return
    answer = await route.fetch()
    name = re.sub(r"/(ended|held|other|talk)[^/]*", "", path).removesuffix("/perdure")
    text = await answer.text()
    if wants_stream:
        lines = [
            f"data: {json.dumps(poisoned(json.loads(line[6:]), name))}"
            if line.startswith("data: ")
            else line
            for line in text.split("\n")
        ]
        await route.fulfill(response=answer, body="\n".join(lines))
    else:
        await route.fulfill(response=answer, json=poisoned(json.loads(text), name))


SEEN = """() => {
  const texts = [document.body.innerText, ...[...document.querySelectorAll("input, textarea")].map((each) => each.value)];
  return { fields: texts.flatMap((text) => [...text.matchAll(/«([^»]+)»/g)].map((found) => found[1])),
    foreign: document.querySelectorAll("main :is(img, script, iframe, style, object, embed, form[action]), [onerror], [onload], a[href^='javascript' i]").length };
}"""
OPENED = "() => document.querySelectorAll('main details').forEach((each) => (each.open = true))"


@pytest.mark.usefixtures("no_pause_stays")
async def test_no_field_of_any_answer_is_more_than_text(opened: Opened, page: Page) -> None:
    pay = call("send_refund", "c1", euros=1, note="Sorry.")
    question = call("ask_user", "c2", question="Which?", choices=["Oak", "Elm"])
    agent = {
        "description": "Refunds.",
        "instructions": "system:\nTalk.\nuser:\nOrder {{order}}",
        "metadata": {"perdure": {"onFailure": "hold", "maxIterations": 3, "maxTotalTokens": 9000}},
    }
    script = [asks(pay, text="I pay."), asks(question, text="I ask."), says("All done.")]
    dialogs: list[str] = []

    async def dismiss(dialog: Any) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", dismiss)
    async with opened(script, agent=agent) as (_, served), served.asking() as http:
        client, queue = served.gateway.client, served.gateway.task_queue
        served.gateway.examine = partial(examine, ServerConnection(client, None), queue)
        offered = served.gateway.offers["tested"].agent
        settings = {"every": 86400, "paused": True, "task_queue": queue}
        await create_schedule(client, queue, offered, {"order": 7}, **settings)
        pause = (await http.post("/pauses", json={"agent": queue, "reason": "stock"})).json()
        inputs = {"order": 7}
        talk = session(client, offered, "ended-talk", task_queue=queue, inputs=inputs)
        named = session(
            client, offered, ID.replace("id", "session"), task_queue=queue, inputs=inputs
        )
        await named.begin()
        for id in ("ended", "other", "held", "ended-talk/1"):
            if id == "ended-talk/1":
                await talk.send("Look.", parts=[ImagePart(source="R0lGODlh", filename="a.gif")])
            else:
                await start(served, id)
            found = await waits(served, id)
            body = {"callId": "c1", "digest": found["digest"]}
            if id == "held":
                await http.post("/runs/held/pause", json={"reason": "for a test"})
                await http.post("/runs/held/deny", json={**body, "reason": "no"})
                continue
            await http.post(f"/runs/{id}/steer", json={"text": "Hurry."})
            await http.post(f"/runs/{id}/approve", json={**body, "arguments": {"euros": 2}})
            while (found := await waits(served, id))["call_id"] != "c2":
                await asyncio.sleep(0.1)
            answer = {"callId": "c2", "digest": found["digest"], "text": "Oak"}
            await http.post(f"/runs/{id}/answer", json=answer)
            await http.get(f"/runs/{id}/result", params={"wait": 30})
        await talk.close()
        await start(served, ID)
        await waits(served, ID)
        await page.set_viewport_size({"width": 1280, "height": 6000})
        await page.route("**/perdure/**", poison)
        seen: set[str] = set()

        async def look(place: str, ready: str) -> None:
            await page.goto(f"{served.url}/{place}")
            await page.get_by_text(ready).first.wait_for()
            await gather(ready)

        async def gather(what: str) -> None:
            await page.evaluate(OPENED)
            await page.wait_for_timeout(200)
            found = await page.evaluate(SEEN)
            assert found["foreign"] == 0, what
            seen.update(found["fields"])

        await look("#/run/ended", "All done.")
        await page.locator("#call-c1 .row").click()
        await gather("inspector")
        for tab in ("What the model sees", "Events"):
            await page.get_by_role("tab", name=re.compile(tab)).click()
            await gather(tab)
        await page.locator(".event button").nth(2).click()
        await gather("event")
        await look("#/", "All done.")
        await page.get_by_text("«id»").first.wait_for()
        await gather("the list")
        await look("#/run/held", "for a test")
        await look("#/run/ended/fork/2", "left out of the fork")
        await look("#/run/ended/compare/other", "Tool calls")
        await look("#/start/tested", "Start a run")
        await look("#/sessions", "ended-talk")
        await look(f"#/session/{quote(named.id, safe='')}", "waits for your message")
        await look("#/session/ended-talk", "All done.")
        await page.locator(".call .row").first.click()
        await page.get_by_role("button", name="Edit and resend").click()
        await gather("session")
        await look("#/operate", "stock")
        await page.get_by_text("Tools:").first.wait_for()
        await gather("operate")
        await http.post(f"/pauses/{pause['id']}/release")
        await delete_schedule(client, queue)
        await named.cancel()
        assert dialogs == []
        assert "id" in seen
        assert {"session", "/sessions.reason", "/sessions.agent"} <= seen, sorted(seen)
        assert [each for each in seen if each.endswith(".filename")]
        assert len(seen) >= 40, sorted(seen)
        await page.unroute_all(behavior="wait")


MARKDOWN = [
    ATTACK,
    *(
        f"[x]({scheme}alert(1))"
        for scheme in (
            "javascript:",
            "JaVaScRiPt:",
            "java\tscript:",
            "java&#10;script:",
            "&#106;avascript:",
            "\x01javascript:",
            "vbscript:",
            "data:text/html,",
            "data:image/svg+xml;base64,",
            "file:///",
            "blob:",
            "//evil.example/",
            "/perdure/runs",
            "?x=",
            "#/run/x",
        )
    ),
    *("![x](http://evil.example/i.png)", "![x](data:image/svg+xml,<svg/onload=alert(1)>)"),
    *("[x]: javascript:alert(1)\n\n[x]", "<javascript:alert(1)>", "<a href=javascript:alert(1)>x"),
    *("<details open ontoggle=alert(1)>", "<math><mtext></p><style><img src=x onerror=alert(1)>"),
    *("<svg><animate onbegin=alert(1)>", "<form><input name=innerHTML>", "<base href=//evil>"),
    *("<noscript><p title='</noscript><img src=x onerror=alert(1)>'>", "<!--><img src=x>-->"),
    *("<table background=x onload=alert(1)>", "<x style=position:fixed;inset:0>", "<br id=app>"),
    *("```html\n<img src=x onerror=alert(1)>\n```", "`<img src=x onerror=alert(1)>`"),
    *("| <img src=x onerror=alert(1)> |\n| --- |\n| <script>alert(1)</script> |",),
    *("- [x] <input onfocus=alert(1) autofocus>", "# <img src=x onerror=alert(1)>"),
    *("> " * 90 + "x", "*" * 150, "[" * 1900, "a\u202egnp.exe", "http://user:pass@evil.example/"),
    *("[x](http://a:99999)", "[x](https://%)"),
    *("[good](https://example.com/?a=1)", "https://example.com/\u202egnp"),
]
RENDER = """async (texts) => {
  const [{ render, h }, { Markdown }] = await Promise.all([import("preact"), import("./page/parts/basics.js")]);
  const allowed = new Set("DIV P BR STRONG EM DEL CODE PRE UL OL LI BLOCKQUOTE H4 H5 H6 TABLE THEAD TBODY TR TH TD HR A".split(" "));
  const wrong = [];
  for (const text of texts) {
    const place = document.createElement("div");
    document.body.append(place);
    render(h(Markdown, { text }), place);
    await new Promise(requestAnimationFrame);
    await new Promise((go) => setTimeout(go));
    for (const each of place.querySelectorAll("*")) {
      const names = each.getAttributeNames().filter((name) => !["href", "rel", "target", "class"].includes(name));
      const href = each.getAttribute("href");
      if (!allowed.has(each.tagName) || names.length || (href && !/^https?:\\/\\//i.test(href)) || (href && !each.textContent.endsWith(`(${new URL(href).host})`)))
        wrong.push([text.slice(0, 60), each.outerHTML.slice(0, 200)]);
    }
    if (/[\\u202e\\u0001]/.test(place.textContent)) wrong.push([text.slice(0, 60), "hidden characters"]);
    place.remove();
  }
  return wrong;
}"""


HARD = [
    "> " * 500 + "x",
    "*" * 5000,
    "[" * 5000,
    "a." * 30_000 + "@",
    ">" * 3000 + "x",
    "- " * 1500 + "x",
    "|a" * 5000 + "\n" + "|-" * 5000,
]
KEPT_AS_TEXT = """async (texts) => {
  const [{ render, h }, { Markdown }] = await Promise.all([import("preact"), import("./page/parts/basics.js")]);
  return texts.filter((text) => {
    const place = document.createElement("div");
    render(h(Markdown, { text }), place);
    return !place.querySelector("pre.prose");
  });
}"""
UNCOMPARED = """async () => {
  const [module, { differ }] = await Promise.all([import("diff"), import("./page/views/compare.js")]);
  return differ(module, 50)("a.".repeat(4900), "b,".repeat(4900)) === undefined;
}"""


async def test_markdown_of_others_has_no_markup_of_its_own(opened: Opened, page: Page) -> None:
    async with opened([says("Done.")]) as _:
        assert await page.evaluate(RENDER, MARKDOWN) == []
        assert await page.evaluate(KEPT_AS_TEXT, HARD) == []
        assert await page.evaluate(UNCOMPARED)
        assert await page.evaluate("document.querySelector('#app h1') !== null")
