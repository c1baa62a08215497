"""A sandbox with its page, the small app behind it, five people, and a visitor with a real browser.

The browser lives as long as the session, and so do the loop and everything that has to do with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.page.screen import Shortcut, Stage
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import Channel
from tests.blocks import samples
from tests.sandbox.page.visitor import Visitor, Visits
from tests.sandbox.small_app import SmallApp, small_app
from tests.support.browser import complaints_of


@dataclass(frozen=True)
class Scene:
    slack: Sandbox
    app: SmallApp
    dana: Person
    olu: Person
    lea: Person
    max: Person
    deploys: Channel
    general: Channel


@pytest_asyncio.fixture(loop_scope="session")
async def scene() -> AsyncIterator[Scene]:
    async with Sandbox(our_app()) as slack:
        dana = slack.person("dana", id=samples.DANA, real_name="Dana Ortiz")
        olu = slack.person("olu", id=samples.OPS, real_name="Olu Adeyemi")
        lea = slack.person("lea", id=samples.LEAD, real_name="Lea Moreau", tz="America/New_York")
        stranger = slack.person("max", id="U0MAX", real_name="Max Kim")
        everybody = (dana, olu, lea, stranger)
        deploys, general = slack.channel("deploys", *everybody, id="C0DEPLOYS"), slack.channel("general", *everybody)
        slack.group("oncall", olu, id="S0ONCALL")
        slack.page.stage = Stage(
            roles={dana.id: "asks", lea.id: "lead", stranger.id: "may not approve"},
            shortcuts=(Shortcut("Approval history", "adk_confirm_history"), Shortcut("Take stock", "stock", "global")),
            commands={"/approvals": "What waits for you, and for this channel"},
            tries={"deploy checkout 2.14.0": ""},
            start=deploys.id,
        )
        async with small_app(slack) as app:
            yield Scene(slack, app, dana, olu, lea, stranger, deploys, general)


@dataclass(frozen=True)
class Window:
    """A browser's page, and what it complains about."""

    page: Page
    complaints: list[str]

    @classmethod
    async def of(cls, browser: Browser, *, touch: bool) -> Window:
        context = await browser.new_context(
            has_touch=touch, is_mobile=touch, permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce"
        )
        context.set_default_timeout(20_000)
        page = await context.new_page()
        return cls(page, complaints_of(page, expected="/sandbox/do/"))

    async def emptied(self) -> None:
        await self.page.evaluate("() => [localStorage, sessionStorage].forEach((each) => each.clear())")
        await self.page.goto("about:blank")


@pytest.fixture(scope="session")
def windows() -> dict[bool, list[Window]]:
    """Those that nobody looks through now, with touch and without. A fresh one is a process of the browser's, which
    takes longer than the page that is to be seen in it."""
    return {True: [], False: []}


@pytest_asyncio.fixture(loop_scope="session")
async def visits(browser: Browser, windows: dict[bool, list[Window]], scene: Scene) -> AsyncIterator[Visits]:
    """Opens the page as a visitor does. Whatever it complains about fails the test."""
    opened: list[tuple[bool, Window]] = []

    async def visit(
        path: str = "/", *, width: int = 1440, height: int = 900, dark: bool = False, touch: bool = False
    ) -> Visitor:
        window = windows[touch].pop() if windows[touch] else await Window.of(browser, touch=touch)
        opened.append((touch, window))
        page = window.page
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        await page.goto(f"{scene.slack.base}{path}")
        await page.locator(".face[aria-checked=true]").wait_for()
        return Visitor(page)

    yield visit
    heard: list[str] = []
    for touch, window in opened:
        await window.emptied()
        heard += window.complaints
        window.complaints.clear()
        windows[touch].append(window)
    assert heard == []
