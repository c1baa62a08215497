"""The worker: attends to confirmations, sessions and replies to voters in this process. Each replica has its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from adk_confirm.blocks.full_view import can_be_shown
from adk_confirm.blocks.shown import Paused
from adk_confirm.bot.agents.session_worker import SessionWorker
from adk_confirm.bot.cards.draw import CardContext, Cards
from adk_confirm.bot.cards.thread_posts import ThreadWorker
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import AskedCall, Confirmation, Seat, State, Vote
from adk_confirm.bot.confirmation.edits import check_edit
from adk_confirm.bot.confirmation.outcome import DueWork, due_work, needs_drawing, scheduled_work
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.bot.confirmation.votes import needs_asking, take_preview, waits_for_slack
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.store.cast_vote import count_next, nothing_known
from adk_confirm.bot.store.grants_in_force import grants_in
from adk_confirm.bot.store.letters import approvals_held_back, read_pause
from adk_confirm.bot.store.marks import SOON, count_due_cards, waits_for_end
from adk_confirm.bot.store.outbox import look_at_thread, note_answered, note_possible_copies, read_answer
from adk_confirm.bot.store.repository import (
    Session,
    chain_of,
    now,
    read_confirmation,
    read_session,
    recompute_due,
    session_confirmations,
    session_in,
)
from adk_confirm.bot.store.transactions import draw_again, keep_time, save_drawn, save_preview
from adk_confirm.bot.telemetry.spans import work_span
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import JobKind, NotNow
from adk_confirm.runtime.store.lease import TERM, Lease
from adk_confirm.runtime.store.lease_loop import LeaseLoop
from adk_confirm.runtime.telemetry.logs import log_context

AT_ONCE, LATER = 2.0, 1.0
"""A row waits for Slack for the first number of seconds. Then other rows get their turn, and it looks for the answer
at intervals of the second number."""

FORGOTTEN_AFTER = 30.0
"""Seconds after which an answer is forgotten that no row asked for again, since rights may change."""

T = TypeVar("T")


class PeopleLookup(Protocol):
    """Looks up what must be known about people before a vote is counted."""

    async def facts(
        self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = ...
    ) -> Facts: ...

    def fresh_facts(self, row: Confirmation, vote: Vote, policies: Policies, asked: Facts) -> Facts | None: ...


class BackgroundLookup(Generic[T]):
    """Asks Slack or an agent in a task that goes on after the row was put off. The row finds the answer when it is
    tried again."""

    def __init__(self, missing: str) -> None:
        self._missing = missing
        self._asked: dict[tuple[object, ...], asyncio.Task[T]] = {}

    async def answer(self, key: tuple[object, ...], ask: Callable[[], Coroutine[None, None, T]]) -> T:
        """The answer to a question. Raises `NotNow` if there is none soon; the asking goes on all the same."""
        known = self._asked.get(key)
        asked = known or asyncio.create_task(ask())
        if known is None:
            self._keep(key, asked)
        await asyncio.wait({asked}, timeout=AT_ONCE if known is None else 0)
        if not asked.done() or asked.cancelled():
            raise NotNow(LATER, self._missing)
        self._asked.pop(key, None)
        return asked.result()

    def stop(self) -> None:
        """Cancels the open questions."""
        for asked in self._asked.values():
            asked.cancel()

    def _keep(self, key: tuple[object, ...], asked: asyncio.Task[T]) -> None:
        self._asked[key] = asked
        loop = asyncio.get_running_loop()
        asked.add_done_callback(lambda _: loop.call_later(FORGOTTEN_AFTER, self._forget, key, asked))

    def _forget(self, key: tuple[object, ...], asked: asyncio.Task[T]) -> None:
        if self._asked.get(key) is asked:
            del self._asked[key]


WHILE_OWED, LONGEST_HOLD = 0.5, 20.0
"""The card of an approved call waits for the call's end: this many seconds for each other card that is due, and no
longer than the second number."""

P = ParamSpec("P")
RowWithDueWork = tuple[Confirmation, tuple[DueWork, ...]]
"""A confirmation, and what it needs now."""

HELD_FOR = 300.0
"""Seconds that a vote waits until Slack can be asked about it. Then it is refused, and the voter gets the reason."""


class Worker:
    def __init__(
        self,
        database: Database,
        session_worker: SessionWorker,
        thread_worker: ThreadWorker,
        people: PeopleLookup,
        preview: Callable[[AskedCall, JsonObject], Coroutine[None, None, Preview]],
        drawing: Cards,
        rules: Rules,
        *,
        poll: float = 5.0,
        term: float = TERM,
    ) -> None:
        self._people, self._preview_of, self._drawing, self._rules = people, preview, drawing, rules
        self._session_worker = session_worker
        self._facts = BackgroundLookup[Facts]("Slack has not answered yet who may decide.")
        self._previews = BackgroundLookup[Preview]("The edited call's plan is not known yet.")
        # One lease is for a thread and all of its jobs. Kinds of jobs run side by side, so none waits for a drawing.
        self._loop = LeaseLoop(
            database,
            JobKind(
                "session",
                session_worker.look,
                session_worker.attend,
                at_once=512,
                log_context=lambda key: log_context(session=session_in(key)),
                overtaken=note_possible_copies,
                reserved=448,  # for decisions: they do not wait until busy agents are done
            ),
            JobKind(
                "confirmation",
                read_due_work,
                self._confirmation,
                deadline=next_deadline,
                log_context=lambda key: log_context(confirmation=key),
            ),
            JobKind(
                "card",
                lambda tx, key: due_card(tx, key, stopping=session_worker.stopping.is_set()),
                self._card,
                at_once=16,
                log_context=lambda key: log_context(confirmation=key),
                overtaken=draw_again,
            ),
            JobKind(
                "thread",
                look_at_thread,
                thread_worker.attend,
                at_once=16,
                log_context=lambda key: log_context(session=session_in(key)),
                overtaken=note_possible_copies,
            ),
            JobKind("reply", read_answer, self._answer),
            poll=poll,
            term=term,
        )

    @property
    def loops(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The loops, by name. Each runs until `stop`, and then until its work is done."""
        return {"worker": self._loop.run}

    async def drain(self, patience: float) -> None:
        """Begins no run any more, and waits for those that began, for at most `patience` seconds."""
        self._session_worker.stopping.set()
        await self._loop.drain(patience)

    def stop(self) -> None:
        self._loop.stop()
        self._facts.stop()
        self._previews.stop()

    @property
    def trouble(self) -> str | None:
        """Why no row can be attended to now, or None. The store may answer, and yet accept no change."""
        return self._loop.trouble

    @property
    def at_work(self) -> list[str]:
        """The rows that are being attended to."""
        return self._loop.at_work

    async def _confirmation(self, confirmation_id: str, lease: Lease, found: RowWithDueWork | None) -> None:
        """Counts stored votes and applies deadlines. Never waits for a card to be drawn."""
        nothing_was_due = True
        if found is None:
            found = await lease.run(with_due_work(keep_time), confirmation_id)
        row, owed_now = found
        while not nothing_is_due((row, owed_now)):
            row, owed_now = await self._decide(row, owed_now, lease)
            nothing_was_due = False
        if nothing_was_due:
            await lease.finish(recompute_due, confirmation_id)

    async def _decide(self, row: Confirmation, due: Sequence[DueWork], lease: Lease) -> RowWithDueWork:
        try:
            if DueWork.COUNT in due:
                with work_span("count", row=row):
                    return await self._count(lease, row)
            if DueWork.PREVIEW in due:
                with work_span("preview", row=row):
                    return await self._preview(lease, row)
        except NotNow:
            await lease.run(keep_time, row.id)  # deadlines apply even while somebody is asked
            raise
        return await lease.finish_if(nothing_is_due, with_due_work(keep_time), row.id)

    async def _card(self, confirmation_id: str, lease: Lease, due: DueCard | float | None) -> None:
        """Draws until every card shows the current row. A call that was just approved often ends within a second: then
        only its end is drawn, because Slack allows few updates a minute."""
        if isinstance(due, float):
            raise NotNow(due, "The call was approved just now, and may end in a moment.")
        if due is None:  # nothing to draw, or a void row
            await lease.finish(save_drawn, confirmation_id, ())
            return
        with work_span("draw", row=due.row):
            places = tuple(await self._drawing.draw(lease, due.row, due.session, due.around))
        await lease.finish(save_drawn, confirmation_id, places)

    async def _count(self, lease: Lease, row: Confirmation) -> RowWithDueWork:
        vote, policies, known = row.pending_votes[0], self._rules.policies, nothing_known
        if needs_asking(row, vote):
            session = await lease.read(read_session, chain_of(row.asked.session))
            asked = await self._facts.answer(
                (row.id, row.version, vote.id),
                lambda: self._people.facts(row, vote, policies, session.speakers),
            )
            known = partial(self._people.fresh_facts, policies=policies, asked=asked)
            after = waits_for_slack(row, vote, asked)
            if after is not None and await lease.read(seconds_waiting, vote) < HELD_FOR:
                raise NotNow(after, "Slack answers no more questions about who may decide for now.")
        if vote.edit is not None:  # caches the conditions' results for the edited call, so that the transaction is fast
            await asyncio.to_thread(check_edit, row, vote.edit, policies)
        count = with_due_work(count_next)
        return await lease.finish_if(nothing_is_due, count, row.id, vote.id, known, policies)

    async def _preview(self, lease: Lease, row: Confirmation) -> RowWithDueWork:
        """Asks the host what the edited call would do. Votes go on meanwhile: anybody who may decide can deny it."""
        number, arguments = row.revision.number, row.revision.arguments
        made = await self._previews.answer((row.id, number), lambda: self._preview_of(row.asked, arguments))
        seen = take_preview(row, made.as_json(), row.changed_at).row
        if not await asyncio.to_thread(lambda: can_be_shown(shown_of(seen))):
            made = Preview(failed=decision_texts.PREVIEW_TOO_LONG)
        return await lease.finish_if(nothing_is_due, with_due_work(save_preview), row.id, number, made.as_json())

    async def _answer(self, vote: str, lease: Lease, answer: tuple[Seat, Verdict]) -> None:
        await self._drawing.reply(lease, *answer)
        await lease.finish(note_answered, vote)


