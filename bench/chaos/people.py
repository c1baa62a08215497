"""People at their screens: they run errands, look at cards, click, and try again when Slack reports a failure."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from adk_confirm.blocks.click_ids import CardMark, parse_mark
from adk_confirm.runtime.jsontypes import Json
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.plain import Reader
from adk_confirm.sandbox.people.seen import Modal, find_control
from adk_confirm.sandbox.people.state import picked
from adk_confirm.sandbox.refusals import NotFound, Refused
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel, Message
from bench.chaos.history import ClickRecord, Place, RequestedCall
from bench.chaos.plan import APPROVERS, CHANNELS, Call, Chat, Click, Errand, Plan, Word

_GLANCE = 0.1
_TRIES = 6
_TRIES_AGAIN_AFTER = 1.0
_FORM_WITHIN = 6.0
_VERDICT_WITHIN = 15.0
_CARD_WITHIN = 60.0
_FORMS = {"Deny": "Reason", "Edit": "amount", "Withdraw": "It won't run"}
"""The control that opens a form, and a field or words by which to recognise the form."""
_TICKET = re.compile(r"\b[tn]\d+(x\d+)?\b")


@dataclass(frozen=True)
class PostedMessage:
    """Messages, by their ts. Whether the app got them is looked up in Slack at the end."""

    at: float
    who: str
    thread: Place
    ts: str
    words: str
    answer: str


class People:
    """Everybody in the workspace. Their actions are recorded in `asked`, `heard` and `clicked`."""

    def __init__(self, slack: FakeSlack, cast: dict[str, Person], channels: dict[str, Channel]) -> None:
        self._slack, self._cast, self._channels = slack, cast, channels
        self._hands = {name: asyncio.Lock() for name in cast}  # nobody fills in two forms at the same time
        self._tickets: dict[str, str] = {}
        self._cards: dict[str, list[tuple[str, Message]]] = defaultdict(list)
        self._looked_at: dict[int, Message] = {}
        self._errands: list[asyncio.Task[None]] = []
        self._patient = True
        self.asked: list[RequestedCall] = []
        self.heard: list[PostedMessage] = []
        self.clicked: list[ClickRecord] = []

    # The plan

    async def live(self, plan: Plan) -> None:
        """Begins every errand at its time. Returns after the last one has begun."""
        began = time.monotonic()
        for errand in sorted(plan.errands, key=lambda one: one.at):
            await asyncio.sleep(max(0.0, began + errand.at - time.monotonic()))
            self._errands.append(asyncio.create_task(self.runs(errand), name=f"errand {errand.number}"))

    async def finish(self, within: float) -> None:
        """Lets everybody finish. Whoever still waits for something then stops waiting."""
        if self._errands:
            await asyncio.wait(self._errands, timeout=within)
            self._patient = False
            await asyncio.gather(*self._errands)
            self._patient = True

    async def runs(self, errand: Errand) -> None:
        self._slack.gestures.open_home(self._cast[APPROVERS[errand.number % len(APPROVERS)]].user)
        thread = self._asks(errand)
        work: list[Coroutine[Any, Any, None]] = [self._chats(chat, thread) for chat in errand.chats]
        for call in errand.calls:
            work += [self._decides(call, click) for click in call.clicks]
        await asyncio.gather(*work)

    def _asks(self, errand: Errand) -> Place:
        lines = [f"think {errand.thinks:.2f}"] if errand.thinks else []
        for call in errand.calls:
            filled = {"ticket": call.ticket, "amount": call.amount, "takes": round(call.takes, 2)}
            lines.append(f"{call.tool} {json.dumps(filled)}")
        thread = self._says(errand.asker, errand.channel, "", lines, "")
        for call in errand.calls:
            self.asked.append(RequestedCall(call.ticket, call.tool, call.amount, errand.asker, thread))
        return thread

    async def _chats(self, chat: Chat, thread: Place) -> None:
        await asyncio.sleep(chat.after)
        lines = [f"think {chat.thinks:.2f}"] if chat.thinks else []
        channel = next(name for name, one in self._channels.items() if one.id == thread[0])
        self._says(chat.who, channel, thread[1], [*lines, chat.words], f"You said {chat.words}.")

    def _says(self, who: str, channel: str, thread_ts: str, lines: list[str], answer: str) -> Place:
        gestures, place = self._slack.gestures, self._channels[channel]
        mention = f"<@{self._slack.install.bot_user_id}>"
        text = "\n".join([mention, *lines])
        message = gestures.say(self._cast[who].user, place, text, thread_ts=thread_ts)
        thread = (place.id, thread_ts or message.ts)
        self.heard.append(PostedMessage(time.time(), who, thread, message.ts, " / ".join(lines), answer))
        return thread

    # Cards

    @property
    def tickets(self) -> dict[str, str]:
        """Tickets by confirmation, as far as cards were seen."""
        for asked in self.asked:
            self.card(asked.ticket)
        return dict(self._tickets)

    def card(self, ticket: str) -> tuple[str, Message] | None:
        """The confirmation of a ticket, and its card in its current form."""
        self._find_cards()
        return next((one for one in self._cards[ticket] if self._is_there(one[1])), None)

    def _is_there(self, card: Message) -> bool:
        return self._slack.workspace.directory.channel(card.channel_id).messages.get(card.ts) is card

    def _find_cards(self) -> None:
        for channel in self._channels.values():
            for message in channel.messages.values():
                if id(message) not in self._looked_at:
                    self._looked_at[id(message)] = message
                    if isinstance(mark := parse_mark(message.metadata), CardMark):
                        self._cards[self.ticket_of(mark.confirmation, message)].append((mark.confirmation, message))

    def ticket_of(self, confirmation: str, message: Message) -> str:
        known = self._tickets.get(confirmation)
        if known is None:
            found = _TICKET.search(message.text) or _TICKET.search(json.dumps(message.blocks))
            known = self._tickets[confirmation] = found[0] if found else ""
        return known

    async def sees(self, ticket: str, within: float) -> tuple[str, Message] | None:
        until = time.monotonic() + within
        while (found := self.card(ticket)) is None and time.monotonic() < until and self._patient:
            await asyncio.sleep(_GLANCE)
        return found

    def _amount(self, card: Message) -> int:
        reader = Reader(self._slack.workspace.directory, next(iter(self._cast.values())).user)
        return shown_amount(reader.message(card))

    # Clicks

    async def _decides(self, call: Call, click: Click) -> None:
        if await self.sees(call.ticket, _CARD_WITHIN) is not None:
            await asyncio.sleep(click.after)
            await self.acts(call.ticket, click)

    async def acts(self, ticket: str, click: Click) -> bool:
        """Clicks until Slack reports no failure, or until there is nothing to click any more."""
        for _ in range(_TRIES):
            found = self.card(ticket)
            if found is None or not self._patient:
                return False
            confirmation, message = found[0], found[1].copy()
            try:
                if click.how in _FORMS:
                    async with self._hands[click.who]:
                        done = await self._fills_in(ticket, confirmation, message, click)
                else:
                    done = await self._presses(ticket, confirmation, message, click)
            except Refused:
                return False  # the button is gone: somebody else was faster
            if done:
                return True
            await asyncio.sleep(_TRIES_AGAIN_AFTER)
        return False

    async def settles(self, ticket: str, who: str, word: Word) -> bool:
        """Says whether an unknown call took effect. False: nobody asked, or the answer did not get through."""
        found = self.card(ticket)
        if found is None or not word:
            return False
        try:
            return await self._presses(ticket, found[0], found[1].copy(), Click(who, "Approve", 0.0), button=word)
        except NotFound:
            return False

    async def decide_open_calls(self, plan: Plan) -> bool:
        """Decides the calls that still wait or are unknown. Returns whether there were any."""
        said = False
        for ticket, (_, call) in plan.calls.items():
            if self.card(ticket) is None:
                continue
            for who in APPROVERS:  # as many as are needed
                said |= await self.acts(ticket, Click(who, "Approve", 0.0))
            for who in reversed(APPROVERS):  # to run a call again needs as many as to approve it
                said |= await self.settles(ticket, who, call.settled)
        return said

    async def _presses(self, ticket: str, confirmation: str, card: Message, click: Click, *, button: str = "") -> bool:
        block, element = find_control(card.blocks, button or click.how)
        person = self._cast[click.who].user
        entry = picked(element, button or click.how, person.tz) if element.get("type") == "overflow" else None
        made = await self._slack.gestures.act(person, card, block, str(element.get("action_id")), entry)
        if click.twice:
            await self._slack.repeats(made)
        self._note(ticket, confirmation, click.who, button or click.how, self._amount(card), made)
        return made.acked

    async def _fills_in(self, ticket: str, confirmation: str, card: Message, click: Click) -> bool:
        person = self._cast[click.who]
        await self._closes(person)
        block, element = find_control(card.blocks, click.how)
        entry = picked(element, click.how, person.user.tz) if element.get("type") == "overflow" else None
        await self._slack.gestures.act(person.user, card, block, str(element.get("action_id")), entry)
        modal = await self._modal(person, _FORMS[click.how])
        if modal is None:
            return False
        typed: dict[str, Json] = {"amount": str(click.amount)} if click.how == "Edit" else {}
        if click.how == "Deny":
            typed["Reason"] = f"not {ticket}"
        amount = click.amount if click.how == "Edit" else self._amount(card)
        made = await self._submits(modal, typed)
        if made is None:
            return False
        note = partial(self._note, ticket, confirmation, click.who, click.how, amount, made, modal=modal)
        if modal.is_open() and modal.errors:  # there was nothing to submit
            await self._closes(person)
            return True
        if not made.acked:
            note()  # a replica may have stored it nevertheless, or may still store it
            return False
        if click.twice:
            await self._slack.repeats(made)
        note(answer=await self._verdict(modal))
        await self._closes(person)
        return True

    async def _submits(self, modal: Modal, typed: dict[str, Json]) -> Delivery | None:
        """Submits again and again, until Slack reports no failure or shows something else."""
        made: Delivery | None = None
        for _ in range(_TRIES):
            try:
                made = await modal.submits(typed) or made
            except Refused:
                return made
            if made is None or made.acked or not self._patient:
                break
            await asyncio.sleep(_TRIES_AGAIN_AFTER)
        return made

    async def _modal(self, person: Person, words: str) -> Modal | None:
        """The form, as soon as it is open."""
        until = time.monotonic() + _FORM_WITHIN
        while time.monotonic() < until:
            modal = person.modal()
            if modal is not None and (words in modal.fields or words in modal.text):
                return modal
            await asyncio.sleep(_GLANCE)
        return None

    async def _verdict(self, modal: Modal) -> str:
        until = time.monotonic() + _VERDICT_WITHIN
        while time.monotonic() < until and modal.is_open() and self._patient:
            if not (modal.fields or "Counting" in modal.text):
                return modal.text
            await asyncio.sleep(_GLANCE)
        return ""

    async def _closes(self, person: Person) -> None:
        modal = person.modal()
        if modal is not None:
            modal.closes()

    def _note(
        self,
        ticket: str,
        confirmation: str,
        who: str,
        how: str,
        amount: int,
        made: Delivery,
        *,
        modal: Modal | None = None,
        answer: str = "",
    ) -> None:
        same = modal.view.id if modal is not None else json.dumps(made.body.get("actions"), sort_keys=True)
        self.clicked.append(
            ClickRecord(
                *(time.time(), ticket, confirmation, who, how, amount, made.acked),
                same=f"{who} {same}",
                form=modal is not None,
                answer=answer,
            )
        )


def shown_amount(text: str) -> int:
    """The amount with which a card says that the call runs. After an edit the card shows the old amount before it."""
    found = re.search(r"\bamount [\d,]+ → ([\d,]+)", text) or re.search(r"\bamount ([\d,]+)", text)
    return int(found[1].replace(",", "")) if found else -1


def everywhere(slack: FakeSlack, cast: dict[str, Person]) -> dict[str, Channel]:
    """Creates the channels, with everybody in them."""
    channels = {name: slack.channel(name, *cast.values(), id=f"C0{name.upper()}") for name in CHANNELS}
    return {**channels, "desk": slack.channel("desk", *cast.values(), id="C0DESK")}
