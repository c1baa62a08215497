"""Tables, containers and alerts where Slack accepts them, and the older blocks at once where it does not."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from blocks.card import card as drawn
from blocks.kit import Message
from blocks.newer import Newer, kinds
from blocks.verdict import notice_modal
from bot.sandbox.people.seen import Modal, Seen
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, RefusedBySlack
from bot.slack.outbound.feature_support import INSTEAD
from bot.slack.outbound.newest_form import FEATURES
from bot.store.refused_features import refused_features
from runtime.jsontypes import JsonObject, objects
from tests.blocks import samples
from tests.support.newer_blocks import accept_everything
from tests.support.office import Office, Opens
from tests.support.outgoing import AT, Outgoing, outgoing

SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
ANYTHING = "tests.support.anything:agent"
GUESTS = '[{"name": "Ada", "seats": 2}, {"name": "Bo", "seats": 1}]'


@pytest.fixture
def database_url(sqlite_stocked: str) -> str:
    """What is shown here does not differ by the database."""
    return sqlite_stocked


def used(shown: Seen | Modal) -> set[str]:
    blocks = shown.message.blocks if isinstance(shown, Seen) else objects(shown.view.body.get("blocks"))
    return {kind.value for kind in kinds(blocks)}


def is_todays(args: JsonObject) -> bool:
    """A card without the newer blocks."""
    return "confirmation_card" in str(args.get("metadata")) and not kinds(objects(args.get("blocks")))


def refusals(at: Office) -> int:
    return sum("unsupported type" in str(call.answer) for call in at.slack.calls)


async def ended(at: Office, card: Seen) -> Seen:
    await at.bob.clicks(card, "Approve")
    await at.slack.until(lambda: "✅ Done" in at.ann.now(card) or None, what="the card to show the end")
    return at.ann.now(card)


# Cards


@SOCKET
async def test_cards_where_the_workspace_refuses_tables_and_containers(
    open_office: Opens, socket: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_office(target=ANYTHING, socket=socket, time_moves=True) as at:
        card = await at.ask(GUESTS)
        assert used(card) == {"table"}
        assert "name | seats" in card
        assert used(await ended(at, card)) == {"container"}

        at.slack.workspace.refused_blocks = {"table", "container"}
        at.slack.faults.cuts("chat.postMessage", acted=True, where=is_todays)
        at.slack.faults.limits("chat.update", retry_after=1, where=is_todays)
        card = await at.ask(GUESTS)
        assert used(card) == set()
        assert "• name Ada · seats 2" in card
        done = await ended(at, card)
        assert used(done) == set()
        assert "Done" in done
        assert "seats 2" in done
        assert len([one for one in at.ann.messages(at.deploys, thread=card) if "• name Ada" in one]) == 1

        known = refusals(at)
        await ended(at, await at.ask(GUESTS))
        assert refusals(at) == known, "what was refused is not tried again"
        warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        for kind in (Newer.TABLE, Newer.CONTAINER):
            assert sum(INSTEAD[FEATURES[kind]] in one for one in warnings) == 1
        noted = await at.bot.database.read(refused_features)
        assert {one.feature for one in noted} == {"table blocks", "container blocks"}

        at.slack.workspace.refused_blocks.clear()
        await at.later(hours=1, seconds=1)
        assert used(await at.ask(GUESTS)) == {"table"}


# Forms


@SOCKET
async def test_forms_where_the_workspace_refuses_alerts(open_office: Opens, socket: bool) -> None:
    async with open_office(target=ANYTHING, socket=socket, time_moves=True) as at:
        first, second = await at.ask("1"), await at.ask("2")
        assert used(await too_late(at, first)) == set(), "an ack can't be sent twice"

        await at.ann.clicks(second, "Withdraw…")
        asked = await at.ann.gets_modal("Withdraw")
        assert used(asked) == {"alert"}
        assert used(await too_late(at, second)) == {"alert"}, "Slack takes alerts here"
        assert "decided already" not in asked
        await asked.closes()

        at.slack.workspace.refused_blocks = {"alert"}
        third = await at.ask("3")
        for _ in range(2):
            await at.ann.clicks(third, "Withdraw…")
            modal = await at.ann.gets_modal("It won't run")
            assert used(modal) == set()
            await modal.closes()
        assert refusals(at) == 1
        assert used(await too_late(at, third)) == set()


async def too_late(at: Office, card: Seen) -> Modal:
    """What somebody reads who denies what was approved meanwhile."""
    await at.cyd.clicks(card, "Deny…")
    form = await at.cyd.gets_modal("Deny")
    await ended(at, card)
    await form.submits({"Reason": "no"})
    late = await at.cyd.gets_modal("too late")
    await late.closes()
    return late


# What a refusal means


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as ready:
        yield ready


def taken(sender: Sender) -> set[Newer]:
    return {kind for kind in Newer if sender.features.accepts(AT, FEATURES[kind])}


BOTH: Message = replace(drawn(samples.LISTED_DONE), metadata={})


async def test_slack_points_at_what_it_refuses(out: Outgoing) -> None:
    assert kinds(objects(BOTH.payload(accept_everything)["blocks"])) == {Newer.TABLE, Newer.CONTAINER}
    out.slack.workspace.refused_blocks = {"container"}
    await out.sender.post(AT, out.deploys.id, BOTH)
    assert taken(out.sender) == {Newer.TABLE, Newer.ALERT}


async def test_without_a_place_all_newer_blocks_of_the_message_are_left_out(out: Outgoing) -> None:
    out.slack.faults.refuses("chat.postMessage", "invalid_attachments")
    await out.sender.post(AT, out.deploys.id, BOTH)
    assert taken(out.sender) == {Newer.ALERT}


async def test_newer_blocks_are_not_to_blame_for_a_message_that_is_refused_without_them(out: Outgoing) -> None:
    out.slack.faults.refuses("chat.postMessage", "invalid_blocks", times=2)
    await out.sender.post(AT, out.deploys.id, BOTH)  # as bare text
    out.slack.faults.refuses("chat.postMessage", "is_archived")
    with pytest.raises(Gone):
        await out.sender.post(AT, out.deploys.id, BOTH)
    out.slack.faults.refuses("chat.postMessage", "missing_scope")
    with pytest.raises(RefusedBySlack):
        await out.sender.post(AT, out.deploys.id, BOTH)
    assert taken(out.sender) == set(Newer)


async def test_a_refused_form_that_can_not_be_opened_again_is_remembered(out: Outgoing) -> None:
    """Whoever presses the button again gets today's form at once."""
    out.slack.workspace.refused_blocks = {"alert"}
    with pytest.raises(Gone):
        await out.sender.open_view(
            out.sender.turn_for_view(AT, out.ann.id), "1.2.no-such-trigger", notice_modal("Too late.")
        )
    assert taken(out.sender) == {Newer.TABLE, Newer.CONTAINER}
