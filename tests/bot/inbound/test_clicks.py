"""Clicks and forms: where they come from, that they go first, and what happens if Slack does not open a form."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.inbound.after_ack import PAUSES, AfterAck
from adk_confirm.bot.inbound.bolt_app import TimedApp
from adk_confirm.bot.inbound.payloads import is_ignored, person_of, read_message_event, team_of, without_mention
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.slack.names import NameLookup
from adk_confirm.runtime.store.transaction import Job
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.faults import Fault, Faults
from tests.support.deciding import person
from tests.support.office import Office
from tests.support.outgoing import outgoing
from tests.support.waiting import until

# Which workspace an interaction comes from, and who acted


USER = {"id": "U0ANN", "team_id": "T0HERS"}


@pytest.mark.parametrize(
    ("body", "team"),
    [
        ({"team": {"id": "T0ACME"}, "enterprise": None}, "T0ACME"),
        ({"team": None}, "T0HERS"),
        ({"team": {"id": "T0HERS"}, "view": {"app_installed_team_id": "T0ACME"}}, "T0ACME"),
    ],
)
def test_a_click_or_a_form(body: dict[str, Any], team: str) -> None:
    assert team_of({"user": USER, **body}) == team


@pytest.mark.parametrize(
    ("user", "who"),
    [
        ({"id": "U0ANN", "team_id": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"id": "U0ANN"}, Person("T0ACME", "U0ANN")),
        ({"id": "U0ANN", "team_id": "E0CORP"}, Person("T0ACME", "U0ANN")),
    ],
)
def test_who_clicked_is_of_their_own_workspace(user: dict[str, Any], who: Person) -> None:
    assert person_of({"user": user, "team": {"id": "T0ACME", "enterprise_id": "E0CORP"}}) == who


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({}, Person("T0ACME", "U0ANN")),
        ({"team": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "T0HERS", "team": "T0ACME"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "E0CORP", "team": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "E0CORP", "team": "E0CORP"}, Person("T0ACME", "U0ANN")),
    ],
)
def test_who_spoke_is_who_clicks(fields: dict[str, Any], who: Person) -> None:
    """Slack may tell the organisation with words and the workspace with a click: it is the same person."""
    event = {"user": "U0ANN", "channel": "C1", "ts": "1.1", "text": "<@U0BOT> hi", **fields}
    heard = read_message_event({"team_id": "T0ACME", "event": event}, "oncall", "U0BOT")
    assert heard is not None
    assert heard.heard.person == who


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({}, False),
        ({"subtype": "file_share"}, False),
        ({"bot_id": "B1"}, True),
        ({"subtype": "message_changed"}, True),
        ({"hidden": True}, True),
        ({"type": "app_mention", "bot_id": "B1"}, False),
        ({"type": "reaction_added", "subtype": "any"}, False),
    ],
)
def test_a_message_that_is_ignored_is_never_read(fields: dict[str, Any], ignored: bool) -> None:
    event = {"type": "message", "user": "U0ANN", "channel": "D1", "ts": "1.1", "text": "hi", **fields}
    assert is_ignored({"team_id": "T0ACME", "event": event}) is ignored
    assert not (ignored and read_message_event({"team_id": "T0ACME", "event": event}, "oncall", "U0BOT"))


@pytest.mark.parametrize("body", [{}, {"event": None}, {"event": "message"}, {"type": "block_actions"}])
def test_what_is_no_message_event_is_not_ignored(body: dict[str, Any]) -> None:
    assert not is_ignored(body)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("see <https://wiki.example/x|the runbook>", "see the runbook (https://wiki.example/x)"),
        ("see <https://wiki.example/x|wiki.example/x>", "see wiki.example/x"),
        ("see <https://wiki.example/x>", "see https://wiki.example/x"),
        ("ask <mailto:a@b.example|a@b.example>", "ask a@b.example"),
        ("<https://evil.example|https://bank.example>", "https://bank.example (https://evil.example)"),
    ],
)
def test_an_agent_reads_where_a_labelled_link_leads(said: str, heard: str) -> None:
    assert without_mention(f"<@U0BOT> {said}", "U0BOT") == heard


# Clicks go first. What that means in the store is in `test_database.py`


async def test_the_transactions_of_a_click_go_first_and_those_of_an_event_do_not() -> None:
    """Nobody awaits an event's ack."""
    went_first: list[bool] = []
    app = TimedApp(lambda *_: None, client=AsyncWebClient(), authorize=anybody, request_verification_enabled=False)

    async def look(ack: AsyncAck) -> None:
        went_first.append(Job(lambda _: None, asyncio.get_running_loop().create_future()).goes_first)
        await ack()

    app.action("press")(look)
    app.event("app_mention")(look)
    button = {"type": "button", "action_id": "press"}
    click = {"type": "block_actions", "actions": [button], "user": {"id": "U0BOB"}}
    event = {"type": "event_callback", "event": {"type": "app_mention", "user": "U0BOB"}}
    for body in (click, event):
        request = AsyncBoltRequest(body={**body, "team": {"id": "T0ACME"}}, mode="socket_mode")
        assert (await app.async_dispatch(request)).status == 200
    await until(lambda: len(went_first) == 2)
    assert went_first == [True, False]


