"""The page of a trace in a browser: what it shows, that nothing in it acts, and that large traces
stay quick.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan

from perdure.trace.html import inert_json, page_data, to_html

from ..support.made_traces import START, Made, a_long_run, a_refund

if TYPE_CHECKING:
    from playwright.async_api import Page

NASTY = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'></script><!--"
NOW = datetime.fromtimestamp(START / 1e9, UTC) + timedelta(days=3)


class Seen:
    """What the browser complains of, and what it asks for, while it shows a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    async def open(self, spans: list[ReadableSpan], folder: Path) -> None:
        file = folder / "trace.html"
        file.write_text(to_html(spans, "run-1", now=NOW), encoding="utf-8")
        await self.page.goto(file.as_uri())
        await self.page.wait_for_selector("#inspector h2, #inspector p")


async def test_timeline_and_messages_are_there_and_nothing_acts(page: Page, tmp_path: Path) -> None:
    seen = Seen(page)
    await seen.open(a_refund(NASTY), tmp_path)
    assert await page.locator(".row").count() == 14
    assert "dispute_resolver" in await page.inner_text("#head")
    assert await page.locator(".row .piece.wait").count() == 1
    await page.locator(".row", has_text="find_order").click()
    assert NASTY in await page.inner_text("#inspector")
    await page.click("#tab-conversation")
    said = await page.inner_text("#conversation")
    assert NASTY in said
    assert "Refund one of the two charges only." in said
    assert said.count("Customer 4417 was charged twice") == 1, (
        "what every call is sent again is shown once"
    )
    assert "U+202E" in said
    assert await page.evaluate("window.hit") is None
    assert await page.locator("img").count() == 0
    assert seen.complaints == []
    assert len(seen.requests) == 1, "it loads nothing"


async def test_markup_that_a_script_would_make_of_text_is_refused(
    page: Page, tmp_path: Path
) -> None:
    await Seen(page).open(a_refund(), tmp_path)
    sink = "document.body.innerHTML = '<b>x</b>'"
    assert "TrustedHTML" in await page.evaluate(
        f"(() => {{ try {{ {sink} }} catch (error) {{ return String(error) }} }})()"
    )


async def test_two_thousand_spans_scroll_and_can_be_found(page: Page, tmp_path: Path) -> None:
    seen = Seen(page)
    await seen.open(a_long_run(500), tmp_path)
    assert 10 < await page.locator(".row").count() < 100, "only rows in view are drawn"
    await page.locator(".rows").evaluate("box => { box.scrollTop = box.scrollHeight }")
    await page.locator(".row[aria-rowindex='2001']").wait_for()
    await page.fill("input[type=search]", "step_1")
    assert "500 of 2,001 spans" in await page.inner_text("#bar")
    await page.click("#tab-conversation")
    assert "Show 494 more iterations" in await page.inner_text("#conversation")
    assert seen.complaints == []


async def test_a_run_that_has_not_ended(page: Page, tmp_path: Path) -> None:
    made = Made()
    root = made.add("invoke_agent clerk", 0, None)
    made.chat(0, 2, root)
    made.add("wait approval pay", 2, None, root)
    seen = Seen(page)
    await seen.open(made.spans, tmp_path)
    head = await page.inner_text("#head")
    assert "waits for a person" in head
    assert "Not ended when this was read" in head
    assert "What was said is not in this file" in await _inspected(page, "chat")
    assert seen.complaints == []


async def test_a_trace_without_spans_says_so(page: Page, tmp_path: Path) -> None:
    seen = Seen(page)
    await seen.open([], tmp_path)
    assert "There are no spans" in await page.inner_text("#timeline")
    assert seen.complaints == []


async def _inspected(page: Page, name: str) -> str:
    await page.locator(".row", has_text=name).click()
    return await page.inner_text("#inspector")


def test_nothing_in_the_data_can_end_its_element() -> None:
    text = inert_json({"said": NASTY + "\u2028\ud800&amp;"})
    assert not set("<>&\u2028") & set(text)


def test_the_page_has_each_message_once() -> None:
    """A page whose size grew with the square of the conversation could not be opened for long
    runs.
    """
    data = page_data(a_refund("a question"), "run-1")
    assert inert_json(data).count("Customer 4417") == 1
    calls = [span for span in data["spans"] if span["kind"] == "model"]
    assert [len(call.get("news", [])) for call in calls] == [1, 1, 0, 0, 0]
