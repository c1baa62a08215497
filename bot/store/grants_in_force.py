"""Finds grants: all that are stored, and those that cover a given call now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import Reason, Refusal
from adk_confirm.bot.confirmation.confirmation import AskedCall, Grant, VoteKind
from adk_confirm.bot.confirmation.decision import revoke
from adk_confirm.bot.confirmation.grants import Rights, is_for, lets_through
from adk_confirm.bot.policy.approvers import SLACK, Person
from adk_confirm.bot.policy.policies import Policy
from adk_confirm.bot.store.ledger_rows import content_of, unbroken_lines
from adk_confirm.bot.store.repository import chain_of, lock_confirmation, now, save
from adk_confirm.bot.store.sealed_rows import STORED, load
from adk_confirm.runtime.store.database import Tx


def grants_in(tx: Tx, key: str) -> list[Grant]:
    """The grants of a session that have not ended."""
    return _granted(tx, tx.all(f"{_IN_FORCE} AND c.session = :key", key=key, now=tx.now()))


def grants_by(tx: Tx, person: Person) -> list[Grant]:
    """The grants of one person that have not ended. Those that end first come first."""
    return [grant for grant in all_grants(tx) if person in grant.given_by]


def all_grants(tx: Tx) -> list[Grant]:
    """The grants of all sessions that have not ended. Those that end first come first."""
    return _granted(tx, tx.all(f"{_IN_FORCE} ORDER BY c.granted_until, c.id", now=tx.now()))


_IN_FORCE = f"{STORED} WHERE c.granted_until > :now"


def _granted(tx: Tx, stored: Iterable[Any]) -> list[Grant]:
    """The grants in these confirmations. The column only says where to look."""
    rows = (load(tx, found) for found in stored)
    return [_with_uses(tx, row.grant) for row in rows if row is not None and row.grant is not None]


def _with_uses(tx: Tx, grant: Grant) -> Grant:
    """The grant, with how many calls it let through. If the ledger can't say, it counts as used up."""
    if grant.uses is None:
        return grant
    used = uses_of(tx, grant)
    return replace(grant, used=grant.uses if used is None else used)


def uses_of(tx: Tx, grant: Grant) -> int | None:
    """How many calls the grant let through, by the ledger. Purged lines count too. None if the ledger can't say: a line
    since the grant is missing or was changed."""
    given = "SELECT min(seq) FROM bot_ledger WHERE confirmation = :id AND kind = :kind"
    first = tx.value(given, id=grant.id, kind=str(LineKind.GRANTED))
    lines = None if first is None else unbroken_lines(tx, chain_of(grant.session), first)
    if lines is None:
        return None
    contents = [content_of(line) for line in lines if line.kind is LineKind.GRANT_USED]
    return sum(content is None or content.get("grant") == grant.id for content in contents)


def grant_for(tx: Tx, key: str, asked: AskedCall, policy: Policy, rights: Rights) -> Grant | None:
    """The grant that lets this call through, if there is one. With its last use it ends. A grant that somebody is
    revoking lets no call through, even before it is known whether they may revoke it."""
    at = now(tx)
    for grant in grants_in(tx, key):
        session, row = lock_confirmation(tx, grant.id)
        revoking = any(vote.kind is VoteKind.REVOKE for vote in row.pending_votes)
        if revoking or not is_for(grant, asked, policy, at) or not lets_through(grant, asked, policy, rights):
            continue
        if grant.uses is not None and grant.used + 1 >= grant.uses:
            ended = revoke(row, at, SLACK)
            steps = tuple(replace(step, who=None, refusal=Refusal(reason=Reason.USED_UP)) for step in ended.steps)
            save(tx, session, replace(ended, steps=steps))
        return grant
    return None
