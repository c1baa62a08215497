"""The bot's rows as transaction functions use them: lock, read, save. The session's row is locked first, always."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update

from bot.audit.ledger import Head, LedgerLine, LineKind, append, stamp, to_show
from bot.confirmation.effects import AnswerDelivery, Delivery, Step
from bot.confirmation.grants import Grant, revoked
from bot.confirmation.model import Confirmation, SessionKey
from bot.confirmation.schedule import next_due, to_draw
from bot.confirmation.states import Transition
from bot.confirmation.stored_json import delivery_to_json, row_from_json, row_to_json, step_content
from bot.policy.approvers import Person
from bot.store.sealed_rows import LAST_LINE, doubt_about, ledger_keys, letter_seal, seal_row
from bot.store.slack_lanes import owe_card, owe_thread
from bot.store.tables import chains, confirmations, grants, ledger, mail, sessions
from bot.store.waiting_index import relist
from runtime.errors import NotFound
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Tx, for_update
from runtime.store.prepared import Prepared
from runtime.store.upsert import insert_if_absent

SESSIONS = "bot:sessions"
CONFIRMATIONS = "bot:confirmations"
REPLIES = "bot:replies"
HOMES = "bot:homes"
"""Topics: something of this kind may be due."""


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
    enterprise: str | None
    channel: str
    thread_ts: str
    starter: Person
    speakers: frozenset[Person]  # who spoke to the agent
    present: frozenset[Person]  # who wrote in the thread at all
    told_seq: int


_SESSION = select(sessions).where(sessions.c.key == bindparam("key_"))
_FIND_SESSION, _LOCK_SESSION = Prepared(_SESSION), Prepared(for_update(_SESSION))
_CONFIRMATION = select(
    confirmations.c.id,
    confirmations.c.session,
    confirmations.c.body,
    confirmations.c.sealed,
    LAST_LINE.scalar_subquery().label("last_line"),
).where(confirmations.c.id == bindparam("id_"))
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
_OWE = Prepared(
    update(sessions)
    .where(sessions.c.key == bindparam("key_"))
    .values(due_at=bindparam("due_at_"), parked_at=None, failures=0)
)
_HEAD = Prepared(for_update(select(chains.c.seq, chains.c.hash).where(chains.c.chain == bindparam("chain_"))))
_MOVE_HEAD = Prepared(
    update(chains).where(chains.c.chain == bindparam("chain_")).values(seq=bindparam("seq_"), hash=bindparam("hash_"))
)
_WRITE_LINE = Prepared(insert(ledger).values({column.name: bindparam(f"{column.name}_") for column in ledger.c}))
_KNOWN_MAIL = Prepared(
    select(mail.c.id).where(mail.c.session == bindparam("session_"), mail.c.mark == bindparam("mark_"))
)
_PUT_MAIL = insert(mail).inline()


def chain_of(session: SessionKey) -> str:
    return f"{session.app}/{session.user}/{session.id}"


def session_in(chain: str) -> str:
    """The session's id, as people know it."""
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
        enterprise=row.enterprise,
        channel=row.channel,
        thread_ts=row.thread_ts,
        starter=Person(row.team, row.starter),
        speakers=_people(row.speakers),
        present=_people(row.present),
        told_seq=row.told_seq,
    )


def _people(stored: str) -> frozenset[Person]:
    return frozenset(Person(team, user) for team, user in json.loads(stored))


def lock_confirmation(tx: Tx, confirmation_id: str) -> tuple[Session, Confirmation]:
    """Both rows, in the order that everybody locks them in."""
    found = _FIND_CONFIRMATION.first(tx, id_=confirmation_id)
    if found is None:
        raise NotFound(f"There is no confirmation {confirmation_id}.")
    session = lock_session(tx, found.session)
    if tx.dialect != "sqlite":  # there the writer is alone, and what it read stands
        found = _LOCK_CONFIRMATION.first(tx, id_=confirmation_id)
    return session, _confirmation(tx, found)


def read_confirmation(tx: Tx, confirmation_id: str) -> Confirmation | None:
    found = _FIND_CONFIRMATION.first(tx, id_=confirmation_id)
    return None if found is None else _confirmation(tx, found)