def nothing_is_due(found: RowWithDueWork) -> bool:
    """Whether a confirmation needs nothing now but to be drawn, which another job does."""
    return not set(found[1]) - {DueWork.DRAW}


def read_due_work(tx: Tx, confirmation_id: str) -> RowWithDueWork | None:
    row = read_confirmation(tx, confirmation_id)
    return None if row is None else (row, due_work(row, now(tx)))


@dataclass(frozen=True)
class DueCard:
    """What is needed to draw a confirmation's cards."""

    row: Confirmation
    session: Session
    around: CardContext


def due_card(tx: Tx, confirmation_id: str, *, stopping: bool = False) -> DueCard | float | None:
    """What to draw, or how many seconds to wait first. None if every card shows the current row."""
    row = read_confirmation(tx, confirmation_id)
    if row is None or not needs_drawing(row):
        return None
    if (wait := seconds_until_drawn(tx, row)) > 0:
        return wait
    return DueCard(row, read_session(tx, chain_of(row.asked.session)), read_card_context(tx, row, stopping=stopping))


def seconds_until_drawn(tx: Tx, row: Confirmation) -> float:
    """Seconds that the cards of a call that was just approved wait for its end. A card that is not posted yet does not
    wait. Many due cards make the wait longer, since Slack allows about fifty updates a minute."""
    if row.decision is None or not waits_for_end(row) or read_pause(tx):
        return 0.0
    others = count_due_cards(tx, most=round(LONGEST_HOLD / WHILE_OWED) + 1) - 1
    wait = min(SOON + others * WHILE_OWED, LONGEST_HOLD)
    return row.decision.at.timestamp() + wait - now(tx).timestamp()