async def anybody(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token="xoxb-1")


# Slack does not open a form: the person who waits gets a message within seconds


LATER = "Slack does not show the form now: too much was asked of it. Try again in 30 s."
UNSURE = "Slack did not say whether it shows the form. If you don't see it, try again."


@dataclass(frozen=True)
class Wrong:
    """What Slack does instead of opening a form, and what is said to whoever pressed."""

    begins: Callable[[Faults, str], Fault]
    sentence: str


WRONGS = {
    "is-limited": Wrong(lambda faults, method: faults.limits(method, retry_after=30), LATER),
    "fails": Wrong(lambda faults, method: faults.fails(method, status=503), UNSURE),
    "is-cut-off": Wrong(lambda faults, method: faults.cuts(method), UNSURE),
    "hangs": Wrong(lambda faults, method: faults.hangs(method), UNSURE),
    "came-too-late": Wrong(
        lambda faults, method: faults.refuses(method, "expired_trigger_id"),
        "It took too long to open the window. Press the button again.",
    ),
    "is-refused": Wrong(
        lambda faults, method: faults.refuses(method, "invalid_blocks"),
        "Slack refused to show the form (invalid_blocks). Tell whoever runs this app: its log has the reason.",
    ),
}


@pytest.mark.parametrize("wrong", WRONGS)
async def test_a_form_from_a_card(at: Office, caplog: pytest.LogCaptureFixture, wrong: str) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    WRONGS[wrong].begins(at.slack.faults, "views.open")

    await at.bob.clicks(card, "Deny…")

    note = await at.bob.finds(WRONGS[wrong].sentence, at.deploys, thread=card)
    assert note.ephemeral
    assert note.message.only_for == at.bob.id
    assert "the form failed: " in caplog.text
    assert "trying again" not in caplog.text
    assert at.bob.modal() is None


async def from_home(at: Office, card: Seen) -> None:
    await (await at.bob.opens_home("Reimburse")).clicks("Review…")


async def from_a_list(at: Office, card: Seen) -> None:
    await at.bob.commands("/approvals", "", at.deploys)
    shown = await at.bob.finds("Waiting for you (1)", at.deploys)
    await at.bob.clicks(shown, "Review…")


@pytest.mark.parametrize("wrong", ["is-limited", "is-cut-off"])
@pytest.mark.parametrize(
    ("press", "what", "direct"),
    [(from_home, "the form", True), (from_a_list, "the form", False)],
)
async def test_a_form_from_elsewhere(
    at: Office, press: Callable[[Office, Seen], Awaitable[None]], what: str, direct: bool, wrong: str
) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    WRONGS[wrong].begins(at.slack.faults, "views.open")
    await press(at, card)
    await at.bob.finds(WRONGS[wrong].sentence.replace("the form", what), None if direct else at.deploys)


async def test_a_list_that_slack_takes_nowhere_at_first(at: Office) -> None:
    at.slack.faults.fails("response_url")
    at.slack.faults.fails("chat.postEphemeral")
    await at.bob.commands("/approvals", "", at.deploys)
    await at.bob.finds("Slack failed, and did not show the list. Try again.", at.deploys)


async def test_words_beside_a_card_are_tried_again_while_slack_fails(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    at.slack.faults.cuts("views.open")
    at.slack.faults.cuts("response_url")
    at.slack.faults.fails("chat.postEphemeral", times=3)
    await at.bob.clicks(card, "Deny…")
    await at.bob.finds(UNSURE, at.deploys, thread=card)


def test_words_are_tried_again_for_as_long_as_somebody_may_wait_for_them() -> None:
    assert 600 <= sum(PAUSES) <= 900


async def test_an_unexpected_error_is_logged_and_the_person_is_notified(caplog: pytest.LogCaptureFixture) -> None:
    async with outgoing() as out:
        errands = AfterAck(out.api, NameLookup(out.api))

        async def breaks() -> None:
            await asyncio.sleep(0)
            raise KeyError("amount")

        to = Seat(person=person(out.ann.id), channel=out.deploys.id)
        errands.begin("the form", breaks(), to)
        await errands.drain()

        await out.ann.finds("Something went wrong here, so the form can't be shown. Tell whoever", out.deploys)
    (record,) = [record for record in caplog.records if record.name == "adk_confirm.bot.inbound.after_ack"]
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "the form failed: KeyError"
    assert record.exc_info is not None
