"""Posts and updates cards in Slack, and answers voters. A card is always drawn as a whole from its row: each of its
places shows the current row, or says why that is impossible.

There is one live card in each place. After a crash or a lost answer the row is in doubt: its cards are searched for
before they are posted or updated. A vote on a second copy counts; the copy is deleted when it is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from adk_confirm.blocks.card import card, note, pointer
from adk_confirm.blocks.click_ids import PointerMark, identity
from adk_confirm.blocks.kit import Message
from adk_confirm.blocks.mentions import groups, mentions, with_mention_line, with_names
from adk_confirm.blocks.notices import verdict_message, verdict_modal
from adk_confirm.blocks.shown import Paused, Shown
from adk_confirm.bot.cards.places import CardPlaces, accounts_of, is_note, silenced
from adk_confirm.bot.confirmation.confirmation import Confirmation, Grant, OutcomeKind, Place, Seat, State
from adk_confirm.bot.confirmation.shown import is_drift, named_approvers, newer_of, shown_of
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.bot.policy.approvers import ApproverKind
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.names import NameLookup
from adk_confirm.bot.slack.troubles import Gone, Later, NoAnswer, RefusedBySlack, SlackTrouble, Unsure
from adk_confirm.bot.store.repository import Session, read_heard, session_confirmations
from adk_confirm.bot.store.transactions import draw_again_late
from adk_confirm.runtime.store.lease import Lease


@dataclass(frozen=True, kw_only=True)
class CardContext:
    """What a card shows besides its row: grants in force, and who paused all runs."""

    grants: Sequence[Grant] = ()
    paused: Paused | None = None


PLAIN = CardContext()

_FOR_GOOD = 2**31 - 1
"""The version of a pointer to a card that can't change any more."""


