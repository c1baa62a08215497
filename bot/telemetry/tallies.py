"""Counts decisions for the metrics, including those of commands.

A command on PostgreSQL, or without a running service, decides in a process of its own, which ends before anybody can
scrape it. It leaves its decisions in the store. The first replica that is scraped takes them and counts them as its
own, so that all replicas together count each decision once.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar
from uuid import uuid4

from sqlalchemy import delete, insert, select

from bot.audit.ledger import LineKind
from bot.confirmation.model import State
from bot.confirmation.states import Transition
from bot.store.tables import switches
from runtime.jsontypes import canonical
from runtime.store.database import Database, Tx, for_update
from runtime.store.frozen import end_frozen

R = TypeVar("R")

VERDICTS = {
    LineKind.APPROVED: "approved",
    LineKind.DENIED: "denied",
    LineKind.EXPIRED: "expired",
    LineKind.WITHDRAWN: "withdrawn",
    LineKind.ASKED_ANEW: "withdrawn",
    LineKind.LEFT_BEHIND: "withdrawn",
    LineKind.ELSEWHERE: "elsewhere",
    LineKind.LAPSED: "lapsed",
    LineKind.GRANT_USED: "granted",
}
"""Steps that decide. `lapsed` comes after an `approved` that never began; `granted` means that nobody was asked."""

_NO_WAIT = ("lapsed", "granted")
_LEFT = "decided:"
_TOGETHER, _AT_ONCE = 1000, 20


@dataclass(frozen=True)
class Tally:
    """One decision about a tool, by its masked name. `seconds` after the request, if people were asked."""

    verdict: str
    tool: str
    seconds: float | None


def tallies(change: Transition) -> Iterator[Tally]:
    row = change.row
    for step in change.steps:
        verdict = VERDICTS.get(step.kind)
        if verdict is None or (step.kind is LineKind.ELSEWHERE and step.text != State.WAITING):
            continue  # a decision made here earlier is not counted again
        if row.asked.question and step.kind is LineKind.APPROVED:
            verdict = "answered"
        timed = row.decision is not None and verdict not in _NO_WAIT
        seconds = (row.decision.at - row.asked_at).total_seconds() if timed and row.decision else None
        yield Tally(verdict, row.asked.tool, seconds)


async def leave_for_scraping(database: Database, work: Callable[[Database], Awaitable[R]]) -> R:
    """Runs a command's work, and leaves its decisions in the store for the next replica that is scraped."""
    decided: list[Tally] = []

    def heard(fact: object) -> None:
        if isinstance(fact, Transition):
            decided.extend(tallies(fact))

    database.listen(heard)
    try:
        return await work(database)
    finally:
        if decided:
            await database.run(store_tallies, decided)


# Transactions


def store_tallies(tx: Tx, decided: Sequence[Tally]) -> None:
    for begin in range(0, len(decided), _TOGETHER):
        text = canonical([asdict(one) for one in decided[begin : begin + _TOGETHER]])
        tx.execute(insert(switches).values(name=f"{_LEFT}{uuid4().hex}", value=text))


def some_left(tx: Tx) -> bool:
    found = select(switches.c.name).where(switches.c.name.startswith(_LEFT, autoescape=True))
    return tx.execute(found.limit(1)).first() is not None


def take_tallies(tx: Tx) -> None:
    """Takes the decisions out of the store. They are reported after the commit, so that only one replica counts
    them."""
    end_frozen(tx)  # what it keeps locked is taken when a replica is scraped again
    found = select(switches.c.name, switches.c.value).where(switches.c.name.startswith(_LEFT, autoescape=True))
    rows = tx.execute(for_update(found.order_by(switches.c.name).limit(_AT_ONCE), skip_locked=True)).all()
    tx.execute(delete(switches).where(switches.c.name.in_([row.name for row in rows])))
    for row in rows:
        for one in json.loads(row.value):
            tx.report(Tally(**one))