def _confirmation(tx: Tx, found: Row[*tuple[Any, ...]]) -> Confirmation:
    return replace(row_from_json(found.body), doubt=doubt_about(tx, found))


def session_confirmations(tx: Tx, key: str) -> list[Confirmation]:
    found = select(confirmations.c.body).where(confirmations.c.session == key).order_by(confirmations.c.created)
    return [row_from_json(body) for body in tx.execute(found).scalars()]


def save(tx: Tx, session: Session, change: Transition, *, new: bool = False) -> Confirmation:
    """All that a change brings, together: the row, its ledger lines, what the session is to be told, a grant."""
    row = change.row
    for step in change.steps:
        write_step(tx, session.key, step, row.id, row.asked.tool)
    values = _columns(tx, row)
    if new:
        tx.execute(
            insert(confirmations).values(
                id=row.id,
                session=session.key,
                request_id=row.asked.request_id,
                call_id=row.asked.call_id,
                tool=row.asked.tool,
                team=row.asked.team,
                enterprise=row.asked.enterprise,
                asked_by=row.asked.asked_by.user,
                created=seconds(row.asked_at),
                **values,
            )
        )
    else:
        _SAVE(tx, id_=row.id, **{f"{name}_": value for name, value in values.items()})
    relist(tx, row, change.steps)
    if change.delivery is not None:
        deliver(tx, session, change.delivery, row.id)
    if change.grant is not None:
        tx.execute(
            insert(grants).values(
                id=change.grant.id,
                session=session.key,
                until=seconds(change.grant.until),
                body=canonical(change.grant.to_json()),
            )
        )
    if change.revoked_by is not None:
        _revoke(tx, row.id, change.revoked_by)
    if values["due_at"] is not None:
        tx.notify(CONFIRMATIONS)
    if change.steps:
        tx.report(change)
    if to_draw(row):
        owe_card(tx, session.key, row)
    return row


def save_places(tx: Tx, row: Confirmation) -> None:
    """Where cards stand and what they show: nothing else changes, and what is owed besides stays due as it is."""
    tx.execute(update(confirmations).where(confirmations.c.id == row.id).values(_sealed_body(tx, row)))


def due_again(tx: Tx, confirmation_id: str) -> None:
    """Due when the row says so, whatever stands there: after a `retry`, or as an earlier version has left it."""
    _, row = lock_confirmation(tx, confirmation_id)
    here = update(confirmations).where(confirmations.c.id == row.id)
    tx.execute(here.values(due_at=seconds(next_due(row)), owed_since=None, failures=0, trouble=None))


def _revoke(tx: Tx, grant_id: str, by: Person) -> None:
    here = grants.c.id == grant_id
    body = tx.execute(for_update(select(grants.c.body).where(here))).scalar_one()
    grant = revoked(Grant.from_json(json.loads(body)), by, now(tx))
    tx.execute(update(grants).where(here).values(revoked_at=tx.now(), body=canonical(grant.to_json())))


def _columns(tx: Tx, row: Confirmation) -> dict[str, object]:
    return {
        "state": str(row.state),
        "outcome": str(row.outcome.kind) if row.outcome else None,
        "decided_at": seconds(row.decision.at) if row.decision else None,
        "version": row.version,
        "due_at": seconds(next_due(row)),
        "owed_since": None,
        "parked_at": None,
        "failures": 0,
        **_sealed_body(tx, row),
    }


def _sealed_body(tx: Tx, row: Confirmation) -> dict[str, object]:
    """A row in doubt stays in doubt, until `unsealed.checked` has looked at it."""
    body = row_to_json(row)
    return {"body": body, "sealed": seal_row(tx, row.id, body) if row.doubt is None else ""}


