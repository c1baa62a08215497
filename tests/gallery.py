"""Draws every face of the golden files in a real Chromium, on a phone and at a desk, light and dark: `make gallery`.

The cases are those of `tests/blocks/test_golden.py`. The pictures and a page with all of them are in `gallery/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import as_object, objects
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.page.screen import Stage
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import Channel
from tests.blocks import samples
from tests.blocks.test_golden import SENT, surface
from tests.sandbox.page.test_looks import at_noon
from tests.sandbox.small_app import SmallApp, small_app
from tests.support.browser import chromium

GALLERY = Path(__file__).resolve().parent.parent / "gallery"
WIDTHS, MODES = (390, 1280), ("light", "dark")
OPENS = {  # what a button of these opens, by what is pressed: the menu and the dialogs
    "card_waiting": {"menu": "button.more"},
    "card_waiting_edited": {"approve": "button >> text=Approve"},
    "card_unknown": {"happened": "text=Yes, it did", "did_not": "text=No, it didn't", "again": "text=Run again…"},
    "card_done_granted": {"revoke": "text=Stop allowing"},
    "message_pointer": {"withdraw": "text=Withdraw"},
}


async def _messages(app: SmallApp, channel: Channel, page: Page, now: float) -> AsyncIterator[tuple[str, Locator]]:
    shown = page.locator("main li.message")
    for at, (name, payload) in enumerate((n, p) for n, p in SENT.items() if surface(n) == "message"):
        if await shown.count() <= at:
            await app.client.chat_postMessage(channel=channel.id, **at_noon(payload, now))
        await expect(shown.nth(at)).to_be_visible()
        yield name, shown.nth(at)
        for part, button in OPENS.get(name, {}).items():
            await shown.nth(at).locator(button).click()
            opened = page.locator("[role=menu], dialog[open]")
            await expect(opened).to_be_visible()
            yield f"{name}_{part}", opened
            await page.keyboard.press("Escape")
            await expect(opened).to_have_count(0)


async def _views(slack: Sandbox, me: Person, page: Page, now: float) -> AsyncIterator[tuple[str, Locator]]:
    views = slack.workspace.views
    for name, payload in SENT.items():
        if surface(name) == "modal":
            view = views.open(me.user.team_id, me.id, at_noon(payload, now))
            dialog = page.locator("dialog[open]")
            await expect(dialog.locator("h3, .block").first).to_be_visible()
            await dialog.evaluate("dialog => { dialog.style.maxHeight = 'none' }")
            yield name, dialog
            views.close(view)
            await expect(dialog).to_have_count(0)


async def _homes(
    slack: Sandbox, app: SmallApp, me: Person, page: Page, now: float
) -> AsyncIterator[tuple[str, Locator]]:
    for name, payload in SENT.items():
        if surface(name) == "home":
            await page.goto(f"{slack.base}/#/home")
            await expect(page.locator(".home-body .block").first).to_be_visible()
            await app.client.views_publish(user_id=me.id, view=at_noon(payload, now))
            title = as_object(objects(payload["blocks"])[-1]).get("block_id")
            await expect(page.locator(f'[data-block="{title}"]')).to_be_visible()
            yield name, page.locator(".home-body")


async def _draw(browser: Browser, width: int, mode: str) -> None:
    async with Sandbox(our_app()) as slack:
        me = slack.person("dana", id=samples.DANA, real_name="Dana Ortiz")
        slack.person("olu", id=samples.OPS, real_name="Olu Adeyemi")
        slack.person("adk-confirm", id=samples.BOT)
        slack.person("lea", id=samples.LEAD, real_name="Lea Moreau")
        channel = slack.channel("deploys", me, id="C0DEPLOYS")
        slack.group("oncall", id="S0ONCALL")
        slack.group("leads", id="S0LEADS")
        slack.page.stage = Stage(roles={}, shortcuts=(), commands={}, tries={}, start=channel.id)
        async with small_app(slack) as app:
            page = await browser.new_page(
                viewport={"width": width, "height": 2400},
                color_scheme="dark" if mode == "dark" else "light",
                reduced_motion="reduce",
            )
            await page.goto(slack.base)
            await page.locator(".face[aria-checked=true]").wait_for()
            now = slack.clock.now()
            for drawn in (
                _messages(app, channel, page, now),
                _views(slack, me, page, now),
                _homes(slack, app, me, page, now),
            ):
                async for name, where in drawn:
                    await where.screenshot(path=GALLERY / f"{name}-{width}-{mode}.png", animations="disabled")
            await page.close()


def _index() -> str:
    rows, first = [], f"-{WIDTHS[0]}-{MODES[0]}.png"
    for name in (path.name.removesuffix(first) for path in sorted(GALLERY.glob(f"*{first}"))):
        shots = [f"{name}-{width}-{mode}.png" for mode in MODES for width in WIDTHS]
        pictures = "".join(f'<img src="{shot}" alt="{shot}" loading="lazy">' for shot in shots)
        rows.append(f"<section><h2>{escape(name)}</h2>{pictures}</section>")
    style = "body{font:14px system-ui;background:#777}section{margin:1rem}img{margin:.25rem;vertical-align:top;}"
    return f"<!doctype html><meta charset=utf-8><title>Every face</title><style>{style}</style>{''.join(rows)}"


async def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    async with chromium() as browser:
        for width in WIDTHS:
            for mode in MODES:
                await _draw(browser, width, mode)
    (GALLERY / "index.html").write_text(_index(), encoding="utf-8")
    print(f"The faces are in {GALLERY}/index.html")


if __name__ == "__main__":
    asyncio.run(main())
