"""An index of what waits, for whom and where, so that one person's list is fast even among 100,000 confirmations.

Members of groups, addresses and functions change without any row changing, so the index has policy entries, not people.
A reader passes the entries that stand for them now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import bindparam, delete, func, insert, select, tuple_, union

from bot.audit.ledger import LineKind
from bot.confirmation.effects import Step
from bot.confirmation.model import Confirmation, State
from bot.policy.approvers import ApproverKind, Person
from bot.policy.model import may_decide
from bot.store.rows import STORED, load
from bot.store.tables import confirmations, waiting
from runtime.store.database import Tx
from runtime.store.prepared import Prepared

ListPosition = tuple[float, str]
"""Where the next page of a list begins: when the confirmation was asked, and its id."""

MOST_ENTRIES = 200
"""The most groups, addresses and functions in use at once that are looked through."""

MANY = 1000

_KEPT = frozenset(
    {
        LineKind.APPROVAL,
        LineKind.EDITED,
        LineKind.VOTE_REFUSED,
        LineKind.VOTE_FELL,
        LineKind.REMINDED,
        LineKind.RUN_AGAIN_VOTE,
        LineKind.GRANTED,
        LineKind.BEGUN,
    }
)
"""Steps after which a confirmation waits for the same people as before."""

_GONE = Prepared(delete(waiting).where(waiting.c.confirmation == bindparam("id_")))
_ENTER = Prepared(insert(waiting))


# Written together with the row


def update_waiting_index(tx: Tx, row: Confirmation, steps: Collection[Step]) -> None:
    """Updates the index when a row is saved, since the steps may change for whom it waits."""
    if all(step.kind in _KEPT for step in steps):
        return
    _GONE(tx, id_=row.id)
    entries = [
        {"team": row.asked.team, "whom": entry, "created": row.asked_at.timestamp(), "confirmation": row.id}
        for entry in sorted(index_entries(row))
    ]
    if entries:
        _ENTER.many(tx, entries)


def index_entries(row: Confirmation) -> set[str]:
    """For whom a confirmation waits, who asked, and in which channels it can be seen."""
    if row.state is not State.WAITING and not row.unknown:
        return set()
    named = {str(entry) for entry in may_decide(row.policy, row.escalated)}
    cards = {place.channel for place in row.places if place.channel and place.person is None and not place.pointer}
    return named | {f"channel:{channel}" for channel in cards} | {asker(row.asked.asked_by)}


def asker(person: Person) -> str:
    return f"asker:{person.user}"


# Read by lists


def entries_in_use(tx: Tx, team: str) -> list[str]:
    """The policy entries for which something waits now, except those that name one person."""
    kinds = (ApproverKind.GROUP, ApproverKind.EMAIL, ApproverKind.PYTHON)
    return [entry for kind in kinds for entry in _distinct_entries(tx, team, f"{kind}:", f"{kind};")]


def _distinct_entries(tx: Tx, team: str, first: str, end: str) -> Iterator[str]:
    """Steps from one entry to the next in the index, so that ten thousand rows with one entry cost one step."""
    after = first
    for _ in range(MOST_ENTRIES):
        found = select(func.min(waiting.c.whom)).where(waiting.c.team == team, waiting.c.whom > after)
        entry: str | None = tx.execute(found).scalar_one_or_none()
        if entry is None or entry >= end:
            return
        yield entry
        after = entry


def page(tx: Tx, team: str, names: Collection[str], after: ListPosition | None, size: int) -> list[ListPosition]:
    """The oldest `size` confirmations after a position, each once, even if several of their entries match."""
    found: set[ListPosition] = set()
    place = (waiting.c.created, waiting.c.confirmation)
    for name in names:
        here = select(*place).where(waiting.c.team == team, waiting.c.whom == name).order_by(*place).limit(size)
        if after is not None:
            here = here.where(tuple_(*place) > after)
        found.update((row.created, row.confirmation) for row in tx.execute(here))
    return sorted(found)[:size]


def count_after(tx: Tx, team: str, names: Collection[str], after: ListPosition) -> int:
    """How many follow a position, at most `MANY`: counting takes time, and nobody needs a larger number."""
    if not names:
        return 0
    place = tuple_(waiting.c.created, waiting.c.confirmation)
    after_it = [
        select(waiting.c.confirmation)
        .where(waiting.c.team == team, waiting.c.whom == name, place > after)
        .order_by(waiting.c.created, waiting.c.confirmation)
        .limit(MANY)
        .subquery()
        for name in sorted(names)
    ]
    each_once = union(*(select(found.c.confirmation) for found in after_it)).subquery()
    return min(int(tx.execute(select(func.count()).select_from(each_once)).scalar_one()), MANY)


def read_rows(tx: Tx, ids: Sequence[str]) -> list[Confirmation]:
    """The confirmations in the order of the ids, without those that somebody changed in the database."""
    rows = {found.id: load(tx, found) for found in tx.execute(STORED.where(confirmations.c.id.in_(ids)))}
    return [row for id_ in ids if (row := rows.get(id_)) is not None]


def asked_lately(tx: Tx, person: Person, since: float, most: int) -> list[Confirmation]:
    """What a person asked for and what is decided, newest first."""
    found = STORED.where(
        confirmations.c.team == person.team,
        confirmations.c.asked_by == person.user,
        confirmations.c.created > since,
        confirmations.c.state != str(State.WAITING),
    ).order_by(confirmations.c.created.desc())
    return [row for one in tx.execute(found.limit(most)) if (row := load(tx, one)) is not None]
