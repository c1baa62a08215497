"""Locks, reads and saves the bot's rows, for transaction functions. The session's row is always locked first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.confirmation.confirmation import AskedCall, Confirmation, Place, State
from adk_confirm.bot.confirmation.outcome import KnownStep, end_void, from_ledger, needs_drawing, next_due
from adk_confirm.bot.confirmation.states import Delivery, Transition
from adk_confirm.bot.confirmation.stored_json import from_json, to_json
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.agent_status import SUSPENDED_AFTER
from adk_confirm.bot.store.ledger_rows import confirmation_lines, content_of, find_head, write_steps
from adk_confirm.bot.store.marks import SOON, begin_attempt, forget_attempt, mark_cards_due, mark_thread_due
from adk_confirm.bot.store.sealed_rows import (
    STORED,
    letter_is_sealed,
    letter_seal,
    load,
    sealed_body,
    sealed_places,
    storable,
)
from adk_confirm.bot.store.waiting_index import update_waiting_index
from adk_confirm.runtime.errors import NotFound
from adk_confirm.runtime.jsontypes import Json, canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import owe, settle
from adk_confirm.runtime.store.seal import seal_of
from adk_confirm.runtime.wire import SessionId

JOBS = ("session", "confirmation", "card", "thread", "reply")
"""The kinds of the bot's jobs. A job's key is the session's key, the confirmation's id, or the vote's id."""


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session as Slack knows it: one thread."""

    key: str
    session: SessionId
    team: str
    channel: str
    thread_ts: str
    starter: Person
    speakers: frozenset[Person]  # people who spoke to the agent
    present: frozenset[Person]  # everybody who wrote in the thread
    told_seq: int
    sealed: str = ""
    at_work: int = 0  # the letter about which people see that its agent is at work

    @property
    def place(self) -> tuple[str | None, ...]:
        """The part of a session that never changes."""
        at = self.session
        fixed = (self.key, at.app, at.user_id, at.id, self.team, self.channel, self.thread_ts)
        return (*fixed, self.starter.team, self.starter.user)


_FIND_SESSION = "SELECT * FROM bot_sessions WHERE key = :key"
_LOCK_SESSION = f"{_FIND_SESSION} FOR UPDATE"
_FIND_CONFIRMATION = f"{STORED} WHERE c.id = :id"
_LOCK_CONFIRMATION = f"{_FIND_CONFIRMATION} FOR UPDATE"
_SAVE = """
    UPDATE bot_confirmations SET
        state = :state, outcome = :outcome, decided_at = :decided_at, granted_until = :granted_until, body = :body,
        sealed = :sealed
    WHERE id = :id
"""
_WHOSE_TURN = """
    SELECT coalesce(
        (SELECT person FROM bot_mail WHERE session = :key AND done_at IS NULL ORDER BY id LIMIT 1),
        (SELECT person FROM bot_mail WHERE session = :key AND person IS NOT NULL ORDER BY id DESC LIMIT 1)
    ) WHERE NOT EXISTS (
        SELECT 1 FROM bot_mail WHERE session = :key AND done_at IS NULL AND confirmation IS NOT NULL
    )
"""
_LAST_WORDS = "SELECT coalesce(max(id), 0) FROM bot_mail WHERE session = :key AND kind = 'words'"


def chain_of(session: SessionId) -> str:
    return f"{session.app}/{session.user_id}/{session.id}"


def session_in(chain: str) -> str:
    """The id of a chain's session, as people see it."""
    return chain.rpartition("/")[2]


def now(tx: Tx) -> datetime:
    return moment(tx.now())


def lock_session(tx: Tx, key: str) -> Session:
    known: Session | None = tx.known["bot_sessions"].get(key)
    if known is not None:
        return known
    row = tx.first(_LOCK_SESSION, key=key)
    if row is None:
        raise NotFound(f"There is no session {key}.")
    session = tx.known["bot_sessions"][key] = session_of(row)
    return session


def find_session(tx: Tx, key: str) -> Session | None:
    known: Session | None = tx.known["bot_sessions"].get(key)
    row = tx.first(_FIND_SESSION, key=key) if known is None else None
    return known if row is None else session_of(row)


