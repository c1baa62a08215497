"""Grants ("Also allow the next ones like this"): which calls a grant covers, and whether it lets one through. Pure.

A grant is a vote given in advance. Until it ends, it covers calls like the one that it was given with: of the same
agent's tool in one session under one policy, with the same title and the same named arguments. A call that lacks a
named argument neither gets a grant nor is covered by one. A grant lets a call through only if each of its givers could
approve that call by an ordinary vote now. So nobody lets their own call through.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from operator import attrgetter

from adk_confirm.blocks.json_schema import property_names
from adk_confirm.bot.confirmation.authorise import Claim, Facts, Permission, authorise
from adk_confirm.bot.confirmation.confirmation import AskedCall, Confirmation, Grant, VoteKind
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.durations import GrantTerms
from adk_confirm.bot.policy.policies import Policy
from adk_confirm.runtime.jsontypes import JsonObject, canonical

Rights = Callable[[Person], Facts | None]

_LIKE = attrgetter("session", "agent", "tool", "ask", "title")
"""The fields, besides the arguments, in which a call must equal the one that the grant was given with."""

LONGEST_SESSION = timedelta(hours=24)
"""A thread has no end, but a grant must have one: `grant = "session"` lasts this long at most."""


def make_grant(row: Confirmation, now: datetime) -> Grant | None:
    """The grant that comes with an approval, if the policy offers one and every approver gave it."""
    offered, on = row.policy.grant, bound_arguments(row)
    if offered is None or on is None or not row.approvals:
        return None
    return Grant(
        id=row.id,
        session=row.asked.session,
        team=row.asked.team,
        agent=row.asked.agent,
        tool=row.asked.tool,
        ask=row.asked.ask,
        title=row.asked.title,
        policy=row.policy.fingerprint,
        on=on,
        free=free_names(row),
        hint=row.asked.hint,
        given_by=row.voters(VoteKind.APPROVE),
        given_at=now,
        until=now + lasts(offered),
        uses=offered.uses,
    )


def lasts(offered: GrantTerms) -> timedelta:
    return LONGEST_SESSION if offered.length == "session" else offered.length


def is_for(grant: Grant, asked: AskedCall, policy: Policy, now: datetime) -> bool:
    """Whether the grant covers a call. `policy` is the policy that governs the call now."""
    if not grant.given_at <= now < grant.until or asked.wants_payload or grant.used_up:
        return False
    if asked.preview is not None or asked.attempts:
        return False  # nobody has seen what this call would do, or knows what it did
    if _LIKE(grant) != _LIKE(asked) or grant.policy != policy.fingerprint:
        return False
    if policy.grant_on is None and grant.hint != asked.hint:
        return False  # the tool says that it would do something else with the same arguments
    on = fixed_arguments(asked.arguments, policy)
    return on is not None and canonical(on) == canonical(grant.on) and {*asked.arguments} <= {*on, *grant.free}


def lets_through(grant: Grant, asked: AskedCall, policy: Policy, rights: Rights) -> bool:
    """Whether the grant lets a call through that it covers. `rights`: what is known now about each giver for this call.
    Without that, a giver does not approve."""
    team, asker, spoke = asked.team, asked.asked_by, asked.speakers
    for giver in grant.given_by:
        claim = Claim(act=VoteKind.APPROVE, voter=giver, team=team, asked_by=asker, speakers=spoke)
        if (known := rights(giver)) is None or not isinstance(authorise(policy, claim, known), Permission):
            return False
    return len({giver.user for giver in grant.given_by}) >= policy.quorum


def bound_arguments(row: Confirmation) -> JsonObject | None:
    """The arguments that a grant would bind, if one can be given: the policy offers it, and nobody approved without it.
    A caller's requests each have a session of their own. Who may decide since the escalation may not decide the next
    call, so a grant of theirs would let nothing through."""
    asked = row.asked
    unfit = asked.wants_payload or asked.by_caller or asked.preview is not None or row.escalated
    if row.policy.grant is None or unfit or not all(vote.grant for vote in row.approvals):
        return None
    return fixed_arguments(row.revision.arguments, row.policy)


def fixed_arguments(arguments: JsonObject, policy: Policy) -> JsonObject | None:
    """The arguments that must be the same. None if the call lacks one that the policy names: then nothing is bound."""
    names = arguments if policy.grant_on is None else policy.grant_on
    return {name: arguments[name] for name in names} if all(name in arguments for name in names) else None


def free_names(row: Confirmation) -> tuple[str, ...]:
    """The arguments that may differ in a call that a grant allows: those to which the grant is not bound."""
    bound = row.policy.grant_on
    names = dict.fromkeys((*row.revision.arguments, *property_names(row.asked.tool_schema)))
    return () if bound is None else tuple(name for name in names if name not in bound)
