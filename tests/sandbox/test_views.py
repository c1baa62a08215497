"""Modals and Home tabs: triggers that are valid for three seconds, a stack of three, and hashes against lost
updates."""

from __future__ import annotations

from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.refusals import Refused
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.tickets import TRIGGER_LIVES

Body = dict[str, Any]


def modal(title: str, *blocks: Body, **fields: object) -> Body:
    heading = {"type": "plain_text", "text": title}
    shown = list(blocks) or [{"type": "section", "text": heading}]
    return {"type": "modal", "title": heading, "blocks": shown, **fields}


def field(name: str, **element: object) -> Body:
    label = {"type": "plain_text", "text": name}
    inner = {"type": "plain_text_input", "action_id": "v", **element}
    return {"type": "input", "block_id": name, "label": label, "element": inner, "optional": True}


def options(*names: str) -> list[Body]:
    return [{"text": {"type": "plain_text", "text": name}, "value": name[0]} for name in names]


WORDS = ("alpha", "beta", "gamma")
FIELDS: dict[str, Body] = {
    "day": {"type": "datepicker", "initial_date": "2026-12-05"},
    "start": {"type": "datetimepicker", "initial_date_time": 1_780_000_042},
    "regions": {"type": "multi_static_select", "options": options(*WORDS), "max_selected_items": 2},
    "checks": {"type": "checkboxes", "options": options(*WORDS), "initial_options": options("beta")},
}
"""A field of each kind whose value is no text."""


def trigger(slack: FakeSlack, person: Person) -> str:
    return slack.workspace.tickets.trigger(slack.team.id, person.id)


async def test_a_trigger_opens_once_and_for_three_seconds(
    slack: FakeSlack, client: AsyncWebClient, ann: Person
) -> None:
    once = trigger(slack, ann)
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        await client.views_open(trigger_id=once, view=modal("x" * 25))
    await client.views_open(trigger_id=once, view=modal("Edit"))
    with pytest.raises(SlackApiError, match="exchanged_trigger_id"):
        await client.views_open(trigger_id=once, view=modal("Edit"))
    slack.workspace.tickets.trigger_lives = TRIGGER_LIVES
    late = trigger(slack, ann)
    slack.clock.advance(3.1)
    with pytest.raises(SlackApiError, match="expired_trigger_id"):
        await client.views_open(trigger_id=late, view=modal("Edit"))
    with pytest.raises(SlackApiError, match="invalid_trigger_id"):
        await client.views_open(trigger_id="1.2.3", view=modal("Edit"))


async def test_another_modal_takes_the_place_of_the_one_that_was_open(
    slack: FakeSlack, client: AsyncWebClient, ann: Person
) -> None:
    await client.views_open(trigger_id=trigger(slack, ann), view=modal("One"))
    one = await ann.gets_modal("One")
    await client.views_open(trigger_id=trigger(slack, ann), view=modal("Two"))
    assert not one.is_open()
    (await ann.gets_modal("Two")).closes()
    assert ann.modal() is None
    with pytest.raises(SlackApiError, match="not_found"):
        await client.views_update(view_id=one.view.id, view=modal("Gone"))


@pytest.mark.parametrize("answer", ["update", "trouble", "wrong block", "no form"])
async def test_the_answer_to_a_submission_is_followed(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, answer: str
) -> None:
    @app.view("edit")
    async def on_submit(ack: AsyncAck) -> None:
        if answer == "update":
            await ack(response_action="update", view=modal("Counting…"))
        elif answer == "wrong block":
            await ack(response_action="errors", errors={"nowhere": "?"})
        elif answer == "no form":
            await ack(response_action="update", view=modal("x" * 25))
        else:
            raise RuntimeError("crashed before its ack")

    view = modal("Edit", field("a"), callback_id="edit", submit={"type": "plain_text", "text": "Save"})
    await client.views_open(trigger_id=trigger(slack, ann), view=view)
    form = await ann.gets_modal("Edit")
    await form.submits({"a": "x"})
    if answer == "update":
        assert (form.title, form.is_open()) == ("Counting…", True)
    else:
        assert (form.title, form.is_open()) == ("Edit", True)
        assert ann.notices == ["We had some trouble connecting. Try again?"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("day", "2026-02-30"), ("day", "5 Dec"), ("start", "tonight"), ("regions", [*WORDS]), ("checks", ["delta"])],
)
async def test_nobody_can_choose_what_slack_does_not_offer(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, name: str, value: Any
) -> None:
    view = modal("Edit", field(name, **FIELDS[name]), submit={"type": "plain_text", "text": "Save"})
    await client.views_open(trigger_id=trigger(slack, ann), view=view)
    form = await ann.gets_modal("Edit")
    before = form.fields[name]
    with pytest.raises(Refused):
        await form.fill({name: value})
    assert form.fields[name] == before


async def test_a_person_reads_a_moment_in_their_own_time_zone(slack: FakeSlack, client: AsyncWebClient) -> None:
    eve = slack.person("eve", tz="America/New_York")
    fields = [field(name, **element) for name, element in FIELDS.items()]
    view = modal("Edit", *fields, submit={"type": "plain_text", "text": "Save"})
    await client.views_open(trigger_id=trigger(slack, eve), view=view)
    form = await eve.gets_modal("Edit")
    assert form.fields == {"day": "2026-12-05", "start": "2026-05-28 16:27", "regions": "", "checks": "beta"}


async def test_an_empty_date_is_asked_for(slack: FakeSlack, client: AsyncWebClient, ann: Person) -> None:
    fields = [{**field(name, **element), "optional": False} for name, element in FIELDS.items()]
    view = modal("Edit", *fields, submit={"type": "plain_text", "text": "Save"})
    await client.views_open(trigger_id=trigger(slack, ann), view=view)
    form = await ann.gets_modal("Edit")
    assert await form.submits({"day": None, "start": None, "checks": []}) is None
    assert form.errors == dict.fromkeys(FIELDS, "Please complete this required field.")
