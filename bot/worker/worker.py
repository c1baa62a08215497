"""The worker: attends to confirmations, sessions and replies to voters in this process. Each replica has its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol

from sqlalchemy import delete, select, update

from blocks.view import Paused
from bot.agents.session_worker import SessionWorker
from bot.cards.draw import CardContext
from bot.cards.thread_worker import SOON, ThreadWorker
from bot.config.rules import RulesInForce
from bot.confirmation.authorise import Facts
from bot.confirmation.edits import check_edit
from bot.confirmation.model import Confirmation, Place, State, Vote
from bot.confirmation.schedule import Owed, claims, owed, to_draw
from bot.confirmation.unsealed import checked
from bot.confirmation.votes import needs_asking, waits_for_slack
from bot.leasing.backpressure import Backpressure
from bot.leasing.due_rows import RowKind
from bot.leasing.lease_loop import LeaseLoop, NotNow
from bot.policy.versioned import NewerVersion, UnreadableRecord
from bot.slack.workspaces.removal import removed
from bot.store.casting import count_next, put_right
from bot.store.grants_in_force import grants_in, read_grant, would_withhold
from bot.store.mailbox import WHOSE_TURN, paused, read_session
from bot.store.outbox import may_be_doubled
from bot.store.repository import (
    CONFIRMATIONS,
    REPLIES,
    SESSIONS,
    Session,
    chain_of,
    due_again,
    now,
    read_confirmation,
    session_in,
)
from bot.store.slack_lanes import CARDS, THREADS, cards_owed
from bot.store.tables import cards, confirmations, replies, sessions, threads
from bot.store.transactions import draw_again, drawn, keep_time, look_at_grant, placed
from bot.telemetry.tracing import following
from bot.worker.asking import Asking, PeopleLookup
from runtime.errors import NotFound
from runtime.jsontypes import JsonObject, texts
from runtime.store.database import Database, Tx
from runtime.store.lease import TERM, Lease
from runtime.telemetry.logs import about

WHILE_OWED, LONGEST_HOLD = 0.5, 20.0
"""For each other card that is owed, the card of an approved call waits so much longer for its end, up to this long."""

P = ParamSpec("P")
RowOwed = tuple[Confirmation, tuple[Owed, ...]]
"""A confirmation, and what needs attention now."""

HELD_FOR = 300.0
"""How long a vote waits until Slack can be asked about it. Then it is refused, and its voter is told why."""


class CardDrawer(Protocol):
    """Draws what people look at."""

    async def draw(
        self, lease: Lease, row: Confirmation, session: Session, around: CardContext = ...
    ) -> Sequence[Place]:
        """Brings every place up to date, and returns the places with what Slack said."""
        ...

    async def reply(
        self, lease: Lease, target: JsonObject, body: JsonObject, together: Sequence[JsonObject] = ()
    ) -> None:
        """Shows a voter the result of their vote, and of the votes that they gave together with it."""
        ...


class Worker:
    def __init__(
        self,
        database: Database,
        session_worker: SessionWorker,
        thread_worker: ThreadWorker,
        people: PeopleLookup,
        drawing: CardDrawer,
        rules: RulesInForce,
        *,
        others: Sequence[RowKind] = (),
        poll: float = 5.0,
        term: float = TERM,
        clicks: Backpressure | None = None,
    ) -> None:
        self._people, self._drawing, self._rules = Asking(people), drawing, rules
        self._clicks = clicks = clicks or Backpressure()
        kinds = (
            RowKind(
                *(confirmations, confirmations.c.id, CONFIRMATIONS, self._confirmation, 64, next_deadline),
                about=lambda key: about(confirmation=key),
                turn=confirmations.c.session,
                urgent=True,
            ),
            RowKind(
                *(cards, cards.c.confirmation, CARDS, self._card, 16),
                about=lambda key: about(confirmation=key),
                turn=cards.c.session,
                overtaken=draw_again,
                while_busy=4,  # people decide on these
            ),
            RowKind(
                *(sessions, sessions.c.key, SESSIONS, session_worker.attend, 512),
                about=lambda key: about(session=session_in(key)),
                turn=WHOSE_TURN,
                reserved=448,  # for decisions: those wait for no agent that thinks
                urgent=True,
            ),
            RowKind(
                *(threads, threads.c.session, THREADS, thread_worker.attend, 16),
                about=lambda key: about(session=session_in(key)),
                overtaken=may_be_doubled,
            ),
            RowKind(replies, replies.c.vote, REPLIES, self._reply, turn=replies.c.person),
            *others,
        )
        self._attendants = [
            LeaseLoop(database, kind, poll=poll, term=term, clicks=clicks, for_good=removed) for kind in kinds
        ]

    @property
    def loops(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """One loop for each kind of row, by name. Each runs until `stop`, and then until its work is done."""
        return {f"worker-{attendant.name}": attendant.run for attendant in self._attendants}

    def stop(self) -> None:
        for attendant in self._attendants:
            attendant.stop()
        self._people.stop()

    @property
    def at_work(self) -> list[str]:
        """The rows that are being attended to."""
        return [row for attendant in self._attendants for row in attendant.at_work]

    async def _confirmation(self, confirmation_id: str, lease: Lease) -> None:
        """Counts stored votes and applies the clock. It never waits for a card."""
        nothing_was_due = True
        row, owed_now = await lease.read(what_is_owed, confirmation_id)
        while True:
            due = set(owed_now) - {Owed.DRAW}
            if not await self._is_sound(row):
                row, owed_now = await lease.run(then_owed(put_right), confirmation_id, self._rules.now)
            elif due:
                row, owed_now = await self._decide(row, due, lease)
            else:
                break
            nothing_was_due = False
        if nothing_was_due:
            await lease.run(due_again, confirmation_id)

    async def _decide(self, row: Confirmation, due: set[Owed], lease: Lease) -> RowOwed:
        try:
            if Owed.COUNT in due:
                with following("count", row=row):
                    return await self._count(lease, row)
            if Owed.LOOK_AT_GRANT in due:
                return await self._look_at_grant(lease, row)
        except NotNow:
            await lease.run(keep_time, row.id)  # it does not wait for what Slack says about a voter
            raise
        return await lease.run(then_owed(keep_time), row.id)

    async def _card(self, confirmation_id: str, lease: Lease) -> None:
        """Draws until every card shows the current row. For a call that was just approved, only its end is drawn if it
        comes within a second, since Slack allows few updates a minute."""
        await self._clicks.stand_back()
        while (due := await lease.read(due_card, confirmation_id)) is not None:
            if isinstance(due, float):
                raise NotNow(due, "The call was approved just now, and may end in a moment.")
            if await self._is_sound(due.row):
                with following("draw", row=due.row):
                    places = tuple(await self._drawing.draw(lease, due.row, due.session, due.around))
                await lease.finish(placed, confirmation_id, places)
                return
            await lease.run(put_right, confirmation_id, self._rules.now)
        await lease.finish(drawn, confirmation_id)

    async def _is_sound(self, row: Confirmation) -> bool:
        rules = self._rules.now

        def sound() -> bool:
            return checked(row, row.changed_at, rules.policies, rules.seal).row is row

        # If a row fails its checks, its conditions are evaluated again, which takes a while.
        return await asyncio.to_thread(sound) if rules.policies.conditional else sound()

    async def _count(self, lease: Lease, row: Confirmation) -> RowOwed:
        vote = row.pending[0]
        facts = None
        if needs_asking(row, vote):
            session = await lease.read(read_session, chain_of(row.asked.session))
            facts = await self._people.facts(row, vote, self._rules.now.policies, session.speakers)
            after = waits_for_slack(row, vote, facts)
            if after is not None and await lease.read(age, vote) < HELD_FOR:
                raise NotNow(after, "Slack answers no more questions about who may decide for now.")
        if vote.edit is not None:  # so that the transaction finds the answers of the conditions for the edited call
            await asyncio.to_thread(check_edit, row, vote.edit, self._rules.now.policies)
        with self._clicks.hurrying():
            return await lease.run(then_owed(count_next), row.id, vote.id, facts, self._rules.now)

    async def _look_at_grant(self, lease: Lease, row: Confirmation) -> RowOwed:
        session = await lease.read(read_session, chain_of(row.asked.session))
        grant = await lease.read(read_grant, row.id)
        why = None
        if grant is not None:
            at = await lease.read(now)

            async def ask(row: Confirmation, vote: Vote) -> Facts:
                return await self._people.facts(row, vote, self._rules.now.policies)

            why = await would_withhold(grant, row, session.speakers, self._rules.now, at, ask)
        return await lease.run(then_owed(look_at_grant), row.id, why)

    async def _reply(self, vote: str, lease: Lease) -> None:
        target, body, together = await lease.read(read_reply, vote)
        await self._drawing.reply(lease, target, body, together)
        await lease.finish(told, vote)


def read_known(tx: Tx, confirmation_id: str) -> Confirmation:
    row = read_confirmation(tx, confirmation_id)
    if row is None:
        raise NotFound(f"There is no confirmation {confirmation_id}.")
    return row


def what_is_owed(tx: Tx, confirmation_id: str) -> RowOwed:
    row = read_known(tx, confirmation_id)
    return row, owed(row, now(tx))


@dataclass(frozen=True)
class DueCard:
    """What is needed to draw a confirmation's cards."""

    row: Confirmation
    session: Session
    around: CardContext


