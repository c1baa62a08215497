"""Grants as they are found out: those that are stored, and whether one would let a call through just now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from sqlalchemy import select

from bot.authorise import Facts, Reason, Refusal
from bot.confirmation import open_confirmation
from bot.grants import Grant, Withheld, is_for, withheld
from bot.people import Person
from bot.policy import Governs, Policy
from bot.row import Asked, Confirmation, Vote, VoteKind
from bot.tables import grants
from bot.versioned import NewerVersion, Unreadable
from bot.voting import Rules
from runtime.database import Tx

FactsOf = Callable[[Confirmation, Vote], Awaitable[Facts]]
"""What has to be known of a voter before `authorise` can say yes; the directory's `facts`."""

Rights = dict[Person, Facts]


def grants_in(tx: Tx, key: str) -> list[Grant]:
    """The grants of a session that have not ended. One that can't be read here lets nothing through here."""
    open_ = select(grants.c.body).where(
        grants.c.session == key, grants.c.revoked_at.is_(None), grants.c.until > tx.now()
    )
    return _readable(tx.execute(open_).scalars())


def grants_by(tx: Tx, person: Person) -> list[Grant]:
    """The grants that somebody gave and that have not ended, the first to end first."""
    open_ = select(grants.c.body).where(grants.c.revoked_at.is_(None), grants.c.until > tx.now())
    given = _readable(tx.execute(open_.order_by(grants.c.until)).scalars())
    return [grant for grant in given if person in grant.given_by]


def read_grant(tx: Tx, grant_id: str) -> Grant | None:
    found = select(grants.c.body).where(grants.c.id == grant_id, grants.c.revoked_at.is_(None))
    return next(iter(_readable(tx.execute(found).scalars())), None)


def _readable(bodies: Iterable[str]) -> list[Grant]:
    found = []
    for body in bodies:
        try:
            found.append(Grant.from_json(json.loads(body)))
        except (NewerVersion, Unreadable, ValueError):
            continue  # calls ask, as without it; a replica that can read it knows more
    return found


async def rights_of(
    givers: Iterable[Person], asked: Asked, policy: Policy, rules: Rules, now: datetime, ask: FactsOf
) -> Rights:
    """What is known now of each giver for this call, as if it had been put to people and they had approved it."""
    row = open_confirmation("grant", asked, policy, rules.seal, now).row
    everybody = tuple(dict.fromkeys(givers))
    votes = [probe(row, giver, now) for giver in everybody]
    found = await asyncio.gather(*(ask(row, vote) for vote in votes))
    return dict(zip(everybody, found, strict=True))


async def would_withhold(
    grant: Grant, row: Confirmation, speakers: frozenset[Person], rules: Rules, now: datetime, ask: FactsOf
) -> Withheld | None:
    """What would keep the call that a grant came with from being let through, if the same person asked for it again."""
    asked = row.asked.again(row.revision.arguments, speakers)
    found = rules.policies.resolve(asked.facts())
    if not grant.is_sealed(rules.seal):
        return Withheld(Refusal(reason=Reason.UNSEALED))
    if not isinstance(found, Governs) or not is_for(grant, asked, found.policy, now):
        return Withheld(Refusal(reason=Reason.POLICY_CHANGED))
    rights = await rights_of(grant.given_by, asked, found.policy, rules, now, ask)
    return withheld(grant, asked, found.policy, rights)


def probe(row: Confirmation, person: Person, now: datetime, kind: VoteKind = VoteKind.APPROVE) -> Vote:
    """A vote that nobody gave, to ask whether it would count. It is never stored."""
    return Vote(id="probe", kind=kind, voter=person, revision=row.revision.number, stored_at=now)
