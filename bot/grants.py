"""Grants: "and the next ones like this". A bounded permission, as data, and whether a call falls under it. Pure.

A grant holds for one tool in one session under one policy, for calls whose named arguments are the same; it always has
an end; everybody whose approval made it must have given it; a changed policy or a bar ends it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import TypeAdapter

from bot.exact import ExactObject
from bot.people import Person
from bot.policy import Policy
from bot.row import Confirmation, SessionKey
from bot.versioned import Reader, tagged, untagged
from runtime.errors import Conflict
from runtime.jsontypes import JsonObject, canonical

LONGEST_SESSION = timedelta(hours=24)
"""A thread has no end, a grant must have one: `grant = "session"` is good for this long at most."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    id: str  # that of the confirmation it was given with
    session: SessionKey
    team: str
    tool: str
    policy: str  # fingerprint
    on: ExactObject  # the arguments that must be the same
    given_by: tuple[Person, ...]
    given_at: datetime
    until: datetime
    revoked_at: datetime | None = None
    revoked_by: Person | None = None

    VERSION: ClassVar[int] = 1
    READERS: ClassVar[dict[int, Reader]] = {}

    def to_json(self) -> JsonObject:
        return tagged(self.VERSION, _ADAPTER.dump_python(self, mode="json"))

    @staticmethod
    def from_json(stored: object) -> Grant:
        return _ADAPTER.validate_python(untagged(stored, "grant", Grant.VERSION, Grant.READERS))


_ADAPTER: TypeAdapter[Grant] = TypeAdapter(Grant)


def granted(row: Confirmation, now: datetime) -> Grant | None:
    """The grant that comes with an approval: only if the policy offers one and every approver gave it."""
    offered = row.policy.grant
    if offered is None or row.asked.wants_payload or not row.approvals:
        return None
    if not all(vote.grant for vote in row.approvals):
        return None
    names, arguments = row.policy.grant_on, row.revision.arguments
    return Grant(
        id=row.id,
        session=row.asked.session,
        team=row.asked.team,
        tool=row.asked.tool,
        policy=row.policy.fingerprint,
        on={name: value for name, value in arguments.items() if names is None or name in names},
        given_by=tuple(vote.voter for vote in row.approvals),
        given_at=now,
        until=now + (LONGEST_SESSION if offered == "session" else offered),
    )


def lets_through(
    grant: Grant,
    session: SessionKey,
    tool: str,
    arguments: JsonObject,
    policy: Policy,
    now: datetime,
    barred: Collection[Person] = (),
) -> bool:
    """Whether a call needs no card because of this grant. `policy` is the one that governs the call now."""
    if grant.revoked_at is not None or not grant.given_at <= now < grant.until:
        return False
    if grant.session != session or grant.tool != tool or grant.policy != policy.fingerprint:
        return False
    if any(person in barred for person in grant.given_by):
        return False
    named = policy.grant_on
    like_this = {name: value for name, value in arguments.items() if named is None or name in named}
    return canonical(like_this) == canonical(grant.on)


def revoked(grant: Grant, by: Person, now: datetime) -> Grant:
    if grant.revoked_at is not None:
        raise Conflict("This grant was revoked already; it lets nothing through.")
    return replace(grant, revoked_at=now, revoked_by=by)
