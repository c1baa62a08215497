"""What people press in a storm beside their errands: buttons of a card as it was before, all at once, twice, and where
they have no say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from adk_confirm.blocks import words
from adk_confirm.blocks.click_ids import CardMark, parse_mark
from adk_confirm.sandbox.blockkit.elements import element_label
from adk_confirm.sandbox.people.seen import controls
from adk_confirm.sandbox.refusals import NotFound, Refused
from adk_confirm.sandbox.workspace.records import Message
from bench.chaos.plan import APPROVERS, ASKERS, OUTSIDER, Click, How
from tests.storms.ballots import FOR_ALL
from tests.storms.faults import Fault

if TYPE_CHECKING:
    from tests.storms.office import Office

_BUTTONS = {words.APPROVE, words.HAPPENED, words.NOT_HAPPENED, words.RUN_AGAIN}
_GLANCE, _PATIENCE, _SOON = 0.2, 12.0, 14.0
_AT_ONCE = ("denies", "speaks", "nobody spoke", "nevertheless")
_ANSWERED_WITHIN = 90.0
"""Seconds within which a vote counts or is refused, though Slack says nothing."""


async def presses(office: Office, fault: Fault, who: str = "") -> None:
    """Waits until there is something to press, and presses it. `who`: it is this person who presses the oldest card on
    which they have pressed nothing yet."""
    dice, until = Random(f"{fault.at} {fault.count}"), office.loop.now + _PATIENCE
    find = _FIND.get(fault.kind, _open_cards)
    while not (cards := [one for one in find(office) if not office.watch.has_acted(who, _confirmation(one))]):
        if office.loop.now > until or office.weather.over:
            return
        await asyncio.sleep(_GLANCE)
    card = (min(cards, key=lambda one: one.ts) if who else dice.choice(cards)).copy()
    await asyncio.sleep(0.0 if find is _half_approved or fault.kind in _AT_ONCE else fault.seconds)
    office.note(f"{fault.kind} with {office.people.ticket_of(_confirmation(card), card)}")
    match fault.kind:
        case "old card":
            await _press(office, card, dice.choice(APPROVERS), dice.choice(_buttons(card)))
        case "again":
            who = dice.choice(APPROVERS)
            for _ in range(2):
                await _press(office, card, who, dice.choice(_buttons(card)))
        case "last moment":
            await _presses_in_time(office, dice)
        case "nobody answers" if not office.unknown:
            await asyncio.sleep(dice.uniform(31, 40))
            voters = office.watch.half_decided().get(_confirmation(card), [])
            office.unknown = {f"U0{who.upper()}" for who in voters}
            for who in APPROVERS:
                if who not in voters:
                    await _press(office, card, who, words.APPROVE)
            await asyncio.sleep(_ANSWERED_WITHIN)
            office.watch.looks_for_unanswered(_ANSWERED_WITHIN - 1.0)
            office.unknown = set()
        case "speaks" | "nobody spoke" if card.thread_ts:
            ticket = office.people.ticket_of(_confirmation(card), card)
            asker = next((call.asker for call in office.people.asked if call.ticket == ticket), "")
            who = dice.choice([name for name in ASKERS if name != asker])
            _says(office, card, who)
            await asyncio.sleep(dice.choice((0.3, dice.uniform(0.3, 3))))
            if fault.kind == "nobody spoke":
                office.silences()
            await _press(office, card, who, words.APPROVE)
        case "denies":
            await _act(office, card, dice.choice(APPROVERS), "Deny")
            await asyncio.sleep(dice.uniform(0, 3))
            _says(office, card, dice.choice(ASKERS))
        case "edits the approved" | "approves the rest":
            voters = office.watch.half_decided().get(_confirmation(card), [*APPROVERS])
            for who in [who for who in APPROVERS if who not in voters][:1]:
                if fault.kind == "approves the rest":
                    await _press(office, card, who, words.APPROVE)
                else:
                    await _act(office, card, who, "Edit")
                    for other in APPROVERS:  # each still looks at what the card showed before
                        await _press(office, card, other, words.APPROVE)
        case "nevertheless":
            await _press(office, card, who, words.APPROVE)
        case "runs again":
            for who in dice.sample(APPROVERS, 2):
                await _press(office, card, who, words.RUN_AGAIN)
                await asyncio.sleep(dice.uniform(0, 4))
        case "stranger":
            await _act(office, card, dice.choice((*APPROVERS, *ASKERS, OUTSIDER)), "Withdraw")
            await _press(office, card, dice.choice((*ASKERS, OUTSIDER)), dice.choice(_buttons(card)))
        case _:
            ways: tuple[How, ...] = ("Approve", "Approve", "Deny", "Edit")
            await asyncio.gather(*(_act(office, card, who, dice.choice(ways)) for who in (*APPROVERS, ASKERS[0])))


async def _presses_in_time(office: Office, dice: Random) -> None:
    """What ends first is decided right before that, or at that very instant."""
    waiting = {id_: until for id_, until in office.watch.ends_of_time().items() if until - office.loop.now < _SOON}
    waiting = {id_: until for id_, until in waiting.items() if until > office.loop.now}
    if not waiting:
        return
    confirmation, at_once = min(waiting, key=lambda id_: waiting[id_]), dice.random() < 0.5
    if not at_once:
        office.weather.arm(Fault("Slack is slow", 0.0, seconds=2.0, method="users.info"))
    before = dice.uniform(0.4, 0.8) if at_once else dice.uniform(0.01, 0.6)
    await asyncio.sleep(max(0.0, waiting[confirmation] - before - office.loop.now))
    office.store.ends_at = waiting[confirmation] if at_once else 0.0
    for card in _open_cards(office):
        if _confirmation(card) == confirmation:
            office.note(f"in time: {office.people.ticket_of(confirmation, card)}")
            button = dice.choice([one for one in _buttons(card) if one != words.RUN_AGAIN])
            await _press(office, card, dice.choice(APPROVERS), button)


def _open_cards(office: Office) -> Sequence[Message]:
    """Cards that ask something now."""
    channels = office.slack.workspace.directory.channels.values()
    return [one for channel in channels for one in channel.messages.values() if _is_card(one) and _buttons(one)]


def _half_approved(office: Office) -> Sequence[Message]:
    return [one for one in _open_cards(office) if _confirmation(one) in office.watch.half_decided()]


def _unknown(office: Office) -> Sequence[Message]:
    return [one for one in _open_cards(office) if words.RUN_AGAIN in _buttons(one)]


def _open_to_askers(office: Office) -> Sequence[Message]:
    return [one for one in _open_cards(office) if office.watch.tool_of(_confirmation(one)) in FOR_ALL]


def _old_cards(office: Office) -> Sequence[Message]:
    """Cards that asked something before they were drawn again."""
    newest = {(one.channel_id, one.ts): at for at, one in enumerate(office.copies)}
    return [one for at, one in enumerate(office.copies) if at < newest[one.channel_id, one.ts] and _buttons(one)]


_FIND = {
    **{"old card": _old_cards, "edits the approved": _half_approved, "approves the rest": _half_approved},
    **{"nobody answers": _half_approved, "runs again": _unknown},
    **{"nobody spoke": _open_to_askers, "speaks": _open_to_askers},
}


def _is_card(message: Message) -> bool:
    return isinstance(parse_mark(message.metadata), CardMark)


def _confirmation(card: Message) -> str:
    mark = parse_mark(card.metadata)
    assert isinstance(mark, CardMark)
    return mark.confirmation


def _buttons(card: Message) -> list[str]:
    return [label for _, element in controls(card.blocks) if (label := element_label(element)) in _BUTTONS]


def _says(office: Office, card: Message, who: str) -> None:
    """Words to the agent, in the card's thread."""
    if card.thread_ts:
        words_ = f"s{office.loop.steps}"
        channel = next(name for name, one in office.people._channels.items() if one.id == card.channel_id)
        office.people._says(who, channel, card.thread_ts, [words_], f"You said {words_}.")


async def _press(office: Office, card: Message, who: str, button: str) -> None:
    """On this copy of the card, whatever became of it."""
    ticket = office.people.ticket_of(_confirmation(card), card)
    try:
        await office.people._presses(
            ticket, _confirmation(card), card.copy(), Click(who, "Approve", 0.0), button=button
        )
    except (Refused, NotFound):
        office.note(f"{who} can't press {button}")


async def _act(office: Office, card: Message, who: str, how: How) -> None:
    amount = 5000 + len(office.copies) if how == "Edit" else 0
    await office.people.acts(office.people.ticket_of(_confirmation(card), card), Click(who, how, 0.0, amount))
