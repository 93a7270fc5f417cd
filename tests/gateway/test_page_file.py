"""The page of a run as a file: it opens from a disk without a network, and shows what the page of a
gateway shows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perdure.agents import Agent
from perdure.conversation import Append
from perdure.events import RunEvent
from perdure.gateway.page_file import to_html
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol.run import RunInput

if TYPE_CHECKING:
    from playwright.async_api import Page

ATTACK = (
    "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<style>*{display:none}</style>[x](javascript:hit) <!--\u202e\ud800"
)
USAGE = {"input_tokens": 1200, "output_tokens": 85, "cached_input_tokens": 600}
USAGE |= {"total_tokens": 1285}


SLEPT = 7200
"""Seconds between the iterations, in which there was no worker."""


def events() -> list[RunEvent]:
    """A run with two iterations, a call that a person approved, and a called run."""
    asked = {
        "name": "send_refund",
        "arguments": '{"euros": 258, "password": "hunter2", "cookies": ["hunter3"]}',
    }
    card = {"name": "send_refund", "arguments": {"euros": 258}, "kind": "approval"}
    decided = {"name": "send_refund", "approved": True, "by": f"Ann {ATTACK}", "arguments": None}
    called = {"name": "send_refund", "run_id": "called", "first_run_id": "1"}
    model = {"usage": USAGE, "costUsd": 0.01, "model": "tiny", "text": f"I refund. {ATTACK}"}
    begun = [Message.user(f"Customer 4417 {ATTACK}"), Message(role="assistant")]
    rows: list[tuple[Any, ...]] = [
        (1, "llm_start", {}, None),
        (1, "llm_complete", model, None),
        (1, "messages_updated", {}, None),
        (1, "tool_call_start", asked, "c1"),
        (1, "permission_requested", card, "c1"),
        (1, "permission_completed", decided, "c1"),
        (1, "child_started", called, "c1"),
        (1, "tool_result", {"name": "send_refund", "result": f"sent {ATTACK}"}, "c1"),
        (2, "llm_start", {}, None),
        (2, "llm_complete", {**model, "text": "All done."}, None),
        (2, "done", {"response": f"All **done**. {ATTACK}"}, None),
    ]
    made = [
        RunEvent(
            seq=seq,
            type=kind,
            iteration=iteration,
            data=data,
            time=1_790_000_000.0 + 60 * seq + (iteration - 1) * SLEPT,
            call_id=call,
            operations=[Append(messages=begun)] if kind == "messages_updated" else [],
        )
        for seq, (iteration, kind, data, call) in enumerate(rows, 1)
    ]
    answer = {**model, "text": "Yes."}
    return [
        *made,
        RunEvent(seq=1, type="llm_complete", iteration=1, data=answer, run_id="called"),
        RunEvent(seq=2, type="done", iteration=1, data={"response": "Yes."}, run_id="called"),
    ]


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes the page of the run, and returns its address."""

    def write(*, content: bool) -> str:
        input = RunInput(
            agent=Agent(name=f"clerk {ATTACK}"),
            messages=[],
            inputs={"order": ATTACK},
            options=RunOptions(max_iterations=7),
        )
        path = tmp_path / "run.html"
        path.write_text(to_html("run-1", input, events(), content=content), encoding="utf-8")
        return path.as_uri()

    return write


async def test_all_of_a_run_is_there_as_text_and_nothing_is_loaded(
    page: Page, written: Any
) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    await page.context.set_offline(True)
    address = written(content=True)
    await page.goto(address)
    await page.get_by_text("Customer 4417").first.wait_for()
    main = page.get_by_role("main")
    for text in ("send_refund", "I refund.", "approved by", "2 of 7", "All done.", "tiny", "$0.02"):
        assert text in await main.inner_text(), text
    facts = await main.locator(".facts").inner_text()
    assert "active 8 min of 2 h 10 min" in facts
    assert "no worker for 2 h 1 min" in facts
    labels = await page.locator(".labels text").all_text_contents()
    assert labels[:2] == ["1", "2"]
    assert {"1 min, folded", "2 h 1 min, folded"} <= set(labels)
    row = page.get_by_role("button", name="send_refund")
    await row.click()
    assert '"euros": 258' in await page.get_by_role("complementary").inner_text()
    assert "sent </script>" in await page.get_by_role("complementary").inner_text()
    await page.get_by_role("button", name="Open here").click()
    await page.locator(".nested").get_by_text("Yes.").wait_for()
    await page.get_by_role("tab", name="Events 11").click()
    assert await page.get_by_role("row").count() == 11
    assert await page.evaluate("window.hit") is None
    assert not await page.locator("main :is(script, img, style, iframe)").count()
    assert not await page.get_by_role("button", name="Cancel").count()
    assert not await page.get_by_role("link", name="Fork").count()
    await page.get_by_role("tab", name="Conversation").click()
    await page.locator(".called a").click()
    await page.get_by_role("link", name="The run that called it").click()
    await page.get_by_text("Customer 4417").first.wait_for()
    assert [each for each in loaded if not each.startswith(("data:", address))] == []
    assert problems == []
    injected = "document.body.append(Object.assign(document.createElement('div'), {innerHTML: "
    await page.evaluate(f"{injected}{json.dumps(ATTACK)}}}))")
    assert await page.evaluate("window.hit") is None


async def test_without_content_it_shows_when_and_how(page: Page, written: Any) -> None:
    address = written(content=False)
    text = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    for secret in ("4417", "258", "hunter2", "I refund", "Ann", "sent ", "done**"):
        assert secret not in text.split('id="data">')[1].split("</script>")[0], secret
    await page.goto(address)
    await page.get_by_text("This file shows when and how, not what").wait_for()
    main = await page.get_by_role("main").inner_text()
    assert "send_refund" in main
    assert "2 of 7" in main


def test_secrets_are_left_out_with_content(written: Any) -> None:
    text = Path(written(content=True).removeprefix("file://")).read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert "hunter3" not in text
    assert "REDACTED" in text