def write_step(tx: Tx, chain: str, step: Step, confirmation: str | None = None, tool: str | None = None) -> LedgerLine:
    """One more line of a chain. The chain's head is locked, so that lines written at once stand one after the other."""
    keys = ledger_keys(tx)
    line = append(
        _lock_head(tx, chain),
        chain,
        step.kind,
        step_content(step),
        keys,
        at=step.at,
        salt=secrets.token_hex(16),
        confirmation=confirmation,
        tool=tool,
    )
    _MOVE_HEAD(tx, chain_=chain, seq_=line.seq, hash_=line.hash)
    stored = {
        "chain": chain,
        "seq": line.seq,
        "at": seconds(line.at),
        "stamp": stamp(line.at),
        "kind": str(line.kind),
        "confirmation": confirmation,
        "tool": tool,
        "content": line.content,
        "salt": line.salt,
        "digest": line.digest,
        "previous": line.previous,
        "hash": line.hash,
        "sealed": line.sealed,
    }
    _WRITE_LINE(tx, **{f"{name}_": value for name, value in stored.items()})
    tx.report(line)
    owe_thread(tx, chain)
    return line


def _lock_head(tx: Tx, chain: str) -> Head:
    head = _HEAD.first(tx, chain_=chain)
    if head is None:
        # Another replica may begin it at this moment: then its line comes first, and this one continues it.
        begun = Head()
        tx.execute(insert_if_absent(tx.dialect, chains), {"chain": chain, "seq": begun.seq, "hash": begun.hash})
        head = _HEAD.first(tx, chain_=chain)
    return Head(head.seq, head.hash)


def deliver(tx: Tx, session: Session, delivery: Delivery, confirmation: str) -> None:
    """Into the session's mailbox: once for each attempt and word, whoever runs this again."""
    if isinstance(delivery, AnswerDelivery):
        kind, word = "answer", "approved" if delivery.confirmed else "denied"
    else:
        kind, word = "settlement", str(delivery.word)
    put_mail(
        tx,
        session.key,
        kind=kind,
        mark=f"{confirmation}:{delivery.attempt}:{word}",
        body=delivery_to_json(delivery),
        confirmation=confirmation,
    )


def has_mail(tx: Tx, session: str, mark: str) -> bool:
    """Whether it was put there, told or not."""
    return _KNOWN_MAIL.first(tx, session_=session, mark_=mark) is not None


def put_mail(
    tx: Tx, session: str, *, kind: str, mark: str, body: str, person: str | None = None, confirmation: str | None = None
) -> bool:
    """False: it was there already."""
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
        "sealed": letter_seal(tx, session, mark, person, body),
    }
    tx.execute(_PUT_MAIL, letter)
    owe_session(tx, session)
    return True


def owe_session(tx: Tx, key: str) -> None:
    """The session has mail."""
    _OWE(tx, key_=key, due_at_=tx.now())
    tx.notify(SESSIONS)


def read_lines(tx: Tx, chain: str, after: int = 0) -> list[LedgerLine]:
    """A chain's lines from number `after` + 1 on."""
    found = select(ledger).where(ledger.c.chain == chain, ledger.c.seq > after).order_by(ledger.c.seq)
    return [line_of(row) for row in tx.execute(found)]


def lines_to_tell(tx: Tx, chain: str, after: int) -> list[LedgerLine]:
    """The same, for a thread: a line that somebody changed or made in the database is an alarm instead."""
    return [to_show(line, ledger_keys(tx)) for line in read_lines(tx, chain, after)]


def confirmation_lines(tx: Tx, confirmation: str) -> list[LedgerLine]:
    """All that was written of one confirmation, in order, for people to look at."""
    found = select(ledger).where(ledger.c.confirmation == confirmation).order_by(ledger.c.seq)
    return [to_show(line_of(row), ledger_keys(tx), older=True) for row in tx.execute(found)]


def line_of(row: Row[*tuple[Any, ...]]) -> LedgerLine:
    return LedgerLine(
        chain=row.chain,
        seq=row.seq,
        at=datetime.fromisoformat(row.stamp),
        kind=LineKind(row.kind),
        confirmation=row.confirmation,
        tool=row.tool,
        content=row.content,
        salt=row.salt,
        digest=row.digest,
        previous=row.previous,
        hash=row.hash,
        sealed=row.sealed,
    )


def content_of(line: LedgerLine) -> JsonObject | None:
    """What a line told, without its version; `None` once it is purged."""
    if line.content is None:
        return None
    content: JsonObject = json.loads(line.content)
    return content