def due_card(tx: Tx, confirmation_id: str) -> DueCard | float | None:
    """What to draw, or how many seconds to wait before that. None: every card shows the current row."""
    row = read_known(tx, confirmation_id)
    if not to_draw(row):
        return None
    if (wait := until_drawn(tx, row)) > 0:
        return wait
    return DueCard(row, read_session(tx, chain_of(row.asked.session)), read_around(tx, row))


def until_drawn(tx: Tx, row: Confirmation) -> float:
    """How long the cards of a call that was just approved wait for its end. A card that is not posted yet does not
    wait. While many cards are due they wait longer, since Slack allows about fifty updates a minute."""
    if row.decision is None or not row.runs or not row.card_channels or row.unreached or paused(tx):
        return 0.0
    wait = min(SOON + (cards_owed(tx) - 1) * WHILE_OWED, LONGEST_HOLD)
    return row.decision.at.timestamp() + wait - now(tx).timestamp()


def then_owed(change: Callable[Concatenate[Tx, P], Confirmation]) -> Callable[Concatenate[Tx, P], RowOwed]:
    """The same transaction, which also returns what is then due for the row."""

    @wraps(change)
    def changed(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> RowOwed:
        row = change(tx, *args, **kwargs)
        return row, owed(row, now(tx))

    return changed


def age(tx: Tx, vote: Vote) -> float:
    return (now(tx) - vote.stored_at).total_seconds()


def next_deadline(tx: Tx, confirmation_id: str) -> float | None:
    """When a confirmation next needs more than drawing. Nothing can be said of one that this process can't read."""
    try:
        row = read_confirmation(tx, confirmation_id)
    except (NewerVersion, UnreadableRecord):
        return None
    times = [since.timestamp() for since, what in claims(row) if what is not Owed.DRAW] if row else []
    return min((at for at in times if at > tx.now()), default=None)


def read_around(tx: Tx, row: Confirmation) -> CardContext:
    """What a card shows besides its row."""
    given = [grant for grant in grants_in(tx, chain_of(row.asked.session)) if grant.id == row.id]
    pause = paused(tx) if row.outcome is None and row.state in (State.WAITING, State.APPROVED) else None
    return CardContext(grants=given, notices=(Paused(pause.by, pause.reason),) if pause else ())


def read_reply(tx: Tx, vote: str) -> tuple[JsonObject, JsonObject, list[JsonObject]]:
    """Where the answer goes, what it is, and what is known of the votes that were given together with it, this one
    included."""
    row = tx.execute(select(replies.c.target, replies.c.body).where(replies.c.vote == vote)).one()
    target: JsonObject = json.loads(row.target)
    batch = texts(target.get("batch"))
    found = select(replies.c.body).where(replies.c.vote.in_(batch)).order_by(replies.c.id)
    return target, json.loads(row.body), [json.loads(body) for body in tx.execute(found).scalars()] if batch else []


def told(tx: Tx, vote: str) -> None:
    """The row is kept for a day, so that the same click is recognised if it comes again."""
    tx.execute(update(replies).where(replies.c.vote == vote).values(due_at=None, owed_since=None, told_at=tx.now()))
    tx.execute(delete(replies).where(replies.c.told_at < tx.now() - 86_400))
