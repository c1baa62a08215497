"""`adk-confirm pending` and `retry`: what waits for people, and what failed so often that it is no longer retried."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from bot.audit.ledger import SYSTEM, LineKind, stamp
from bot.confirmation.effects import Step
from bot.confirmation.model import Confirmation, VoteKind
from bot.policy.approvers import Person
from bot.policy.model import may_decide
from bot.policy.redaction import own_words
from bot.store.ledger_lines import write_step
from bot.store.repository import ATTENDED, moment, now
from bot.store.rows import STORED, load
from runtime.jsontypes import JsonObject
from runtime.store.database import Database, Tx

PAGE = 200
NAMED = 20
"""How many rows a ledger line names when all are retried."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A confirmation that waits for people, masked: for "approval", or "outcome" (did the call take effect?)."""

    id: str
    waits_for: str
    tool: str
    arguments: JsonObject
    hidden: int
    session: str
    asked_by: str
    since: datetime
    until: datetime
    approvers: tuple[str, ...]
    votes: tuple[str, ...]
    quorum: int
    revision: int
    channel: str | None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids for which a name would help."""
        return (*self.approvers, *self.votes, self.asked_by, self.channel or "")

    def to_json(self) -> JsonObject:
        shown = {**asdict(self), "since": stamp(self.since), "until": stamp(self.until)}
        del shown["channel"]
        return shown


@dataclass(frozen=True, kw_only=True)
class ParkedRow:
    """A row that failed so often that it is not retried, or one that this version can't read."""

    kind: str
    name: str
    since: datetime | None
    trouble: str

    def to_json(self) -> JsonObject:
        since = None if self.since is None else stamp(self.since)
        return {**asdict(self), "since": since}


async def find_pending(database: Database) -> AsyncIterator[Pending | ParkedRow]:
    """What waits, oldest first. A confirmation that somebody changed is returned as `ParkedRow`: this program
    can't read it."""
    async for stored in stored_confirmations(database, "(c.state = 'waiting' OR c.outcome = 'unknown')"):
        row = await database.read(load, stored)
        trouble = "Somebody changed it in the database. It ends when it is looked at."
        yield _pending_row(row) if row else ParkedRow(kind="confirmation", name=stored.id, since=None, trouble=trouble)


async def stored_confirmations(database: Database, which: str) -> AsyncIterator[Any]:
    """The confirmations for which this condition holds, as they are stored, oldest first. They are read page by
    page."""
    page = f"{STORED} WHERE {which} AND (c.created, c.id) > (:at, :id) ORDER BY c.created, c.id LIMIT :most"

    def read(tx: Tx, at: float, id_: str) -> list[Any]:
        return tx.all(page, at=at, id=id_, most=PAGE)

    at, id_ = 0.0, ""
    while True:
        found = await database.read(read, at, id_)
        for stored in found:
            yield stored
        if len(found) < PAGE:
            return
        at, id_ = found[-1].created, found[-1].id


def _pending_row(row: Confirmation) -> Pending:
    arguments, hidden = row.redactor.mask_call(row.revision.arguments)
    unknown = row.unknown and row.outcome is not None
    votes = row.standing_votes(VoteKind.RUN_AGAIN if unknown else VoteKind.APPROVE)
    return Pending(
        id=row.id,
        waits_for="outcome" if unknown else "approval",
        tool=row.asked.tool,
        arguments=arguments,
        hidden=hidden,
        session=row.asked.session.id,
        asked_by=row.asked.asked_by.user,
        since=row.outcome.at if unknown and row.outcome else row.asked_at,
        until=row.unknown_until or row.deadline if unknown else row.deadline,
        approvers=tuple(map(str, may_decide(row.policy, row.escalated))),
        votes=tuple(dict.fromkeys(vote.voter.user for vote in votes)),
        quorum=row.policy.quorum,
        revision=row.revision.number,
        channel=row.asked.channel,
    )


_PARKED = """
    SELECT {key} AS name, parked_at, trouble FROM {table} WHERE parked_at IS NOT NULL ORDER BY parked_at
"""
_RETRY = "UPDATE {table} SET parked_at = NULL, failures = 0, trouble = NULL, due_at = :now WHERE {key} = :name"


def read_parked(tx: Tx) -> list[ParkedRow]:
    return [
        ParkedRow(kind=kind, name=row.name, since=moment(row.parked_at), trouble=row.trouble or "it does not say why")
        for kind, attended in ATTENDED.items()
        for row in tx.all(_PARKED.format(table=attended.table, key=attended.key))
    ]


def retry(tx: Tx, name: str | None, by: Person, reason: str | None) -> list[ParkedRow]:
    """Retries parked rows whose name begins with `name`, or all of them, as if they had never failed."""
    found = [one for one in read_parked(tx) if name is None or one.name.startswith(name)]
    for one in found:
        attended = ATTENDED[one.kind]
        tx.run(_RETRY.format(table=attended.table, key=attended.key), name=one.name, now=tx.now())
        tx.notify(attended.topic)
    if found:
        named = [f"{one.kind} {one.name}" for one in found[:NAMED]]
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        text = f"{', '.join(named)}{more}" + (f": {reason}" if reason else "")
        write_step(tx, SYSTEM, Step(kind=LineKind.RETRIED, at=now(tx), who=by, text=own_words(text)))
    return found
