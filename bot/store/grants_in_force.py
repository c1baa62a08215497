"""Finds grants: all that are stored, and those that cover a given call now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, exists, select, update

from bot.audit.fingerprint import Fingerprints
from bot.audit.ledger import LineKind
from bot.config.rules import Rules
from bot.confirmation.authorise import Facts, Reason, Refusal
from bot.confirmation.decision import open_confirmation
from bot.confirmation.effects import Step, UnsealedPart
from bot.confirmation.grants import Grant, GrantRefusal, is_for, why_withheld
from bot.confirmation.model import AskedCall, Confirmation, Vote, VoteKind
from bot.confirmation.states import Transition
from bot.confirmation.stored_json import UnreadableRecord
from bot.policy.approvers import Person
from bot.policy.model import GoverningPolicy, Policy
from bot.store.ledger_lines import write_step
from bot.store.repository import chain_of, lock_confirmation, now, read_confirmation, save
from bot.store.tables import grants, ledger
from runtime.errors import NotFound
from runtime.store.database import Tx
from runtime.store.prepared import Prepared

FactsOf = Callable[[Confirmation, Vote], Awaitable[Facts]]
"""Looks up the facts about a voter that `authorise` needs."""

Rights = dict[Person, Facts]


def grants_in(tx: Tx, key: str) -> list[Grant]:
    """The grants of a session that have not ended, without those that this version can't read."""
    return _readable(tx, _OF_SESSION.all(tx, key_=key, now_=tx.now()))


def grants_by(tx: Tx, person: Person) -> list[Grant]:
    """The grants of one person that have not ended. Those that end first come first."""
    given = _readable(tx, tx.execute(_OPEN.order_by(grants.c.until), {"now_": tx.now()}))
    return [grant for grant in given if person in grant.given_by]


def all_grants(tx: Tx) -> list[Grant]:
    """The grants of all sessions that have not ended. Those that end first come first."""
    return _readable(tx, tx.execute(_OPEN.order_by(grants.c.until, grants.c.id), {"now_": tx.now()}))


_REVOKED = exists().where(ledger.c.confirmation == grants.c.id, ledger.c.kind == str(LineKind.GRANT_REVOKED))
"""Asks the ledger whether a grant was revoked, whatever the grant's own row says."""
_OPEN = select(grants.c.id, grants.c.body).where(
    grants.c.revoked_at.is_(None), grants.c.until > bindparam("now_"), ~_REVOKED
)
_OF_SESSION = Prepared(_OPEN.where(grants.c.session == bindparam("key_")))


def read_grant(tx: Tx, grant_id: str) -> Grant | None:
    found = select(grants.c.id, grants.c.body).where(grants.c.id == grant_id, grants.c.revoked_at.is_(None))
    return next(iter(_readable(tx, tx.execute(found))), None)


def _readable(tx: Tx, stored: Iterable[Any]) -> list[Grant]:
    """The grants that can be read. The fingerprint covers the row's name, so a copy under another name does not
    match."""
    found = []
    for row in stored:
        try:
            grant = replace(Grant.from_json(json.loads(row.body)), id=row.id)
            found.append(grant if grant.uses is None else replace(grant, used=_uses(tx, grant)))
        except (UnreadableRecord, ValueError):
            continue  # not used here: people are asked instead, unless a replica that can read the grant takes the call
    return found


def _uses(tx: Tx, grant: Grant) -> int:
    """How many calls the grant let through, by the ledger. Purged lines count too."""
    lines = select(ledger.c.content).where(
        ledger.c.chain == chain_of(grant.session),
        ledger.c.kind == str(LineKind.GRANT_USED),
        ledger.c.at >= grant.given_at.timestamp(),
    )
    return sum(text is None or json.loads(text).get("grant") == grant.id for text in tx.execute(lines).scalars())