class Drawing:
    """One update of all places of a confirmation. `trouble` collects what could not be done."""

    def __init__(
        self,
        slack: Slack,
        lease: Lease,
        row: Confirmation,
        session: Session,
        around: CardContext,
        names: NameLookup,
    ) -> None:
        self._slack, self._lease, self._names = slack.at(lease), lease, names
        self._row, self._session, self._around = row, session, around
        self._conversation: str | None = None
        self._accounts: dict[str, str] = {}
        self._spoke: tuple[str, ...] = ()
        self._earlier: Confirmation | None = None
        self._newer_link: str | None = None
        self._done: list[Place] = []
        self._troubles: dict[str, SlackTrouble] = {}

    async def draw(self, places: Sequence[Place], directory: Directory) -> tuple[Place, ...]:
        """Updates the places, and returns them with what Slack answered. `trouble`: what could not be done."""
        self._accounts = await accounts_of(self._row, directory)
        self._spoke = await silenced(self._row, self._session, directory)
        await self._find_conversation(places)
        await self._find_other_cards()
        for place in sorted(places, key=lambda place: place.pointer):  # the card first, since pointers link to it
            try:
                self._done.append(await self._bring_up(place))
            except SlackTrouble as trouble:
                if isinstance(trouble, NoAnswer | Unsure):
                    await self._lease.run(draw_again_late, self._row.id)
                self._troubles[place.channel] = trouble
                self._done.append(place)
            except asyncio.CancelledError:  # this process stops, and waits for no answer
                await self._lease.run(draw_again_late, self._row.id)
                raise
        return tuple(self._skip_if_dead(place) for place in self._done)

    @property
    def trouble(self) -> SlackTrouble | None:
        return next(iter(self._troubles.values()), None)

    def _skip_if_dead(self, place: Place) -> Place:
        """Marks a place as drawn if it can't be drawn and need not be: a closed channel, a card that nobody needs any
        more, or somebody who can't be written to while others have the card."""
        if not isinstance(self._troubles.get(place.channel), Gone):
            return place
        if is_note(place):
            return replace(place, drawn_version=_FOR_GOOD)
        others = any(one.ts is not None and not one.pointer for one in self._done)
        dead = place.ts is not None or not self._is_needed or (place.person is not None and others)
        return replace(place, drawn_version=self._row.version) if dead and not place.pointer else place

    @property
    def _is_needed(self) -> bool:
        """Whether there is something to decide or to watch, so that at least one card must exist."""
        return self._row.state in (State.WAITING, State.APPROVED)

    async def _find_other_cards(self) -> None:
        """If the preview has changed since an approval: finds the card whose preview was approved, or the card that
        asks now."""
        if self._row.asked.approved_preview is None and not is_drift(self._row):
            return
        rows = await self._lease.read(session_confirmations, self._session.key)
        same = [one for one in rows if one.asked.call_id == self._row.asked.call_id]
        here = [one.id for one in same].index(self._row.id)
        self._earlier = same[here - 1] if here and is_drift(same[here - 1]) else None
        await self._leads_to([place for one in newer_of(self._row, rows) for place in one.places])

    async def _leads_to(self, newer: Sequence[Place]) -> None:
        """Looks up the link to the card that replaces this one. `newer`: the places of that card."""
        card = next((one for one in newer if one.ts and not one.pointer and one.person is None), None)
        if card is not None and card.ts is not None:
            self._newer_link = await self._slack.permalink(card.channel, card.ts)

    async def tell_earlier(self, slack: Slack, drawn: Sequence[Place]) -> None:
        """Draws the card before this one again, so that it leads to this one."""
        if self._earlier is None or self._row.face > 1:
            return
        older = Drawing(slack, self._lease, self._earlier, self._session, self._around, self._names)
        older._conversation = self._conversation
        with suppress(SlackTrouble):  # then it says that there is a newer card, without a link
            await older._leads_to(drawn)
            for place in self._earlier.places:
                if place.ts is not None and not place.pointer and not is_note(place):
                    view = await older._view(place)
                    await self._slack.update(place.channel, place.ts, await older._with_names(card(view), view))

    # One place

    async def _bring_up(self, place: Place) -> Place:
        if not place.channel or place.drawn_version >= self._row.face:
            return place
        if is_note(place):
            return await self._note(place)
        if place.pointer:
            return await self._point(place)
        view = await self._view(place)
        place = await self._show(place, await self._with_names(card(view), view))
        return replace(place, drawn_version=self._row.version)

    async def _show(self, place: Place, message: Message) -> Place:
        """Updates the message in its place, or posts it if it is not there."""
        if place.ts is None:
            return replace(place, ts=await self._post(place, message))
        found = await self._find(place, message) if self._row.doubt else None
        ts = found or place.ts  # if this one is gone, a copy that came late is the card
        try:
            await self._slack.update(place.channel, ts, message)
        except Gone as gone:
            if gone.code != "message_not_found":
                raise
            if self._is_needed:  # somebody deleted the message
                return replace(place, ts=await self._post(replace(place, ts=None), message))
        return replace(place, ts=ts)

    async def _post(self, place: Place, message: Message) -> str:
        found = await self._find(place, message) if self._row.doubt else None
        if found is not None:
            await self._slack.update(place.channel, found, message)
            return found
        broadcast = not place.pointer and place.thread_ts is not None and self._shown_in_channel(place)
        return await self._slack.post(place.channel, message, thread_ts=place.thread_ts, broadcast=broadcast)

    def _shown_in_channel(self, place: Place) -> bool:
        """Whether a card in a thread is also shown in its channel. Not in a direct message, which has one reader."""
        return self._row.policy.card == "both" and not place.channel.startswith("D")

    async def _find(self, place: Place, message: Message) -> str | None:
        """The message in this place, if it is in Slack. Copies are deleted."""
        wanted, since = identity(message.metadata), self._row.asked_at.timestamp()
        assert wanted is not None
        return await self._slack.find_sent(place.channel, wanted, thread_ts=place.thread_ts, since=since, keep=place.ts)

    # Pointers to the card

    async def _point(self, place: Place) -> Place:
        """Draws the line in the thread that leads to a card in another channel. The line is drawn again when that card
        is posted, and when its Withdraw button has to go. It does not say how the call was decided."""
        cards = [one for one in self._done if one.channel and not one.pointer]
        there = [card for card in cards if card.ts is not None]
        waits = self._row.state is State.WAITING
        late = self._row.redraw_at is not None  # an older drawing may still arrive
        drawn = self._row.version if waits or late else _FOR_GOOD
        if place.ts is not None and not there:
            return place if self._is_needed else replace(place, drawn_version=drawn)
        if place.ts is not None and waits and place.drawn_version > 0 and not self._row.doubt:
            return replace(place, drawn_version=drawn)
        trouble = None if there else self.trouble
        if not there and not isinstance(trouble, Gone | RefusedBySlack):
            return place  # there may be a card in a moment
        message = await self._pointer(place, there or cards, str(trouble) if trouble else None)
        place = await self._show(place, message)
        return replace(place, drawn_version=drawn if there or not self._is_needed else 0)

    async def _note(self, place: Place) -> Place:
        """Draws the direct message to an approver, and draws it again after an edit. It is deleted when nothing is left
        to decide."""
        if self._row.state is not State.WAITING:
            if place.ts is not None:
                await self._slack.delete(place.channel, place.ts)
            return replace(place, ts=None, drawn_version=_FOR_GOOD)
        if place.ts is None or self._row.revision.number > 1:
            card = next((one for one in self._done if one.ts is not None and not one.pointer), None)
            if card is None or card.ts is None:
                return place  # there may be a card in a moment
            link = await self._link(card)
            message = await self._with_all_names(note(replace(await self._view(place), card_link=link)))
            place = await self._show(place, replace(message, metadata=PointerMark(self._row.id).metadata()))
        return replace(place, drawn_version=self._row.version)

    async def _link(self, place: Place) -> str | None:
        """The link to a card. Raises `Gone` for a needed card that somebody deleted: it is posted anew first."""
        try:
            return await self._slack.permalink(place.channel, place.ts) if place.ts is not None else None
        except Gone as gone:
            if gone.code != "message_not_found":
                raise
            if self._is_needed:
                missing = replace(place, ts=None, drawn_version=0)
                self._done = [missing if one is place else one for one in self._done]
                raise
            return None

    async def _pointer(self, place: Place, cards: Sequence[Place], trouble: str | None) -> Message:
        public = next((card for card in cards if card.person is None), None)
        people = [card.person.user for card in cards if card.person is not None]
        link = await self._link(public) if public is not None else None
        view = replace(await self._view(place), card_link=link)
        message = pointer(view, channel=public.channel if public else None, people=people, trouble=trouble)
        message = await self._with_all_names(message)
        return replace(message, metadata=PointerMark(view.id).metadata())

    # Mentions

    async def _with_names(self, message: Message, view: Shown) -> Message:
        """Replaces mentions by names, except for those who are asked to decide. A policy with `notify` mentions those
        instead."""
        notify = named_approvers(self._row.policy.notify, self._accounts)
        waits = view.stage in (State.WAITING, OutcomeKind.UNKNOWN)
        if waits and notify:
            message = with_names(await self._with_all_names(message), await self._names.groups(groups(message)))
            return with_mention_line(message, notify, f"notify.{view.id}.{view.version}")
        who = (*view.approvers, *view.escalated_to) if waits else ()
        asked = {one.value for one in who if one.kind is ApproverKind.USER}
        return with_names(message, await self._names.of(mentions(message) - asked))

    async def _with_all_names(self, message: Message) -> Message:
        return with_names(message, await self._names.of(mentions(message)))

    # Links

    async def _find_conversation(self, places: Sequence[Place]) -> None:
        owed = [place for place in places if place.channel and place.drawn_version < self._row.face]
        if any(self._is_elsewhere(place) for place in owed):
            session = self._session
            try:
                self._conversation = await self._slack.permalink(session.channel, session.thread_ts)
            except Gone:
                self._conversation = None  # the session's first message was deleted

    def _is_elsewhere(self, place: Place) -> bool:
        return (place.channel, place.thread_ts) != (self._session.channel, self._session.thread_ts)

    async def _view(self, place: Place) -> Shown:
        """Computed in a thread: an agent chooses how much text is searched for values that the policy hides."""
        conversation = self._conversation if self._is_elsewhere(place) else None
        return await asyncio.to_thread(
            shown_of,
            self._row,
            accounts=self._accounts,
            grants=self._around.grants,
            paused=self._around.paused,
            session_link=conversation,
            spoke=self._spoke,
            earlier=self._earlier,
            newer_link=self._newer_link,
        )


