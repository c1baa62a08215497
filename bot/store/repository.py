"""Locks, reads and saves the bot's rows, for transaction functions. The session's row is always locked first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select, update

from bot.audit.ledger import LedgerLine
from bot.confirmation.effects import AnswerDelivery, Delivery
from bot.confirmation.model import AskedCall, Confirmation, Place, SessionKey
from bot.confirmation.schedule import needs_drawing, next_due
from bot.confirmation.states import Transition
from bot.confirmation.stored_json import delivery_to_json, places_from_json
from bot.confirmation.void import KnownStep, end_void, from_ledger
from bot.policy.approvers import Person
from bot.store.ledger_lines import confirmation_lines, content_of, find_head, write_step
from bot.store.rows import STORED, letter_is_sealed, letter_seal, load, sealed_body, sealed_places
from bot.store.slack_lanes import mark_cards_due, seconds_until_posted
from bot.store.tables import cards, confirmations, grants, mail, sessions, storable
from bot.store.waiting_index import update_waiting_index
from runtime.errors import NotFound
from runtime.jsontypes import Json
from runtime.store.database import Tx, for_update
from runtime.store.prepared import Prepared
from runtime.store.seal import seal_of

SESSIONS = "bot:sessions"
CONFIRMATIONS = "bot:confirmations"
REPLIES = "bot:replies"
"""Topics, notified when a row of this kind may be due."""


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session as Slack knows it: one thread."""

    key: str
    session: SessionKey
    team: str
    channel: str
    thread_ts: str
    starter: Person
    speakers: frozenset[Person]  # people who spoke to the agent
    present: frozenset[Person]  # everybody who wrote in the thread
    told_seq: int
    sealed: str = ""

    @property
    def place(self) -> tuple[str | None, ...]:
        """The part of a session that never changes."""
        at = self.session
        fixed = (self.key, at.app, at.user, at.id, self.team, self.channel, self.thread_ts)
        return (*fixed, self.starter.team, self.starter.user)


_SESSION = select(sessions).where(sessions.c.key == bindparam("key_"))
_FIND_SESSION, _LOCK_SESSION = Prepared(_SESSION), Prepared(for_update(_SESSION))
_CONFIRMATION = STORED.where(confirmations.c.id == bindparam("id_"))
_FIND_CONFIRMATION, _LOCK_CONFIRMATION = Prepared(_CONFIRMATION), Prepared(for_update(_CONFIRMATION))
_SAVED = (
    "state",
    "outcome",
    "decided_at",
    "version",
    "due_at",
    "owed_since",
    "parked_at",
    "failures",
    "body",
    "sealed",
)
_SAVE = Prepared(
    update(confirmations)
    .where(confirmations.c.id == bindparam("id_"))
    .values({name: bindparam(f"{name}_") for name in _SAVED})
)
_OPENED = ("id", "session", "request_id", "call_id", "tool", "team", "asked_by", "created", *_SAVED)
_OPEN = Prepared(insert(confirmations).inline().values({name: bindparam(f"{name}_") for name in _OPENED}))
_OWE = Prepared(
    update(sessions)
    .where(sessions.c.key == bindparam("key_"))
    .values(due_at=bindparam("due_at_"), parked_at=None, failures=0)
)
_KNOWN_MAIL = Prepared(
    select(mail.c.id).where(mail.c.session == bindparam("session_"), mail.c.mark == bindparam("mark_"))
)
_LETTER = ("session", "kind", "mark", "body", "person", "confirmation", "stored_at", "turn", "line", "sealed")
_PUT_MAIL = Prepared(insert(mail).inline().values({name: bindparam(f"{name}_") for name in _LETTER}))
_LAST_WORDS = Prepared(
    select(func.coalesce(func.max(mail.c.id), 0).label("id")).where(
        mail.c.session == bindparam("session_"), mail.c.kind == "words"
    )
)
_SAVE_PEOPLE = Prepared(
    update(sessions)
    .where(sessions.c.key == bindparam("key_"))
    .values({name: bindparam(f"{name}_") for name in ("speakers", "present", "sealed")})
)
_OF_SESSION = Prepared(STORED.where(confirmations.c.session == bindparam("session_")).order_by(confirmations.c.created))
_PLACES: dict[str, object] = {name: bindparam(f"{name}_") for name in ("places", "sealed")}
_SAVE_PLACES = Prepared(update(cards).where(cards.c.confirmation == bindparam("id_")).values(_PLACES))
_NEW_PLACES = Prepared(
    insert(cards)
    .inline()
    .values(
        confirmation=bindparam("id_"),
        session=bindparam("session_"),
        **_PLACES,
    )
)


def chain_of(session: SessionKey) -> str:
    return f"{session.app}/{session.user}/{session.id}"


def session_in(chain: str) -> str:
    """The id of a chain's session, as people see it."""
    return chain.rpartition("/")[2]


def now(tx: Tx) -> datetime:
    return moment(tx.now())