def read_session(tx: Tx, key: str) -> Session:
    session = find_session(tx, key)
    if session is None:
        raise NotFound(f"There is no session {key}.")
    return session


def session_of(row: Any) -> Session:
    return Session(
        key=row.key,
        session=SessionId(*row.key.rsplit("/", 2)),  # as `chain_of` made it: columns of their own are not sealed
        team=row.team,
        channel=row.channel,
        thread_ts=row.thread_ts,
        starter=Person(row.team, row.starter),
        speakers=_people(row.speakers),
        present=_people(row.present),
        told_seq=row.told_seq,
        sealed=row.sealed,
        at_work=row.at_work,
    )


def _people(stored: str) -> frozenset[Person]:
    return frozenset(Person(team, user) for team, user in json.loads(stored))


def people_text(people: Iterable[Person]) -> str:
    """People as JSON, as the database keeps them."""
    return json.dumps(sorted([person.team, person.user] for person in people))


def session_is_sealed(tx: Tx, session: Session) -> bool:
    """Whether the session's place and people are as this app saved them: it is sealed."""
    return seal_of(tx).fits(session.sealed, "session", session.key, *_sealed(tx, session))


def session_seal(tx: Tx, session: Session) -> str:
    """The row's seal, which covers the last message's number too: an older row would lack people who spoke since."""
    return seal_of(tx).of("session", session.key, *_sealed(tx, session))


def _sealed(tx: Tx, session: Session) -> tuple[list[Json], int]:
    """What a session's seal covers: its place and people, and the number of the last message."""
    last: int | None = tx.known["bot_mail"].get(session.key)
    if last is None:
        last = tx.known["bot_mail"][session.key] = tx.value(_LAST_WORDS, key=session.key)
    return [*session.place, people_text(session.speakers), people_text(session.present)], last


def save_people(tx: Tx, session: Session, *, stood: bool) -> None:
    """Saves who spoke to the agent, and who wrote in the thread. `stood`: whether the session's seal fitted before. If
    it did not, the session is never sealed again."""
    saved = replace(session, sealed=session_seal(tx, session) if stood else "")
    tx.run(
        "UPDATE bot_sessions SET speakers = :speakers, present = :present, sealed = :sealed WHERE key = :key",
        key=session.key,
        speakers=people_text(session.speakers),
        present=people_text(session.present),
        sealed=saved.sealed,
    )
    tx.known["bot_sessions"][session.key] = saved


def lock_confirmation(tx: Tx, confirmation_id: str) -> tuple[Session, Confirmation]:
    """Locks the session and the confirmation, always in this order. Ends the confirmation if somebody
    changed its row in the database."""
    known: tuple[str, Confirmation] | None = tx.known["bot_confirmations"].get(confirmation_id)
    if known is not None:
        return lock_session(tx, known[0]), known[1]
    found = tx.first(_FIND_CONFIRMATION, id=confirmation_id)
    if found is None:
        raise NotFound(f"There is no confirmation {confirmation_id}.")
    session = lock_session(tx, found.session)
    if tx.dialect != "sqlite":  # SQLite has one writer, so nothing changes in between
        found = tx.first(_LOCK_CONFIRMATION, id=confirmation_id)
        if found is None:  # a purge was faster
            raise NotFound(f"There is no confirmation {confirmation_id}.")
    row = load(tx, found)
    if row is None:
        return session, _end_void(tx, session, found)
    tx.known["bot_ledger"][row.id] = found.last_line
    tx.known["bot_confirmations"][row.id] = session.key, row
    return session, row


