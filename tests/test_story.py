"""The whole story in a real browser, on the demo as `make demo` shows it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from adk_confirm.demo.stage import Demo, running_demo
from tests.sandbox.page.visitor import Visitor
from tests.support.audit import audit
from tests.support.browser import complaints_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "tools.log"))
    return tmp_path / "tools.log"


def ran(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@asynccontextmanager
async def visited(demo: Demo, browser: Browser) -> AsyncIterator[Visitor]:
    """The demo in a window as large as a laptop's. The page has nothing to complain about."""
    context = await browser.new_context(
        viewport={"width": 1440, "height": 1000}, color_scheme="light", reduced_motion="reduce"
    )
    page = await context.new_page()
    complaints = complaints_of(page, expected="/sandbox/do/")
    await page.goto(demo.url)
    yield Visitor(page)
    await context.close()
    assert complaints == []


async def test_ask_refuse_vote_run_and_read_the_audit(log: Path, browser: Browser) -> None:
    async with running_demo(port=0) as demo, visited(demo, browser) as me:
        await me.clicks("Close the panel")
        await me.says("@adk-confirm deploy checkout 2.4.1 to prod")
        await me.opens_thread()
        await me.sees("Needs 2 approvals", within=me.thread)

        await me.becomes(demo.people["olga"])
        await me.clicks("Approve: deploy")
        await me.sees("you are not an approver")
        await me.clicks("Close", within=me.dialog.locator(".dialog-foot"))

        await me.becomes(demo.people["ben"])
        await expect(me.message("Needs 2 approvals", me.thread).locator(".content")).to_contain_text("+ checkout 2.4.1")
        await me.clicks("Approve: deploy")
        await me.sees("Needs 1 more approval", within=me.thread)

        await me.becomes(demo.people["chris"])
        await me.clicks("Approve: deploy")
        done = me.message("✅ Done: Deploy", me.thread)
        await expect(me.thread.get_by_role("button", name="Approve")).to_have_count(0)

        await me.becomes(demo.people["ana"])
        await me.sees("checkout 2.4.1 is on prod now.", within=me.thread)  # the agent speaks about what ran
        await me.sees("Approved by ben and chris", within=me.thread)
        await reads_the_audit(me, done)

    assert [call["version"] for call in ran(log)] == ["2.4.1"]


async def reads_the_audit(me: Visitor, done: Locator) -> None:
    """In the card's history, and as the lines themselves beside the chat: each carries the hash of the one before."""
    await me.clicks("More options", within=done)
    await me.page.get_by_role("menuitem", name="History").click()
    await me.sees("Ran", within=me.dialog)
    story = await me.dialog.inner_text()
    steps = ("Asked by ana.", "olga", "ben approved", "chris approved", "2 of 2 approvals", "Ran")
    assert sorted(steps, key=story.index) == [*steps]
    await me.presses("Escape")

    await me.page.get_by_role("button", name="Behind the scenes").click()
    lines = list[dict[str, object]]()
    for kind in ("approved", "started"):
        line = me.panel.locator(".panel-item", has=me.page.get_by_text(kind, exact=True))
        await line.locator("summary").click()
        shown = line.get_by_role("region", name="JSON")
        await expect(shown).to_contain_text('"hash"')
        lines.append(json.loads(await shown.inner_text()))
    decided, begun = lines
    assert begun["previous"] == decided["hash"]


@pytest.mark.slow
async def test_on_a_phone_hints_lead_time_moves_and_the_bot_crashes_and_comes_back(log: Path, browser: Browser) -> None:
    async with running_demo(port=0) as demo:
        context = await browser.new_context(
            viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True, reduced_motion="reduce"
        )
        me = Visitor(await context.new_page())
        complaints = complaints_of(me.page, expected="/sandbox/do/")
        await me.page.goto(demo.url)
        for role in ("asks", "on call", "lead", "outsider"):
            await expect(me.page.locator(".face-role", has_text=role).first).to_be_in_viewport()

        await me.sees("Agents ask. People decide.", within=me.chat)
        await expect(me.page.get_by_role("complementary", name="Next step")).to_contain_text("1 of 4")
        await me.clicks("Hide hints")
        await expect(me.page.get_by_role("complementary", name="Next step")).to_be_hidden()
        await me.clicks("Show hints")
        await me.clicks("Write it for me")
        await me.chat.get_by_role("combobox").press("Enter")
        await me.clicks("Be ben")
        await me.clicks("Open the card")
        await expect(me.thread.get_by_role("button", name="Approve").last).to_be_visible()

        await me.clicks("Hide hints")
        await me.clicks("Let 10 minutes pass")
        await expect(me.page.locator(".control-clock")).to_have_attribute("title", "10 minutes ahead of the real time")
        await me.clicks("Bot on")
        await me.page.get_by_role("menuitem", name="Crash now").click()
        await expect(me.page.get_by_role("button", name="Bot off")).to_be_visible()
        rights = "nodes => nodes.map(node => node.getBoundingClientRect().right)"
        assert max(await me.page.locator(".bar button").evaluate_all(rights)) <= 390
        await me.thread.get_by_role("button", name="Deny…").last.click()
        await expect(me.page.get_by_role("alert")).to_be_visible()  # as in Slack: the click did not get through
        assert await audit(me.page) == []
        await me.clicks("Bot off")
        await me.page.get_by_role("menuitem", name="Start the bot").click()
        await expect(me.page.get_by_role("button", name="Bot on")).to_be_visible(timeout=60_000)
        await me.thread.get_by_role("button", name="Deny…").last.click()
        await expect(me.dialog).to_be_visible()
        await context.close()
        assert complaints == []
