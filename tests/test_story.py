"""The whole story in a real browser, on the demo as `make demo` shows it. The README's pictures are taken on the way,
so that they never lie: `UPDATE_PICTURES=1` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from bot.demo.stage import staged
from tests.sandbox.page.visitor import Visitor
from tests.support.browser import chromium, complaints_of

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "images"

pytestmark = pytest.mark.browser


async def take(picture: Locator, name: str) -> None:
    """A picture of what is there, for the README if it is wanted; taken all the same, since it must be possible."""
    await picture.page.mouse.move(0, 0)  # no menu that only a pointer brings
    taken = await picture.screenshot(animations="disabled")
    if os.environ.get("UPDATE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / f"{name}.png").write_bytes(taken)
    assert (PICTURES / f"{name}.png").is_file()


@pytest.mark.timeout(120)
async def test_ask_refuse_edit_vote_run_and_read_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "tools.log"))
    async with staged(port=0) as demo, chromium() as browser:
        context = await browser.new_context(
            viewport={"width": 1440, "height": 1000},
            device_scale_factor=2,
            color_scheme="light",
            reduced_motion="reduce",
        )
        page = await context.new_page()
        complaints = complaints_of(page, expected="/sandbox/do/")
        me = Visitor(page)
        await page.goto(demo.url)

        await me.says("@adk-confirm deploy checkout 2.4.1 to prod")
        await me.opens_thread()
        await me.sees("Approve deploy?", within=me.thread)
        card = me.message("Approve deploy?", me.thread)
        await me.sees("0 of 2 approvals", within=me.thread)
        await take(card, "waiting")

        await me.becomes(demo.people["olga"])
        await me.clicks("Approve: deploy")
        await me.sees("You can't decide this one", within=me.thread)

        await me.becomes(demo.people["ben"])
        await me.clicks("Edit…: deploy")
        await me.dialog.get_by_label("version").fill("2.4.2")
        await me.clicks("Approve edited")
        await me.sees("1 of 2", within=me.dialog)
        await me.clicks("Close", within=me.dialog)
        await me.sees("1 of 2 approvals", within=me.thread)
        await expect(me.message("1 of 2 approvals", me.thread)).to_contain_text("version 2.4.1 → 2.4.2")
        await take(me.message("1 of 2 approvals", me.thread), "edited")

        await me.becomes(demo.people["chris"])
        await me.clicks("Approve: deploy")
        await me.sees("deploy is done", within=me.thread)
        await take(me.message("deploy is done", me.thread).first, "done")
        await expect(me.thread.get_by_role("button", name="Approve")).to_have_count(0)

        await me.becomes(demo.people["ana"])
        await me.sees("checkout 2.4.2", within=me.thread)  # the agent speaks about what ran
        await me.sees("approved by", within=me.thread)
        await expect(me.panel).to_contain_text("done")  # the ledger, beside the chat
        await context.close()

    assert complaints == []
    ran = (tmp_path / "tools.log").read_text(encoding="utf-8").splitlines()
    assert len(ran) == 1
    assert '"version": "2.4.2"' in ran[0]