def grant_for(
    tx: Tx, key: str, asked: AskedCall, policy: Policy, rights: Mapping[Person, Facts], fingerprints: Fingerprints
) -> Grant | None:
    """The grant that lets a call through, if there is one."""
    at = now(tx)
    for grant in grants_in(tx, key):
        if not grant.is_sealed(fingerprints):
            _end_forged(tx, key, grant, asked.tool)
        elif is_for(grant, asked, policy, at):
            if not _is_in_force(tx, key, grant.id):
                _end_forged(tx, key, grant, asked.tool)
                continue
            why = why_withheld(grant, asked, policy, rights, fingerprints)
            if why is None:
                if grant.uses is not None and grant.used + 1 >= grant.uses:
                    _recheck_card(tx, key, grant.id, at)  # this was its last use: its card is drawn again
                return grant
            if not why.for_now:
                _recheck_card(tx, key, grant.id, at)
    return None


def _is_in_force(tx: Tx, key: str, grant_id: str) -> bool:
    """Whether the confirmation with which the grant was given confirms it. A grant's row or a ledger line alone,
    restored or removed by somebody, lets nothing through."""
    try:
        session, row = lock_confirmation(tx, grant_id)
    except (NotFound, UnreadableRecord):
        return False
    return session.key == key and row.doubt is None and row.grant_until is not None


def _end_forged(tx: Tx, key: str, grant: Grant, tool: str) -> None:
    """Reports once a grant that nobody gave through this app. It lets nothing through."""
    tx.execute(update(grants).where(grants.c.id == grant.id).values(revoked_at=tx.now()))
    write_step(tx, key, Step(kind=LineKind.UNSEALED, at=now(tx), text=UnsealedPart.GRANT, grant=grant.id), None, tool)
    _recheck_card(tx, key, grant.id, now(tx))


def _recheck_card(tx: Tx, key: str, grant_id: str, at: datetime) -> None:
    """Checks whether the card of a grant is still right, since the grant did not let a call through."""
    try:
        stored = read_confirmation(tx, grant_id)
        if stored is None or chain_of(stored.asked.session) != key:
            return
        session, row = lock_confirmation(tx, grant_id)
    except (NotFound, UnreadableRecord):
        return
    save(tx, session, Transition(row=replace(row, grant_look_at=at)))


async def rights_of(
    givers: Iterable[Person], asked: AskedCall, policy: Policy, rules: Rules, at: datetime, ask: FactsOf
) -> Rights:
    """The current facts about each giver for this call, as if they had approved it by a vote."""
    row = open_confirmation("grant", asked, policy, rules.fingerprints, at).row
    everybody = tuple(dict.fromkeys(givers))
    votes = [probe(row, giver, at) for giver in everybody]
    found = await asyncio.gather(*(ask(row, vote) for vote in votes))
    return dict(zip(everybody, found, strict=True))


async def would_withhold(
    grant: Grant, row: Confirmation, speakers: frozenset[Person], rules: Rules, at: datetime, ask: FactsOf
) -> GrantRefusal | None:
    """Why the grant would not let its own call through if the same person asked for it again. None if it would."""
    asked = row.asked.again(row.revision.arguments, speakers)
    found = await asyncio.to_thread(rules.policies.resolve, asked.facts())
    if not grant.is_sealed(rules.fingerprints):
        return GrantRefusal(Refusal(reason=Reason.UNSEALED))
    if grant.used_up:
        return GrantRefusal(Refusal(reason=Reason.USED_UP))
    if not isinstance(found, GoverningPolicy) or not is_for(grant, asked, found.policy, at):
        return GrantRefusal(Refusal(reason=Reason.POLICY_CHANGED))
    rights = await rights_of(grant.given_by, asked, found.policy, rules, at, ask)
    return why_withheld(grant, asked, found.policy, rights, rules.fingerprints)


def probe(row: Confirmation, person: Person, at: datetime, kind: VoteKind = VoteKind.APPROVE) -> Vote:
    """A vote that nobody gave and that is never stored. It is used to find out whether such a vote would count."""
    return Vote(id="probe", kind=kind, voter=person, revision=row.revision.number, stored_at=at, sealed="")
