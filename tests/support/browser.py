"""A headless Chromium for tests of pages that people look at: one for all tests of a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from .needs import lacking, program

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

PATIENCE = 60_000.0
"""Milliseconds that a page may take, on a busy machine."""


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, driven by playwright; skips with a reason where one of them is missing."""
    chromium = program("chromium", "chromium-browser", package="chromium")
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        lacking("playwright (pip install playwright)")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """An empty page without cookies or storage of other tests; waits are long, because pages may be
    slow.
    """
    context = await browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE)
    try:
        yield await context.new_page()
    finally:
        await context.close()