def lock_session(tx: Tx, key: str) -> Session:
    row = _LOCK_SESSION.first(tx, key_=key)
    if row is None:
        raise NotFound(f"There is no session {key}.")
    return _session(row)


def find_session(tx: Tx, key: str) -> Session | None:
    row = _FIND_SESSION.first(tx, key_=key)
    return None if row is None else _session(row)


def _session(row: Row[*tuple[Any, ...]]) -> Session:
    return Session(
        key=row.key,
        session=SessionKey(row.app, row.user_id, row.id),
        team=row.team,
        channel=row.channel,
        thread_ts=row.thread_ts,
        starter=Person(row.team, row.starter),
        speakers=_people(row.speakers),
        present=_people(row.present),
        told_seq=row.told_seq,
        sealed=row.sealed,
    )


def _people(stored: str) -> frozenset[Person]:
    return frozenset(Person(team, user) for team, user in json.loads(stored))


def people_text(people: Iterable[Person]) -> str:
    """People as JSON, as the database keeps them."""
    return json.dumps(sorted([person.team, person.user] for person in people))


def session_is_sealed(tx: Tx, session: Session) -> bool:
    """Whether the session's place and speakers are as this app saved them: it is sealed."""
    last = _LAST_WORDS.first(tx, session_=session.key).id
    body: list[Json] = [*session.place, people_text(session.speakers)]
    return seal_of(tx).fits(session.sealed, "session", session.key, body, last)


def session_seal(tx: Tx, session: Session) -> str:
    """Covers the last message in the mailbox, because an older row of the session would lack those who spoke since."""
    last = _LAST_WORDS.first(tx, session_=session.key).id
    return seal_of(tx).of("session", session.key, [*session.place, people_text(session.speakers)], last)


def save_people(tx: Tx, session: Session, *, stood: bool) -> None:
    """Saves the session's speakers. `stood`: whether the session's seal fitted before. If it did not, the session is
    never sealed again."""
    sealed = session_seal(tx, session) if stood else ""
    people = {"speakers_": people_text(session.speakers), "present_": people_text(session.present)}
    _SAVE_PEOPLE(tx, key_=session.key, sealed_=sealed, **people)


def lock_confirmation(tx: Tx, confirmation_id: str) -> tuple[Session, Confirmation]:
    """Locks the session and the confirmation, always in this order. What somebody changed in the database is ended."""
    found = _FIND_CONFIRMATION.first(tx, id_=confirmation_id)
    if found is None:
        raise NotFound(f"There is no confirmation {confirmation_id}.")
    session = lock_session(tx, found.session)
    if tx.dialect != "sqlite":  # SQLite has one writer, so nothing changes in between
        found = _LOCK_CONFIRMATION.first(tx, id_=confirmation_id)
        if found is None:  # a purge was faster
            raise NotFound(f"There is no confirmation {confirmation_id}.")
    row = load(tx, found)
    return session, _end_void(tx, session, found) if row is None else row


def _end_void(tx: Tx, session: Session, found: Row[*tuple[Any, ...]]) -> Confirmation:
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
        places = places_from_json(found.places)
        row = replace(row, places=places, version=_later_than(found.body, places))
    return save(tx, session, end_void(row, now(tx)))


def _later_than(body: str, places: Sequence[Place]) -> int:
    """A version that no card shows, not even one that is being drawn from the void row."""
    claimed = re.findall(r'"version":\s?(\d{1,9})\b', body)
    return max([*map(int, claimed), *(place.drawn_version for place in places), 1])


def read_confirmation(tx: Tx, confirmation_id: str) -> Confirmation | None:
    """None if there is none, or if somebody changed it."""
    found = _FIND_CONFIRMATION.first(tx, id_=confirmation_id)
    return None if found is None else load(tx, found)


def session_confirmations(tx: Tx, key: str) -> list[Confirmation]:
    rows = (load(tx, found) for found in _OF_SESSION.all(tx, session_=key))
    return [row for row in rows if row is not None]


def save(tx: Tx, session: Session, change: Transition, *, new: bool = False) -> Confirmation:
    """Saves a change: the row, its ledger lines, its message to the session, and its grant."""
    row = change.row
    wait = seconds_until_posted(tx, row, {step.kind for step in change.steps})
    for step in change.steps:
        write_step(tx, session.key, step, row.id, row.asked.tool, wait=wait)
    values = _columns(tx, session, row)
    if new:
        _OPEN(
            tx,
            id_=row.id,
            session_=session.key,
            request_id_=row.asked.request_id,
            call_id_=row.asked.call_id,
            tool_=row.asked.tool,
            team_=row.asked.team,
            asked_by_=row.asked.asked_by.user,
            created_=seconds(row.asked_at),
            **{f"{name}_": value for name, value in values.items()},
        )
    else:
        _SAVE(tx, id_=row.id, **{f"{name}_": value for name, value in values.items()})
    update_waiting_index(tx, row, change.steps)
    if change.delivery is not None:
        deliver(tx, session, change.delivery, row.id)
    if change.grant is not None:
        tx.execute(
            insert(grants).values(
                id=change.grant.id,
                session=session.key,
                until=seconds(change.grant.until),
            )
        )
    if (due := next_due(row)) is not None:
        tx.notify(CONFIRMATIONS, seconds(due))
    if change.steps:
        tx.report(change)
    if needs_drawing(row):
        mark_cards_due(tx, session.key, row)
    if new and row.places:
        save_places(tx, session.key, row)
    return row


