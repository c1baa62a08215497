"""`authorise` decides who may do what to a confirmation, for every way to act. Pure.

In Slack, anyone who sees a button can press it. So buttons, modals, slash commands, the Home tab and REST all call this
function. Callers look up what it needs beforehand and pass it as `Facts`. Whatever could not be looked up is
`Unresolved`, and leads to a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from adk_confirm.blocks.ledger_kinds import Reason as Reason
from adk_confirm.blocks.shown import Refusal as Refusal
from adk_confirm.bot.policy.approvers import Account, Approver, ApproverKind, Members, Person, Unresolved, is_operator
from adk_confirm.bot.policy.policies import Policy, may_decide


class VoteKind(StrEnum):
    """What somebody wants to do."""

    APPROVE = "approve"
    DENY = "deny"
    WITHDRAW = "withdraw"
    HAPPENED = "it happened"
    DID_NOT = "it did not"
    RUN_AGAIN = "run again"
    REVOKE = "revoke"  # a grant


@dataclass(frozen=True)
class Permission:
    """The policy entry that permits the person; `None` for a withdrawal by the asker or the operator."""

    by: Approver | None = None


Ruling = Permission | Refusal


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Who wants to do what, and how they relate to the confirmation. It is built from the row and the click alone."""

    act: VoteKind
    voter: Person
    team: str
    asked_by: Person
    speakers: frozenset[Person] = frozenset()
    escalated: bool = False
    givers: frozenset[Person] = frozenset()  # who gave the grant


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What was looked up before the vote is counted.

    `members` has the people of each group, address and function of `to_look_up`. `barred` are the entries that
    the policy file bars now. `speakers` spoke to the agent after the request; the row has those from before. `others`
    are the accounts of the people whose votes, together with this one, make the quorum.
    """

    account: Account | Unresolved
    others: Mapping[Person, Account | Unresolved] = field(default_factory=dict)
    members: Mapping[Approver, Members] = field(default_factory=dict)
    barred: tuple[Approver, ...] = ()
    speakers: frozenset[Person] = frozenset()
    speakers_known: bool = True

    @property
    def after(self) -> float | None:
        """Seconds until more can be looked up, if something is missing only because of Slack's rate limit."""
        answers = (self.account, *self.others.values(), *self.members.values())
        missing = [answer for answer in answers if isinstance(answer, Unresolved)]
        return min((answer.after for answer in missing if answer.after is not None), default=None)

    def about(self, other: Person) -> Facts:
        """The same facts about another voter."""
        return replace(self, account=self.others.get(other, Unresolved(other.user, "the account was not asked about")))


def authorise(policy: Policy, claim: Claim, facts: Facts) -> Ruling:
    """Permits the act if the person passes every check. Otherwise returns a `Refusal` with the reason.

    >>> lead = Person("T1", "U0LEAD")
    >>> policy = Policy(tools=("*",), approvers=("user:U0LEAD",))
    >>> claim = Claim(act=VoteKind.APPROVE, voter=lead, team="T1", asked_by=Person("T1", "U0ASKER"))
    >>> str(authorise(policy, claim, Facts(account=Account(lead, teams=frozenset({"T1"})))).by)
    'user:U0LEAD'
    >>> authorise(policy, claim, Facts(account=Account(lead, teams=frozenset({"T1"}), guest=True))).reason
    <Reason.GUEST: 'guest account'>
    """
    if claim.act is VoteKind.WITHDRAW:
        own = claim.voter == claim.asked_by or is_operator(claim.voter)
        return Permission() if own else Refusal(reason=Reason.NOT_ASKER)
    if claim.act is VoteKind.REVOKE and (claim.voter in claim.givers or is_operator(claim.voter)):
        return Permission()
    return (
        _refuse_account(claim, facts.account)
        or _refuse_barred(policy, claim, facts)
        or _refuse_requester(policy, claim, facts)
        or _check_named(policy, claim, facts)
    )


