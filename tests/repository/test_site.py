"""The site of the manual, built and read in a browser: rules of accessibility, no other host, and
nothing lost without JavaScript.
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from ..support.pages import axe as axe

ROOT = Path(__file__).parents[2]
PAGES = ("", "first-hour/kill-it/", "concepts/run/", "guides/tools/", "operations/operating/")

pytestmark = [pytest.mark.trial, pytest.mark.timeout(400)]


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    subprocess.run([sys.executable, "docs/build_site.py"], cwd=ROOT, check=True)
    handler = functools.partial(_Silent, directory=str(ROOT / "site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_keep_to_the_rules_of_accessibility_and_ask_no_other_host(
    site: str, browser: Browser, axe: str, scheme: str
) -> None:
    context = await browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = await context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    found = {}
    for name in PAGES:
        await page.goto(site + name)
        violations = await page.evaluate(f"{axe}; axe.run().then((found) => found.violations)")
        found[name] = [
            (each["id"], [node["target"] for node in each["nodes"]][:3])
            for each in violations
            if each["impact"] in ("serious", "critical")
        ]
    await context.close()
    assert found == {name: [] for name in PAGES}
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []


async def test_pages_read_without_javascript(site: str, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(site + "concepts/run/")
    assert "Run" in await page.get_by_role("heading", level=1).inner_text()
    assert await page.get_by_text("one execution of an agent").is_visible()
    await page.get_by_role("link", name="How a run works").first.click()
    assert "how-a-run-works" in page.url
    await context.close()