_AGAIN = 10.0


class Cards:
    def __init__(self, slack: Slack, directory: Directory) -> None:
        self._slack, self._directory, self._names = slack, directory, directory.names
        self._places = CardPlaces(slack, directory)

    async def draw(
        self, lease: Lease, row: Confirmation, session: Session, around: CardContext = PLAIN
    ) -> tuple[Place, ...]:
        """Updates every place, and returns the places with what Slack answered.

        If some could be drawn, only those are returned, and the row stays due for the rest. If none could be drawn, the
        error is raised.
        """
        places, unknown = await self._places.of(row, session)
        drawing = Drawing(self._slack, lease, row, session, around, self._names)
        facts = await drawing.draw(places, self._directory)
        if set(facts) == set(row.places):
            raise drawing.trouble or unknown or Later("drawing", _AGAIN, "nothing could be drawn")
        await drawing.tell_earlier(self._slack, facts)
        return facts

    async def reply(self, lease: Lease, seat: Seat, made: Verdict) -> None:
        """Shows voters the result of their vote, in a window or beside the card."""
        if made.refusal is None and seat.message:
            return  # the card that they clicked shows the result
        row = await lease.read(read_heard, made.confirmation)
        if row is None:
            return  # it was purged
        call = await asyncio.to_thread(shown_of, row)
        voter = seat.person.user
        window = verdict_modal(call, made, voter) if made.refusal is not None else None  # good news opens no window
        await self._slack.at(lease).whisper(seat, verdict_message(call, made, voter), window)