def with_due_work(change: Callable[Concatenate[Tx, P], Confirmation]) -> Callable[Concatenate[Tx, P], RowWithDueWork]:
    """Wraps a transaction function so that it also returns what the changed row needs next."""

    @wraps(change)
    def changed(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> RowWithDueWork:
        row = change(tx, *args, **kwargs)
        return row, due_work(row, now(tx))

    return changed


def seconds_waiting(tx: Tx, vote: Vote) -> float:
    return (now(tx) - vote.stored_at).total_seconds()


def next_deadline(tx: Tx, confirmation_id: str) -> float | None:
    """When a confirmation next needs something besides drawing. None: nothing, or not known."""
    row = read_confirmation(tx, confirmation_id)
    times = [since.timestamp() for since, what in scheduled_work(row) if what is not DueWork.DRAW] if row else []
    return min((at for at in times if at > tx.now()), default=None)


def read_card_context(tx: Tx, row: Confirmation, *, stopping: bool = False) -> CardContext:
    """What a card shows besides its row: grants, and whether runs are paused. `stopping`: this process begins none, so
    an approved call starts in another one, or after the restart."""
    key = chain_of(row.asked.session)
    given = [grant for grant in grants_in(tx, key) if grant.id == row.id]
    pause = read_pause(tx) if row.outcome is None and row.state in (State.WAITING, State.APPROVED) else None
    paused = Paused(pause.by, pause.reason) if pause else None
    if paused is None and stopping and row.state is State.APPROVED and row.outcome is None:
        waits_for_others = any(row.id == one.id for one, _ in approvals_held_back(session_confirmations(tx, key)))
        paused = None if waits_for_others else Paused(restarts=True)
    return CardContext(grants=given, paused=paused)
