"""An index of the confirmations that wait, for whom and where: one person's list is fast even among 100,000. The index
also has who decided what.

The index holds the approvers as the policy names them, such as a group, and not the people. Who is in a group can
change while no row changes. So a reader passes the entries that name the person now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from adk_confirm.bot.confirmation.confirmation import Confirmation, State, VoteKind, VoteState
from adk_confirm.bot.policy.approvers import ApproverKind, Person
from adk_confirm.bot.policy.policies import may_decide
from adk_confirm.bot.store.sealed_rows import STORED, load
from adk_confirm.runtime.store.database import Tx

ListPosition = tuple[float, str]
"""Where the next page of a list begins: until when people can decide, and the confirmation's id."""

MOST_ENTRIES = 200
"""The most entries of one kind (groups, addresses, functions) that are looked through."""

MANY = 1000


# Written together with the row


def update_waiting_index(tx: Tx, before: Confirmation | None, row: Confirmation, *, new: bool) -> None:
    """Updates the index when a row is saved. `before`: the row until now, if that is known."""
    has = _entries(row)
    if before is not None and _entries(before) == has:
        return
    if not new:
        tx.run("DELETE FROM bot_waiting WHERE confirmation = :id", id=row.id)
    tx.many(
        "INSERT INTO bot_waiting (team, whom, at, confirmation) VALUES (:team, :whom, :at, :confirmation)",
        [
            {"team": row.asked.team, "whom": entry, "at": at.timestamp(), "confirmation": row.id}
            for entry, at in has.items()
        ],
    )


def _entries(row: Confirmation) -> dict[str, datetime]:
    """For whom it is listed, and at what time."""
    names = dict.fromkeys(sorted(index_entries(row)), due(row))
    if row.decision is not None:
        others = (VoteKind.WITHDRAW, VoteKind.REVOKE)
        votes = (vote for vote in row.votes if vote.state is VoteState.STANDING and vote.kind not in others)
        names |= {decider(vote.voter): row.decision.at for vote in votes}
    return names


def due(row: Confirmation) -> datetime:
    """Until when people can decide, or say how it ended."""
    return (row.unknown_until or row.deadline) if row.unknown else row.deadline


def index_entries(row: Confirmation) -> set[str]:
    """For whom a confirmation waits, who asked, and in which channels it can be seen."""
    if row.state is not State.WAITING and not row.unknown:
        return set()
    named = {str(entry) for entry in may_decide(row.policy, row.escalated)}
    cards = {place.channel for place in row.places if place.channel and place.person is None and not place.pointer}
    return named | {f"channel:{channel}" for channel in cards} | {asker(row.asked.asked_by)}


def asker(person: Person) -> str:
    return f"asker:{person.user}"


def decider(person: Person) -> str:
    return f"decider:{person.user}"


# Read by lists


def entries_in_use(tx: Tx, team: str) -> list[str]:
    """The policy entries for which something waits now, except those that name one person."""
    kinds = (ApproverKind.GROUP, ApproverKind.EMAIL, ApproverKind.PYTHON)
    return [entry for kind in kinds for entry in _distinct_entries(tx, team, f"{kind}:", f"{kind};")]


def _distinct_entries(tx: Tx, team: str, first: str, end: str) -> Iterator[str]:
    """Steps from one entry to the next in the index, so that ten thousand rows with one entry cost one step."""
    after = first
    for _ in range(MOST_ENTRIES):
        found = "SELECT min(whom) FROM bot_waiting WHERE team = :team AND whom > :after"
        entry: str | None = tx.value(found, team=team, after=after)
        if entry is None or entry >= end:
            return
        yield entry
        after = entry


def page(tx: Tx, team: str, names: Collection[str], after: ListPosition | None, size: int) -> list[ListPosition]:
    """The most urgent `size` confirmations after a position, each once, even if several of their entries match."""
    at, id_ = after or (0.0, "")
    found: set[ListPosition] = set()
    for name in names:
        found.update(map(tuple, tx.all(_PAGE, team=team, whom=name, at=at, id=id_, size=size)))
    return sorted(found)[:size]


_PAGE = """
    SELECT at, confirmation FROM bot_waiting
    WHERE team = :team AND whom = :whom AND (at, confirmation) > (:at, :id)
    ORDER BY at, confirmation LIMIT :size
"""


def count_after(tx: Tx, team: str, names: Collection[str], after: ListPosition) -> int:
    """How many follow a position, at most `MANY`: counting takes time, and nobody needs a larger number."""
    return len(page(tx, team, names, after, MANY))


def read_rows(tx: Tx, ids: Sequence[str]) -> list[Confirmation]:
    """The confirmations in the order of the ids, without those that somebody changed in the database."""
    rows = {found.id: load(tx, found) for found in tx.all(f"{STORED} WHERE c.id IN :ids", ids=list(ids))}
    return [row for id_ in ids if (row := rows.get(id_)) is not None]


def decided_lately(tx: Tx, person: Person, since: float, most: int) -> list[Confirmation]:
    """The confirmations that a person helped to decide, newest first."""
    found = """
        SELECT confirmation FROM bot_waiting WHERE team = :team AND whom = :whom AND at > :since
        ORDER BY at DESC LIMIT :most
    """
    return read_rows(tx, tx.column(found, team=person.team, whom=decider(person), since=since, most=most))


def asked_lately(tx: Tx, person: Person, since: float, most: int) -> list[Confirmation]:
    """The decided confirmations that a person asked for, newest first."""
    found = f"""
        {STORED}
        WHERE c.team = :team AND c.asked_by = :user AND c.created > :since AND c.state <> 'waiting'
        ORDER BY c.created DESC LIMIT :most
    """
    rows = tx.all(found, team=person.team, user=person.user, since=since, most=most)
    return [row for one in rows if (row := load(tx, one)) is not None]
