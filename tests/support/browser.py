"""A real, headless Chromium that can reach only this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Route, async_playwright, expect

_ARGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
expect.set_options(timeout=20_000)  # for a busy machine


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Finds the system's own Chromium. Without one the tests are skipped and say so; in CI they fail."""
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        assert not os.environ.get("CI"), "CI needs a Chromium"
        pytest.skip("the browser tests need Chromium or Chrome, which is not here; on Debian: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_ARGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def chromium_page() -> AsyncIterator[Page]:
    async with chromium() as browser:
        page = await browser.new_page(viewport={"width": 1400, "height": 1000})
        await page.route("**/*", _only_here)
        yield page


async def _only_here(route: Route) -> None:
    if urlsplit(route.request.url).hostname == "127.0.0.1":
        await route.continue_()
    else:
        await route.abort()


def complaints_of(page: Page, *, expected: str = "") -> list[str]:
    """A list that collects the page's complaints from now on: errors, and what its policy blocks. Error answers from
    addresses that contain one of `expected` are not complaints."""
    heard: list[str] = []

    def said(message: ConsoleMessage) -> None:
        refused = bool(expected) and expected in message.location.get("url", "")
        if message.type in ("error", "warning") and not refused:
            heard.append(f"{message.type}: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda error: heard.append(str(error)))
    return heard
