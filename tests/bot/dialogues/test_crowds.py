"""One person clicks many times: nobody else has to wait, and that person gets the newest result once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from adk_confirm import Agent, Content, ModelRequest, ModelResponse
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.confirmation import Edit, VoteKind
from adk_confirm.bot.slack.calls import VIEWS, WHISPERS
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import JobKind
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.seen import Seen
from tests.support.deciding import ANNA, MALLORY, Desk, make_policy
from tests.support.office import IN_CI_ON_BOTH, POLICY, Office, Opens
from tests.support.scraping import scrape
from tests.support.waiting import until

CLICKS = 400
HIS_SHARE = 32  # of the slots for sessions that wait for their turn


def notes_for(at: Office, who: Person) -> int:
    """How often somebody was told something, in a window or in a message that only they see."""
    return len(who.windows) + sum(one.ephemeral for one in who.messages(at.deploys))


async def clicks_on(at: Office, cards: list[Seen]) -> None:
    """oscar may decide nothing."""
    buttons = [at.oscar.now(card) for card in cards]
    for begun in range(0, CLICKS, 50):
        batch = [at.oscar.clicks(buttons[number % len(cards)], "Approve") for number in range(begun, begun + 50)]
        await asyncio.gather(*batch)


def whispers_owed(tx: Tx) -> int:
    """Most of what one person is to be told about one confirmation."""
    owed = "SELECT count(*) FROM bot_outbox WHERE kind = 'answer' AND shown_at IS NULL GROUP BY person, matter"
    return max(tx.column(owed), default=0)


def lines_of_refusals(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM bot_ledger WHERE kind = :kind", kind=str(LineKind.VOTE_REFUSED)))


@IN_CI_ON_BOTH
@pytest.mark.office(f'{POLICY}card = "thread"\n')
@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 10])
async def test_four_hundred_refused_clicks_of_one_person_are_nobody_elses_trouble(at: Office, many: int) -> None:
    """They used up Slack's hundred a minute, which is for all: everybody else was told a minute later."""
    cards = [await at.ask(f"reimburse {1500 + number} for the team dinner") for number in range(many)]
    other = await at.ask("reimburse 1700 for lunch")
    await clicks_on(at, cards)
    assert await at.bot.database.read(whispers_owed) <= 3  # one or two may be on their way

    await at.refuses(at.ann, other, "Approve", "because you asked for it")
    await at.bob.clicks(at.bob.now(cards[0]), "Approve")
    await at.ann.finds("Done: Reimburse", at.deploys, thread=cards[0])
    assert notes_for(at, at.oscar) <= WHISPERS
    assert await at.bot.database.read(lines_of_refusals) == 3 * many + 1, "oscar three times a card, and ann"
    assert (await scrape(at.bot.url)).value("adk_confirm_refused_again_total") > 0

    for _ in range(5):
        await at.later(minutes=2)
    assert notes_for(at, at.oscar) <= 2 * WHISPERS + many
    assert await at.bot.database.read(whispers_owed) == 0, "each card's newest answer was told"


@pytest.mark.office(f'{POLICY}card = "thread"\n')
async def test_somebody_who_clicks_again_and_again_gets_only_their_share_of_answers(at: Office) -> None:
    """Slowly enough that each click could be answered before the next."""
    card = await at.ask("reimburse 1500 for the team dinner")
    for _ in range(WHISPERS + 5):
        await at.oscar.clicks(card, "Approve")
        await at.rests()
    first = notes_for(at, at.oscar)
    assert first <= WHISPERS
    await at.refuses(at.ann, card, "Approve", "because you asked for it")
    await at.later(minutes=2)
    await at.rests()
    assert notes_for(at, at.oscar) == first + 1, "what came since is told once"


async def test_somebody_who_opens_forms_again_and_again_leaves_room_for_those_of_others(open_office: Opens) -> None:
    """Slack's hundred a minute are for all people of a workspace."""
    async with open_office(time_moves=False) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        button = at.bob.now(card)
        for _ in range(VIEWS + 3):
            await at.bob.clicks(button, "Edit…")
        await at.bob.finds("too much was asked of it", at.deploys, thread=card)
        assert len(at.slack.calls_of("views.open")) <= VIEWS
        await at.cyd.clicks(card, "Deny…")
        await (await at.cyd.gets_modal("Deny")).submits({})
        await at.sees(card, "Denied by cyd")


thinking: list[str] = []
thought = asyncio.Event()


class _Ponders:
    """A model that thinks until the test lets it end."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        said = request.contents[-1].text
        if said == "think":
            thinking.append(said)
            await thought.wait()
        yield ModelResponse(Content.of_text(f"You said: {said}", "model"), finish_reason="STOP")


agent = Agent("ponders", _Ponders())


@IN_CI_ON_BOTH
async def test_somebody_who_keeps_the_agent_busy_in_many_threads_keeps_nobody_else_from_it(
    open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.thinking", [])
    monkeypatch.setattr(f"{__name__}.thought", asyncio.Event())
    async with open_office(target=f"{__name__}:agent") as at:
        for _ in range(JobKind.at_once + 1):
            await at.oscar.says("@adk-confirm think", at.deploys)
        await until(lambda: len(thinking) >= HIS_SHARE)
        said = await at.ann.says("@adk-confirm hello", at.deploys)
        await at.sees(said, "You said: hello")
        thought.set()


def test_a_button_pressed_again_before_it_is_counted_is_the_same_word() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.store(VoteKind.APPROVE, MALLORY)
    for _ in range(400):
        desk.store(VoteKind.APPROVE, MALLORY)
    assert waiting(desk) == 1
    desk.store(VoteKind.APPROVE, ANNA)
    desk.store(VoteKind.DENY, MALLORY)
    desk.store(VoteKind.DENY, MALLORY, reason="no")
    desk.store(VoteKind.APPROVE, MALLORY, edit=Edit({"replicas": 4}))
    assert waiting(desk) == 5
    assert desk.count() is not None
    desk.store(VoteKind.APPROVE, MALLORY)
    assert waiting(desk) == 5, "once it is counted it may be said again"


def waiting(desk: Desk) -> int:
    return len(desk.row.pending_votes)


@pytest.mark.office(f'{POLICY}card = "thread"\n')
@pytest.mark.slow
async def test_nobody_waits_for_all_that_somebody_else_has_clicked(at: Office) -> None:
    """All of it at once. How long that takes says nothing: what counts is whose clicks were stored in between."""
    card = await at.ask("reimburse 1500 for the team dinner")
    other = await at.ask("reimburse 1700 for lunch")
    button, answered = at.oscar.now(card), 0
    begun = asyncio.Event()

    async def clicks() -> None:
        nonlocal answered
        await at.oscar.clicks(button, "Approve")
        answered += 1
        if answered == 20:
            begun.set()

    clicking = [asyncio.create_task(clicks()) for _ in range(400)]
    await begun.wait()
    before = answered
    assert (await at.bob.clicks(other, "Approve")).acked
    meanwhile = answered - before
    await asyncio.gather(*clicking)
    assert meanwhile < 50
    await at.sees(other, "I reimbursed 1700")