def _end_void(tx: Tx, session: Session, found: Any) -> Confirmation:
    """Ends a confirmation that somebody changed in the database, with an alarm. Only what the ledger says of it counts,
    and its row is written anew from that."""
    lines = [line for line in confirmation_lines(tx, found.id) if line.chain == session.key and line.confirmation]
    known = [KnownStep(line.kind, line.at, line.tool or "", content_of(line) or {}) for line in lines]
    asked = AskedCall(
        session=session.session,
        request_id=found.request_id,
        call_id=found.call_id,
        tool="?",
        arguments={},
        agent=session.session.app,
        asked_by=session.starter,
        team=session.team,
        channel=session.channel,
    )
    row = from_ledger(found.id, asked, known, now(tx))
    seal = seal_of(tx)
    if found.places and seal.fits(found.places_sealed, "cards", found.id, found.places):
        places = from_json(tuple[Place, ...], found.places)
        row = replace(row, places=places, version=_later_than(found.body, places))
    return save(tx, session, end_void(row, now(tx)))


def _later_than(body: str, places: Sequence[Place]) -> int:
    """A version higher than that of any card, also of one that is just being drawn from the void row."""
    claimed = re.findall(r'"version":\s?(\d{1,9})\b', body)
    return max([*map(int, claimed), *(place.drawn_version for place in places), 1])


def read_confirmation(tx: Tx, confirmation_id: str) -> Confirmation | None:
    """The confirmation, unlocked. None if there is none, or if somebody changed its row."""
    known: tuple[str, Confirmation] | None = tx.known["bot_confirmations"].get(confirmation_id)
    found = tx.first(_FIND_CONFIRMATION, id=confirmation_id) if known is None else None
    return known[1] if known is not None else load(tx, found) if found is not None else None


def read_heard(tx: Tx, confirmation_id: str) -> Confirmation | None:
    """The confirmation to show: with all who have spoken to the agent since it was asked for."""
    row = read_confirmation(tx, confirmation_id)
    session = None if row is None else find_session(tx, chain_of(row.asked.session))
    return row if row is None or session is None else row.heard(session.speakers)


def session_confirmations(tx: Tx, key: str) -> list[Confirmation]:
    rows = (load(tx, found) for found in tx.all(f"{STORED} WHERE c.session = :key ORDER BY c.created", key=key))
    return [row for row in rows if row is not None]


def save(tx: Tx, session: Session, change: Transition, *, new: bool = False, draws: bool = True) -> Confirmation:
    """Saves a change: the row, its ledger lines, and its message to the session. `draws`: whether cards that are out of
    date are due now."""
    row = change.row
    wait = SOON if row.runs and any(step.kind is LineKind.APPROVED for step in change.steps) else 0.0
    write_steps(tx, session.key, *change.steps, confirmation=row.id, tool=row.asked.tool, wait=wait)
    values = _columns(tx, session, row)
    before = tx.known["bot_confirmations"].get(row.id)
    if new:
        asked = row.asked
        opened = {
            "id": row.id,
            "session": session.key,
            "request_id": storable(asked.request_id),
            "call_id": storable(asked.call_id),
            "tool": asked.tool,
            "team": asked.team,
            "asked_by": asked.asked_by.user,
            "created": seconds(row.asked_at),
        }
        tx.insert("bot_confirmations", opened | values | (sealed_places(tx, row.id, row.places) if row.places else {}))
    else:
        tx.run(_SAVE, id=row.id, **values)
    tx.known["bot_confirmations"][row.id] = session.key, row
    update_waiting_index(tx, before and before[1], row, new=new)
    if change.delivery is not None:
        deliver(tx, session, change.delivery, row.id)
    settle(tx, "confirmation", row.id, seconds(next_due(row)), owner=session.key, turn=session.key)
    if change.steps:
        tx.report(change)
    if draws and needs_drawing(row):
        mark_cards_due(tx, session.key, row)
    if new and row.state is State.WAITING:
        mark_thread_due(tx, session.key, SUSPENDED_AFTER)
    return row


def save_places(tx: Tx, row: Confirmation) -> None:
    """Saves where cards are and what they show. Changes nothing else, not even when the row is due."""
    move = "UPDATE bot_confirmations SET places = :places, places_sealed = :places_sealed WHERE id = :id"
    known = tx.known["bot_confirmations"].get(row.id)
    tx.run(move, id=row.id, **sealed_places(tx, row.id, row.places))
    if known is not None:
        tx.known["bot_confirmations"][row.id] = known[0], row


