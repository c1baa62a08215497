"""Grants ("Also allow the next ones like this"): which calls a grant covers, and whether it lets one through. Pure.

A grant is a vote given in advance. Until it ends, it covers calls of one tool in one session under one policy whose
named arguments are the same. It lets a call through only if each of its givers could approve that call by an ordinary
vote now. So nobody lets their own call through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

from pydantic import TypeAdapter, ValidationError

from bot.audit.fingerprint import Fingerprints
from bot.confirmation.authorise import Act, Claim, Facts, Reason, Refusal, authorise
from bot.confirmation.exact_json import ExactObject
from bot.confirmation.model import AskedCall, Confirmation, SessionKey, VoteKind
from bot.confirmation.stored_json import UnreadableRecord
from bot.policy.approvers import Person
from bot.policy.model import Policy
from runtime.errors import Conflict
from runtime.jsontypes import JsonObject, canonical

LONGEST_SESSION = timedelta(hours=24)
"""A thread has no end, but a grant must have one: `grant = "session"` lasts this long at most."""

LOOKED_AT_EVERY = timedelta(minutes=1)
"""How often to check whether a grant still lets anything through, since its card says that it does."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    id: str  # of the confirmation with which it was given
    session: SessionKey
    team: str
    tool: str
    policy: str  # the fingerprint
    on: ExactObject  # the arguments that must be equal
    given_by: tuple[Person, ...]
    given_at: datetime
    until: datetime
    revoked_at: datetime | None = None
    revoked_by: Person | None = None
    uses: int | None = None  # for how many calls; None: any number
    used: int = 0  # how many calls it let through: counted in the ledger, not stored here
    sealed: str = ""  # a keyed digest over all that was granted

    def to_json(self) -> JsonObject:
        part: JsonObject = _adapter().dump_python(self, mode="json", exclude={"used"})
        return part

    @staticmethod
    def from_json(stored: object) -> Grant:
        """Raises `UnreadableRecord` for what is not a grant."""
        try:
            return _adapter().validate_python(stored)
        except ValidationError as error:
            raise UnreadableRecord("A stored grant is not what adk-confirm writes.") from error

    def under(self, fingerprints: Fingerprints) -> Grant:
        return replace(self, sealed=fingerprints.within("grant").of(self._terms))

    def is_sealed(self, fingerprints: Fingerprints) -> bool:
        """Whether the grant is exactly as it was given, and was not made or changed in the database."""
        return fingerprints.within("grant").matches(self._terms, self.sealed)

    @property
    def _terms(self) -> JsonObject:
        left_out = {"revoked_at", "revoked_by", "used", "sealed"} | ({"uses"} if self.uses is None else set())
        terms: JsonObject = _adapter().dump_python(self, mode="json", exclude=left_out)
        return terms

    @property
    def used_up(self) -> bool:
        return self.uses is not None and self.used >= self.uses


@cache
def _adapter() -> TypeAdapter[Grant]:
    """Made at its first use, since most starts do not need it."""
    return TypeAdapter(Grant)


def make_grant(row: Confirmation, now: datetime, fingerprints: Fingerprints) -> Grant | None:
    """The grant that comes with an approval, if the policy offers one and every approver gave it."""
    offered = row.policy.grant
    if offered is None or row.asked.wants_payload or not row.approvals:
        return None
    if not all(vote.grant for vote in row.approvals):
        return None
    grant = Grant(
        id=row.id,
        session=row.asked.session,
        team=row.asked.team,
        tool=row.asked.tool,
        policy=row.policy.fingerprint,
        on=fixed_arguments(row.revision.arguments, row.policy),
        given_by=row.voters(VoteKind.APPROVE),
        given_at=now,
        until=now + (LONGEST_SESSION if offered.length == "session" else offered.length),
        uses=offered.uses,
    )
    return grant.under(fingerprints)


def is_for(grant: Grant, asked: AskedCall, policy: Policy, now: datetime) -> bool:
    """Whether the grant covers a call. `policy` is the policy that governs the call now."""
    if grant.revoked_at is not None or not grant.given_at <= now < grant.until or asked.wants_payload or grant.used_up:
        return False
    if grant.session != asked.session or grant.tool != asked.tool or grant.policy != policy.fingerprint:
        return False
    return canonical(fixed_arguments(asked.arguments, policy)) == canonical(grant.on)


@dataclass(frozen=True)
class GrantRefusal:
    """Why a grant does not let a call through. `giver` is the person who could not approve it; without one, the policy
    prevents it."""

    refusal: Refusal
    giver: Person | None = None

    @property
    def for_now(self) -> bool:
        """Whether Slack, or a function, gave no answer, so that the grant may work again later."""
        return self.refusal.reason is Reason.CANNOT_ASK


def why_withheld(
    grant: Grant, asked: AskedCall, policy: Policy, rights: Mapping[Person, Facts], fingerprints: Fingerprints
) -> GrantRefusal | None:
    """Why the grant does not let a call through that it covers; None if it does. `rights`: what was looked up about
    each giver for this call. Without that, a giver does not approve."""
    if not grant.is_sealed(fingerprints):
        return GrantRefusal(Refusal(reason=Reason.UNSEALED))
    if len({giver.user for giver in grant.given_by}) < policy.quorum:
        return GrantRefusal(Refusal(reason=Reason.POLICY_CHANGED))
    for giver in grant.given_by:
        claim = Claim(act=Act.APPROVE, voter=giver, team=asked.team, asked_by=asked.asked_by, speakers=asked.speakers)
        facts = rights.get(giver)
        verdict = Refusal(reason=Reason.CANNOT_ASK) if facts is None else authorise(policy, claim, facts)
        if isinstance(verdict, Refusal):
            return GrantRefusal(verdict, giver)
    return None


def revoke_grant(grant: Grant, by: Person, now: datetime) -> Grant:
    if grant.revoked_at is not None:
        raise Conflict("This grant was revoked already; it lets nothing through.")
    return replace(grant, revoked_at=now, revoked_by=by)


def fixed_arguments(arguments: JsonObject, policy: Policy) -> JsonObject:
    """The arguments that must be the same."""
    names = policy.grant_on
    return {name: value for name, value in arguments.items() if names is None or name in names}