def to_look_up(policy: Policy, escalated: bool, barred: tuple[Approver, ...] = ()) -> tuple[Approver, ...]:
    """The entries whose people must be looked up before `authorise` can permit anybody. `user:` entries need no
    lookup."""
    named = (*may_decide(policy, escalated), *policy.barred, *barred)
    return tuple(entry for entry in dict.fromkeys(named) if entry.kind is not ApproverKind.USER)


def people_of(entry: Approver, team: str, members: Mapping[Approver, Members]) -> Members:
    """The people whom an entry names now. `Unresolved` if they could not be looked up, or were not."""
    match entry.kind:
        case ApproverKind.USER:
            return frozenset({Person(team, entry.value)})
        case ApproverKind.GROUP | ApproverKind.EMAIL | ApproverKind.PYTHON:
            return members.get(entry, Unresolved(str(entry), "it was not looked up"))
    assert_never(entry.kind)


def _refuse_account(claim: Claim, account: Account | Unresolved) -> Refusal | None:
    if isinstance(account, Unresolved):
        return Refusal(reason=Reason.CANNOT_ASK, unresolved=account)
    if account.person != claim.voter:
        return Refusal(
            reason=Reason.CANNOT_ASK,
            unresolved=Unresolved(claim.voter.user, "Slack described another account"),
        )
    flags = {
        Reason.BOT: account.bot or claim.voter.user == "USLACKBOT",  # Slack says is_bot: false of its own bot
        Reason.DELETED: account.deleted,
        Reason.STRANGER: account.stranger,
        Reason.GUEST: account.guest,
        Reason.OTHER_WORKSPACE: claim.team not in account.teams,
    }
    return next((Refusal(reason=reason) for reason, raised in flags.items() if raised), None)


def _refuse_barred(policy: Policy, claim: Claim, facts: Facts) -> Refusal | None:
    for entry in dict.fromkeys((*policy.barred, *facts.barred)):
        people = people_of(entry, claim.team, facts.members)
        if isinstance(people, Unresolved):
            return Refusal(reason=Reason.CANNOT_ASK, unresolved=people)
        if any(claim.voter.is_also(person) for person in people):
            return Refusal(reason=Reason.BARRED)
    return None


def _check_named(policy: Policy, claim: Claim, facts: Facts) -> Ruling:
    entries = may_decide(policy, claim.escalated)
    if not entries:
        return Refusal(reason=Reason.NO_APPROVERS)
    unresolved: Unresolved | None = None
    nobody = True
    for entry in entries:
        people = people_of(entry, claim.team, facts.members)
        if isinstance(people, Unresolved):
            unresolved = unresolved or people
        elif claim.voter in people:
            return Permission(entry)
        nobody = nobody and not people
    if unresolved is not None:
        return Refusal(reason=Reason.CANNOT_ASK, unresolved=unresolved)
    return Refusal(reason=Reason.NO_APPROVERS if nobody else Reason.NOT_APPROVER)


def _refuse_requester(policy: Policy, claim: Claim, facts: Facts) -> Refusal | None:
    """Refuses the approval of one's own request. Denying and revoking do no harm, so an approver may do both. Whoever
    spoke to the agent may say how a call ended: that lets nothing run."""
    if claim.act in (VoteKind.DENY, VoteKind.REVOKE) or policy.allow_requester is True:
        return None
    if claim.voter.is_also(claim.asked_by):
        return Refusal(reason=Reason.TURN_AUTHOR)
    if claim.act in (VoteKind.HAPPENED, VoteKind.DID_NOT):
        return None
    speakers = claim.speakers | facts.speakers
    if policy.allow_requester is False and any(claim.voter.is_also(speaker) for speaker in speakers):
        return Refusal(reason=Reason.REQUESTER)
    if policy.allow_requester is False and not facts.speakers_known:
        return Refusal(reason=Reason.SPEAKERS_UNKNOWN)
    return None