def save_places(tx: Tx, session: str, row: Confirmation) -> None:
    """Saves where cards are and what they show. Changes nothing else, not even when the row is due."""
    places = {f"{name}_": value for name, value in sealed_places(tx, row.id, row.places).items()}
    if not _SAVE_PLACES(tx, id_=row.id, **places):
        _NEW_PLACES(tx, id_=row.id, session_=session, **places)


def recompute_due(tx: Tx, confirmation_id: str) -> None:
    """Sets the row's due time from its state, whatever the column says, after a `retry` or an upgrade."""
    _, row = lock_confirmation(tx, confirmation_id)
    here = update(confirmations).where(confirmations.c.id == row.id)
    tx.execute(here.values(due_at=seconds(next_due(row)), owed_since=None, failures=0, trouble=None))


def _columns(tx: Tx, session: Session, row: Confirmation) -> dict[str, object]:
    return {
        "state": str(row.state),
        "outcome": str(row.outcome.kind) if row.outcome else None,
        "decided_at": seconds(row.decision.at) if row.decision else None,
        "version": row.version,
        "due_at": seconds(next_due(row)),
        "owed_since": None,
        "parked_at": None,
        "failures": 0,
        **sealed_body(tx, session.key, row),
    }


def deliver(tx: Tx, session: Session, delivery: Delivery, confirmation: str) -> None:
    """Puts a delivery into the session's mailbox. Each attempt, revision and answer is stored only once, however often
    this runs."""
    if isinstance(delivery, AnswerDelivery):
        kind, word = "answer", "approved" if delivery.confirmed else "denied"
        revision = f":{delivery.revision}" if delivery.revision > 1 else ""
    else:
        kind, word, revision = "settlement", str(delivery.word), ""
    put_mail(
        tx,
        session.key,
        kind=kind,
        mark=f"{confirmation}:{delivery.attempt}:{word}{revision}",
        body=delivery_to_json(delivery),
        confirmation=confirmation,
    )


def has_mail(tx: Tx, session: str, mark: str) -> bool:
    """Whether this letter is in the mailbox, received or not."""
    return _KNOWN_MAIL.first(tx, session_=session, mark_=mark) is not None


def put_mail(
    tx: Tx, session: str, *, kind: str, mark: str, body: str, person: str | None = None, confirmation: str | None = None
) -> bool:
    """Stores a letter. Returns False if it was stored before."""
    if has_mail(tx, session, mark):
        return False
    letter = {
        "session": session,
        "kind": kind,
        "mark": mark,
        "body": body,
        "person": person,
        "confirmation": confirmation,
        "stored_at": tx.now(),
        "turn": None,
        "line": find_head(tx, session).seq,
    }
    letter["sealed"] = letter_seal(tx, letter)
    _PUT_MAIL(tx, **{f"{name}_": value for name, value in letter.items()})
    mark_session_due(tx, session)
    return True


def note_turn(tx: Tx, letter: int, turn: str) -> None:
    """Notes which invocation a person's message began: its author asked for all calls of that turn."""
    here = mail.c.id == letter
    found = tx.execute(for_update(select(mail).where(here))).one_or_none()
    if found is not None and found.turn is None and letter_is_sealed(tx, found):
        turn = storable(turn)
        values = {"turn": turn, "sealed": letter_seal(tx, {**found._mapping, "turn": turn})}
        tx.execute(update(mail).where(here).values(values))


def put_words(tx: Tx, session: Session, *, mark: str, body: str, person: Person) -> bool:
    """Stores a person's message to the agent, and counts the person among the session's speakers. Returns False if it
    was stored before."""
    stood = session_is_sealed(tx, session)
    if not put_mail(tx, session.key, kind="words", mark=mark, body=body, person=person.user):
        return False
    speaks = replace(session, speakers=session.speakers | {person}, present=session.present | {person})
    save_people(tx, speaks, stood=stood)
    return True


def mark_session_due(tx: Tx, key: str) -> None:
    """Marks the session as due, since it has mail."""
    _OWE(tx, key_=key, due_at_=tx.now())
    tx.notify(SESSIONS)


def read_history(tx: Tx, confirmation: str) -> tuple[Confirmation, list[LedgerLine]] | None:
    """A confirmation with all of its ledger lines."""
    row = read_confirmation(tx, confirmation)
    return None if row is None else (row, confirmation_lines(tx, confirmation))
