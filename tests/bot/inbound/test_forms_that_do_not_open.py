"""Slack does not open a form: the person who waits gets a message within seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from adk_confirm.bot.confirmation.model import Seat
from adk_confirm.bot.inbound.after_ack import PAUSES, AfterAck
from adk_confirm.bot.inbound.commands_and_shortcuts import HISTORY
from adk_confirm.bot.slack.names import NameLookup
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.faults import Fault, Faults
from tests.support.deciding import person
from tests.support.office import Office
from tests.support.outgoing import outgoing

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
    await (await at.bob.opens_home("Reimburse")).clicks("Deny…")


async def from_a_list(at: Office, card: Seen) -> None:
    await at.bob.commands("/approvals", "", at.deploys)
    shown = await at.bob.finds("Waiting for you (1)", at.deploys)
    await at.bob.clicks(shown, "Deny…")


async def from_a_shortcut(at: Office, card: Seen) -> None:
    await at.bob.shortcut(HISTORY, at.bob.now(card))


@pytest.mark.parametrize("wrong", ["is-limited", "is-cut-off"])
@pytest.mark.parametrize(
    ("press", "what", "direct"),
    [(from_home, "the form", True), (from_a_list, "the form", False), (from_a_shortcut, "the history", False)],
)
async def test_a_form_from_elsewhere(
    at: Office, press: Callable[[Office, Seen], Awaitable[None]], what: str, direct: bool, wrong: str
) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    WRONGS[wrong].begins(at.slack.faults, "views.open")
    await press(at, card)
    await at.bob.finds(WRONGS[wrong].sentence.replace("the form", what), None if direct else at.deploys)


async def test_a_history_that_stops_half_way(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    at.slack.faults.fails("views.update", times=2)
    await at.bob.shortcut(HISTORY, at.bob.now(card))
    await at.bob.finds("Slack failed, and did not show the history. Try again.", at.deploys, thread=card)


async def test_a_list_that_slack_takes_nowhere_at_first(at: Office) -> None:
    at.slack.faults.fails("response_url")
    at.slack.faults.fails("chat.postEphemeral", times=2)
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
