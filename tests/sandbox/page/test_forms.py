"""Forms on the page: errors at their fields, stacked modals, confirmation dialogs, and use by keyboard alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.async_api import expect

from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.words import CONFIRM_APPROVE
from adk_confirm.sandbox.people.forms import entered_in
from tests.blocks import samples
from tests.sandbox.page.conftest import Scene
from tests.sandbox.page.visitor import Visits
from tests.sandbox.test_views import FIELDS, field, modal, trigger

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_form_is_sent_back_until_it_is_right(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await scene.app.asks(scene.deploys.id, "")
    await me.clicks("Deny…: deploy")
    reason = me.dialog.get_by_role("textbox", name="Reason")
    await expect(reason).to_be_focused()
    hint = "Required by the policy. The agent reads this, and can propose something better."
    await expect(reason).to_have_accessible_description(hint)
    await me.clicks("Deny")
    await expect(reason).to_have_attribute("aria-invalid", "true")
    await expect(reason).to_be_focused()
    await expect(reason).to_have_accessible_description(f"{hint} Please complete this required field.")
    await expect(me.page.get_by_role("log")).to_contain_text("One field needs another look.")
    assert scene.app.submitted == []
    await reason.fill("no")
    await me.clicks("Deny")
    await me.sees("Say a little more than that.", within=me.dialog)
    await reason.fill("Not during the sale.")
    await me.does_not_see("Please complete")
    await me.clicks("Deny")
    await me.sees("Counting…", within=me.dialog)
    await expect(me.dialog.locator(":focus")).to_have_count(1)
    await scene.app.tells_verdict()
    await me.sees("You denied Deploy checkout 2.14.0 to prod. It won't run.", within=me.dialog)
    await expect(me.page.get_by_role("log")).to_contain_text("You denied Deploy checkout")
    await expect(me.dialog.locator(":focus")).to_have_count(1)
    await me.presses("Enter")  # the button to close it is all there is
    await expect(me.dialog).to_have_count(0)
    await me.sees("Denied: Deploy")
    await me.sees("Not during the sale.")
    [*_, last] = scene.app.submitted
    assert last["reason"][Action.FIELD.value]["value"] == "Not during the sale."


async def test_every_kind_of_field_says_what_was_entered(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await scene.app.asks(scene.deploys.id, "")
    await me.clicks("Edit…: deploy")
    await me.dialog.get_by_label("version").fill("2.14.1")
    await me.dialog.get_by_label("env").select_option("staging")
    await me.dialog.get_by_label("replicas").fill("4")
    await me.dialog.get_by_role("radiogroup", name="dry run").get_by_label("yes").check()
    await me.dialog.get_by_label("when").fill("2026-12-01")
    await me.clicks("Approve edit")
    await expect(me.dialog).to_have_count(0)
    [values] = scene.app.submitted
    entered = [next(iter(block.values())) for block in values.values()]
    assert [each.get("value") for each in entered if "value" in each] == ["2.14.1", "4"]
    assert [each["selected_date"] for each in entered if "selected_date" in each] == ["2026-12-01"]
    options = [each["selected_option"]["text"]["text"] for each in entered if "selected_option" in each]
    assert options == ["staging", "yes"]
    await me.sees("env prod → staging")


async def test_dates_and_lists_are_chosen_not_typed(scene: Scene, visits: Visits) -> None:
    me = await visits()
    fields = [field(name, **element) for name, element in FIELDS.items()]
    view = modal("Edit", *fields, submit={"type": "plain_text", "text": "Save"})
    await scene.app.client.views_open(trigger_id=trigger(scene.slack, scene.dana), view=view)
    day, start = me.dialog.get_by_label("day"), me.dialog.get_by_label("start")
    regions = me.dialog.get_by_role("group", name="regions")
    await expect(day).to_have_value("2026-12-05")
    await expect(start).to_have_value("2026-05-28T22:27")
    await day.fill("2028-02-29")
    await regions.get_by_label("gamma").check()
    await regions.get_by_label("alpha").check()
    await expect(regions.get_by_label("beta")).to_be_disabled()
    await me.dialog.get_by_role("group", name="checks").get_by_label("beta").uncheck()
    form = scene.dana.modal()
    assert form is not None
    chosen = {"day": "2028-02-29", "start": "2026-05-28 22:27", "regions": "alpha, gamma", "checks": ""}
    await scene.slack.until(lambda: form.fields == chosen)
    assert entered_in(form.view, fields[1]) == {"type": "datetimepicker", "selected_date_time": 1_780_000_042}
    await start.fill("2026-12-05T22:00")
    await day.focus()
    await scene.slack.until(lambda: form.fields["start"] == "2026-12-05 22:00")
    await me.page.reload()
    await expect(me.dialog.get_by_label("start")).to_have_value("2026-12-05T22:00")
    await expect(regions.get_by_label("gamma")).to_be_checked()


async def test_what_was_typed_outlives_a_redraw_and_a_change_of_person(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await scene.app.asks(scene.deploys.id, "")
    await me.clicks("Edit…: deploy")
    await me.dialog.get_by_label("version").fill("2.14.1")
    await me.dialog.get_by_label("replicas").fill("5")
    await scene.slack.until(lambda: (modal := scene.dana.modal()) and modal.fields["version"] == "2.14.1")
    modal = scene.dana.modal()
    assert modal is not None
    view = {**modal.view.body, "title": {"type": "plain_text", "text": "Edit once more"}}
    await scene.app.client.views_update(view_id=modal.view.id, view=view)
    await me.sees("Edit once more", within=me.dialog)
    await expect(me.dialog.get_by_label("replicas")).to_have_value("5")
    await expect(me.dialog.get_by_label("replicas")).to_be_focused()
    await me.dialog.get_by_label("version").focus()
    await scene.slack.until(lambda: (seen := scene.dana.modal()) and seen.fields["replicas"] == "5")
    await me.page.reload()
    await expect(me.dialog.get_by_label("version")).to_have_value("2.14.1")
    await expect(me.dialog.get_by_label("replicas")).to_have_value("5")


async def test_slacks_own_question_comes_before_the_click(scene: Scene, visits: Visits) -> None:
    me = await visits()
    scene.app.view = replace(scene.app.view, confirm_dialog=True)
    await scene.app.asks(scene.deploys.id, "")
    await me.clicks("Approve: deploy")
    question = me.page.get_by_role("alertdialog", name="Approve this call?")
    await expect(question).to_have_accessible_description(re.compile(re.escape(CONFIRM_APPROVE[1])))
    await me.clicks("Back")
    await expect(me.page.get_by_role("button", name="Approve: deploy")).to_be_focused()
    await me.clicks("Approve: deploy")
    await me.presses("Escape")
    assert [made for made in scene.slack.deliveries if made.what == "block_actions"] == []
    await me.clicks("Approve: deploy")
    await me.clicks("Approve")
    await me.sees("Needs 1 more approval")


async def test_a_click_counts_though_the_message_changes_during_it(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await scene.app.asks(scene.deploys.id, "")
    await me.page.get_by_role("button", name="More options").hover()
    await me.page.mouse.down()
    await scene.app.redraws(replace(samples.EDITABLE, hint="It is urgent."))
    await expect(me.page.get_by_role("log")).to_contain_text("changed")
    await me.page.mouse.up()
    await expect(me.page.get_by_role("menuitem", name="Withdraw…")).to_be_visible()
    await me.sees("It is urgent.")
    await me.page.get_by_role("menuitem", name="Withdraw…").click()
    await me.sees("Withdrawn: Deploy")


async def test_from_the_question_to_the_submit_without_a_mouse(scene: Scene, visits: Visits) -> None:
    me = await visits()
    await me.presses("F6", "F6", "F6")
    await expect(me.chat.get_by_role("combobox")).to_be_focused()
    await me.page.keyboard.type("@adk")
    await expect(me.page.get_by_role("option", name="@adk-confirm")).to_have_attribute("aria-selected", "true")
    await me.presses("Enter")
    await me.page.keyboard.type("deploy checkout 2.14.0")
    await me.presses("Enter")
    await me.sees("1 reply", within=me.chat)
    await me.presses("Shift+F6")
    await expect(me.focused()).to_contain_text("deploy checkout 2.14.0")
    await me.presses("Enter")
    await expect(me.thread.get_by_role("combobox")).to_be_focused()
    for _ in range(5):
        await me.page.keyboard.press("Shift+Tab")
    edit = me.thread.get_by_role("button", name="Edit…: deploy")
    while not await edit.evaluate("node => node === document.activeElement"):
        await me.page.keyboard.press("Shift+Tab")
    await me.presses("Enter")
    version = me.dialog.get_by_label("version")
    await expect(version).to_be_focused()
    for _ in range(20):  # round and round, never out
        await me.page.keyboard.press("Tab")
        assert await me.page.evaluate("document.activeElement.closest('dialog') !== null")
    await me.presses("Escape")
    await expect(me.dialog).to_have_count(0)
    await expect(edit).to_be_focused()
    await me.presses("Enter")
    await expect(version).to_be_focused()
    await me.presses("Control+a")
    await me.page.keyboard.type("2.14.1")
    await me.presses("Enter")
    await me.sees("Needs 1 more approval", within=me.thread)
    await expect(me.thread.locator(":focus")).to_have_count(1)  # where the button was, or at the message
