"""A visitor uses the page as several people in turn, with a real app behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.page.controls import Hint
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.workspace.records import User
from tests.sandbox.page.conftest import Scene
from tests.sandbox.page.visitor import Visitor, Visits
from tests.sandbox.small_app import FIRST_WORDS

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_reply_grows_while_the_agent_speaks(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await me.says("@adk-confirm status of checkout?")
    await me.opens_thread()
    growing = me.thread.locator(".message.streaming")
    await expect(growing).to_contain_text(FIRST_WORDS.replace("*", ""))
    await expect(growing.locator("strong", has_text="checkout")).to_be_visible()
    scene.app.go_on.set()
    grown = me.message("6 replicas", me.thread)
    await expect(grown.locator("li")).to_have_text(["version 2.14.0", "6 replicas"])
    await expect(growing).to_have_count(0)


async def test_a_session_shows_its_title_and_status_and_can_be_stopped(scene: Scene, visits: Visits) -> None:
    me = await visits()
    asked = await scene.dana.says("anybody there?", scene.deploys)
    where: dict[str, Any] = {"channel_id": scene.deploys.id, "thread_ts": asked.ts}
    set_status = "agents.sessions.setStatus"
    await scene.app.client.api_call(set_status, json={**where, "status": "processing", "title": "Anybody there"})
    await me.sees("adk-confirm is working…", within=me.chat)
    await me.message("anybody there?").hover()
    await me.message("anybody there?").get_by_role("link", name="Reply in thread").click()
    await me.sees("Anybody there", within=me.thread)
    await me.thread.get_by_role("button", name="Stop").click()
    await scene.slack.until(lambda: any(one.what == "agent_session_stopped" for one in scene.slack.deliveries))
    await scene.app.client.api_call(set_status, json={**where, "status": "suspended"})
    await me.sees("adk-confirm waits for people", within=me.thread)


async def test_what_is_new_stands_out_until_it_is_read(scene: Scene, visits: Visits) -> None:
    me = await visits()
    general = me.nav.get_by_role("link", name="general")
    await scene.dana.says("from myself", scene.general)
    await scene.olu.says("have you seen this?", scene.general)
    await scene.olu.says("and this?", scene.general)
    await expect(general).to_have_accessible_name("general 2 unread")
    await expect(me.page).to_have_title("(2) deploys · Acme sandbox")
    await general.click()
    await expect(me.chat.locator(".new")).to_be_visible()
    await expect(me.chat.locator(".new + .message")).to_contain_text("have you seen this?")
    await expect(general).to_have_accessible_name("general")
    await scene.slack.until(lambda: not scene.slack.workspace.unread(scene.dana.id, scene.general))


async def test_a_command_answers_only_who_typed_it(scene: Scene, visits: Visits) -> None:
    me, other = await visits(), await visits()
    await other.becomes(scene.olu)
    await me.page.get_by_role("button", name="Shortcuts and commands").click()
    entry = me.page.get_by_role("menuitem", name="/approvals")
    assert await entry.get_by_text("/approvals").evaluate("name => name.offsetHeight") < 30, "a word is broken"
    await entry.click()
    await me.presses("Enter")
    await me.sees("Waiting for you", within=me.chat)
    await other.does_not_see("Waiting for you")
    await me.clicks("Dismiss")
    await me.does_not_see("Waiting for you")
    await me.chat.get_by_role("combobox").fill("/approve everything")
    await me.presses("Enter")
    await me.sees("/approve is not a valid command.")
    await expect(me.chat.get_by_role("combobox")).to_have_value("/approve everything")
    await me.goes_to("general")
    await me.does_not_see("/approve is not a valid command.")


async def test_a_newcomer_is_told_what_to_say_where_the_app_hears_it(scene: Scene, visits: Visits) -> None:
    scene.slack.channel("quiet", scene.dana, with_app=False)
    me = await visits()
    await me.chat.get_by_role("button", name="@adk-confirm deploy checkout 2.14.0").click()
    await expect(me.chat.get_by_role("combobox")).to_have_value("@adk-confirm deploy checkout 2.14.0")
    await me.goes_to("adk-confirm")
    await me.page.get_by_role("tab", name="Messages").click()
    await me.chat.get_by_role("button", name="deploy checkout 2.14.0", exact=True).click()
    await expect(me.chat.get_by_role("combobox")).to_have_value("deploy checkout 2.14.0")
    await me.goes_to("quiet")
    await me.sees("adk-confirm is not in here.", within=me.chat)
    await expect(me.chat.locator(".try")).to_have_count(0)


class Leads:
    def hint(self, person: User) -> Hint:  # noqa: ARG002  (a `Guide`)
        return Hint("Ask for a deployment.", "Write it for me", {"say": "deploy"}, "1 of 4")


async def test_whoever_has_picked_words_is_told_to_send_them_and_not_to_pick_others(
    scene: Scene, visits: Visits
) -> None:
    scene.slack.page.stage = replace(scene.slack.page.stage, guide=Leads())
    me = await visits()
    hint = me.page.get_by_role("complementary", name="Next step")
    await expect(hint.get_by_role("button", name="Write it for me")).to_be_visible()
    await me.chat.get_by_role("button", name="@adk-confirm deploy checkout 2.14.0").click()
    await expect(hint).to_contain_text("Now send it.")
    await expect(hint.get_by_role("button", name="Write it for me")).to_be_hidden()


async def test_messages_of_ones_own_are_edited_and_deleted(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await me.says("helo @olu")
    await me.says("/approvals is a command")  # a command all the same: it goes to the app
    await me.sees("Waiting for you")
    await me.chat.get_by_role("combobox").focus()
    await me.presses("ArrowUp")
    box = me.page.get_by_role("textbox", name="Edit message")
    await expect(box).to_have_value("helo @olu")
    await box.fill("hello @olu")
    await box.press("Enter")
    edited = me.message("hello @olu")
    await expect(edited).to_contain_text("(edited)")
    assert "hello @olu" in scene.olu.sees(scene.deploys)
    await me.picks("Delete message…", of=edited)
    await me.clicks("Delete")
    await expect(edited).to_have_count(0)
    assert "hello" not in scene.olu.sees(scene.deploys)


async def test_files_go_with_a_message_and_are_read(scene: Scene, visits: Visits) -> None:
    me = await visits()
    picked = {"name": "call.json", "mimeType": "application/json", "buffer": b'{"amount": 1500, "to": "<b>"}'}
    await me.chat.locator("input[type=file]").set_input_files(picked)  # type: ignore[arg-type]  # a FilePayload
    await me.sees("call.json", within=me.chat)
    await me.says("this is the call")
    await me.message("this is the call").get_by_role("button", name="call.json").click()
    await me.sees('{"amount": 1500, "to": "<b>"}', within=me.dialog)
    await me.clicks("Close")
    file = next(iter(scene.slack.workspace.files))
    nora = scene.slack.person("nora")  # in the workspace, and so a reader of its public channels
    read = await me.page.request.get(f"{scene.slack.base}/sandbox/files/{file}?as={nora.id}")
    assert await read.body() == picked["buffer"]


async def test_from_outside_a_channel_is_read_and_joined(scene: Scene, visits: Visits) -> None:
    scene.slack.channel("random", scene.olu)
    hidden = scene.slack.channel("secret", scene.olu, private=True)
    me = await visits()
    await me.goes_to("random")
    await me.sees("You are looking at #random from outside.")
    await me.clicks("Join channel")
    await me.says("here I am")
    assert "here I am" in scene.olu.sees("#random")
    await expect(me.nav.get_by_role("link", name="secret")).to_have_count(0)
    scene.slack.workspace.directory.set_members(hidden.id, add=(scene.dana.id,))
    await expect(me.nav.get_by_role("link", name="secret")).to_be_visible()


async def test_a_permalink_leads_to_the_message_in_its_thread(scene: Scene, visits: Visits) -> None:
    asked = await scene.dana.says("where is it?", scene.deploys)
    for number in range(30):
        await scene.olu.says(f"not here {number}", scene.deploys)
    answer = await scene.olu.says("it is here", scene.deploys, thread=asked)
    link = scene.slack.workspace.permalink(answer.message)
    assert link.startswith("https://acme.slack.com/archives/")
    me = await visits(link.removeprefix("https://acme.slack.com"))
    await expect(me.message("it is here", me.thread)).to_be_focused()
    await scene.app.client.chat_postMessage(channel=scene.general.id, text=f"<{link}|Look there>")
    await me.goes_to("general")
    await me.page.get_by_role("link", name="Look there").click()
    await expect(me.message("it is here", me.thread)).to_be_focused()


async def test_a_sandbox_that_was_away_comes_back(browser: Browser) -> None:
    page = await browser.new_page()
    me = Visitor(page)
    async with Sandbox(our_app()) as slack:
        address = urlsplit(slack.base)
        slack.channel("deploys", slack.person("dana"))
        await page.goto(slack.base)
        await expect(page.get_by_role("radio", name="dana")).to_have_attribute("aria-checked", "true")
    await me.sees("The sandbox does not answer. Trying again…")
    async with Sandbox(our_app(), port=address.port or 0) as slack:
        erik = slack.person("erik", id="U0ERIK")
        slack.channel("deploys", erik)
        await expect(page.get_by_role("radio", name="erik")).to_have_attribute("aria-checked", "true")
        await me.does_not_see("The sandbox does not answer.")
        await me.says("hello again")
        assert "hello again" in erik.sees("#deploys")
    await page.close()