def recompute_due(tx: Tx, confirmation_id: str) -> None:
    """Sets the row's due time from its state, whatever its job says, after a `retry` or an upgrade."""
    session, row = lock_confirmation(tx, confirmation_id)
    settle(tx, "confirmation", row.id, seconds(next_due(row)), owner=session.key, turn=session.key)


def _columns(tx: Tx, session: Session, row: Confirmation) -> dict[str, object]:
    return {
        "state": str(row.state),
        "outcome": str(row.outcome.kind) if row.outcome else None,
        "decided_at": seconds(row.decision.at) if row.decision else None,
        "granted_until": seconds(row.grant_until),
        **sealed_body(tx, session.key, row),
    }


def deliver(tx: Tx, session: Session, delivery: Delivery, confirmation: str) -> None:
    """Puts a delivery into the session's mailbox. Each attempt, revision and answer is stored only once, however often
    this runs."""
    revision = f":{delivery.revision}" if delivery.answers and delivery.revision > 1 else ""
    put_mail(
        tx,
        session.key,
        kind="answer" if delivery.answers else "settlement",
        mark=f"{confirmation}:{delivery.attempt}:{delivery.word}{revision}",
        body=to_json(delivery),
        confirmation=confirmation,
    )


def put_mail(
    tx: Tx, session: str, *, kind: str, mark: str, body: str, person: str | None = None, confirmation: str | None = None
) -> bool:
    """Stores a letter. Returns False if it was stored before."""
    letter = {
        "session": session,
        "kind": kind,
        "mark": mark,
        "body": body,
        "person": person,
        "confirmation": confirmation,
        "stored_at": tx.now(),
        "turn": None,
        "line": find_head(tx, session).seq if kind == "words" else 0,
    }
    new = tx.insert("bot_mail", {**letter, "sealed": letter_seal(tx, letter)}, if_absent=True)
    if new:
        owe(tx, "session", session, turn=None if confirmation is not None else whose_turn(tx, session))
    return new


def note_turn(tx: Tx, letter: int, turn: str) -> None:
    """Notes an invocation that a letter began: the letter's author, or its call's asker, asked for its requests."""
    found = tx.first("SELECT * FROM bot_mail WHERE id = :id FOR UPDATE", id=letter)
    if found is not None and letter_is_sealed(tx, found):
        turns = canonical([*dict.fromkeys([*json.loads(found.turn or "[]"), storable(turn)])])
        sealed = letter_seal(tx, {**found._asdict(), "turn": turns})
        tx.run("UPDATE bot_mail SET turn = :t, sealed = :sealed WHERE id = :id", id=letter, t=turns, sealed=sealed)


BROKEN = "run broken"


def note_broken_run(tx: Tx, key: str) -> None:
    """Notes that the connection to a run of the session broke, and that the run may go on."""
    forget_attempt(tx, key, BROKEN)
    begin_attempt(tx, key, BROKEN)


def put_words(tx: Tx, session: Session, *, mark: str, body: str, person: Person) -> bool:
    """Stores a person's message to the agent, and counts the person among the session's speakers. Returns False if it
    was stored before."""
    stood = session_is_sealed(tx, session)
    if not put_mail(tx, session.key, kind="words", mark=mark, body=body, person=person.user):
        return False
    speaks = replace(session, speakers=session.speakers | {person}, present=session.present | {person})
    save_people(tx, speaks, stood=stood)
    return True


def whose_turn(tx: Tx, key: str) -> str | None:
    """The person whose letter comes first, so that sessions of different people take turns. If none waits, the author
    of the last. None if the session has a decision for its agent: such a session need not wait for its turn."""
    person: str | None = tx.value(_WHOSE_TURN, key=key)
    return person


def read_history(tx: Tx, confirmation: str) -> tuple[Confirmation, list[LedgerLine]] | None:
    """A confirmation to show, with all of its ledger lines."""
    row = read_heard(tx, confirmation)
    return None if row is None else (row, confirmation_lines(tx, confirmation))
