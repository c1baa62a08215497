"""Who may decide. One function answers this, and it refuses when something is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adk_confirm.bot.confirmation.authorise import (
    Claim,
    Facts,
    Permission,
    Reason,
    Ruling,
    VoteKind,
    authorise,
    people_of,
    to_look_up,
)
from adk_confirm.bot.policy.approvers import OPERATOR, Account, Approver, Members, Person, Unresolved, parse_approver
from tests.support.deciding import ANNA, ASKER, BEN, LEAD, MALLORY, TEAM, full_member, make_policy

ONCALL, ROTA, MAIL = map(parse_approver, ("group:S0ONCALL", "python:my.rota:on_call", "email:Ben@Example.com"))
DECIDING = (VoteKind.APPROVE, VoteKind.DENY, VoteKind.HAPPENED, VoteKind.RUN_AGAIN)


def claim(
    voter: Person, act: VoteKind = VoteKind.APPROVE, *, escalated: bool = False, spoke: tuple[Person, ...] = ()
) -> Claim:
    return Claim(
        act=act, voter=voter, team=TEAM, asked_by=ASKER, speakers=frozenset({ASKER, *spoke}), escalated=escalated
    )


def known(
    voter: Person, *, oncall: Members | None = None, rota: Members | None = None, mail: Members | None = None
) -> Facts:
    found = {ONCALL: oncall, ROTA: rota, MAIL: mail}
    return Facts(account=full_member(voter), members={entry: who for entry, who in found.items() if who is not None})


def some(*people: Person) -> frozenset[Person]:
    return frozenset(people)


def reason(verdict: Ruling) -> Reason | None:
    return None if isinstance(verdict, Permission) else verdict.reason


AWAY = Unresolved("group:S0ONCALL", "Slack did not answer")
GROUP, EITHER = {"approvers": ["group:S0ONCALL"]}, {"approvers": ["group:S0ONCALL", "user:U0BEN"]}
NAMED_FIRST = {"approvers": ["user:U0BEN", "group:S0ONCALL"]}
OTHERS = {"approvers": ["email:ben@example.com", "python:my.rota:on_call"]}
ASKERS = {"approvers": ["user:U0ASKER", "user:U0ANNA"]}
LATER = {"escalate_to": ["user:U0LEAD"], "escalate_after": "20m"}
STRANGER, SLACKBOT = Person("T0OTHER", "U0ANNA"), Person(TEAM, "USLACKBOT")
BARS_ANNA = {"barred": ["user:U0ANNA"]}
SOUTH = Person("T0SOUTH", ANNA.user)

RULINGS: list[tuple[str, dict[str, Any], Claim, Facts, Reason | Approver | None]] = [
    # who is named
    ("a member of the group as it is now", GROUP, claim(ANNA), known(ANNA, oncall=some(ANNA)), ONCALL),
    ("no member of it any more", GROUP, claim(ANNA), known(ANNA, oncall=some(BEN)), Reason.NOT_APPROVER),
    ("an address", OTHERS, claim(BEN), known(BEN, mail=some(BEN)), MAIL),
    ("a function", OTHERS, claim(ANNA), known(ANNA, mail=some(BEN), rota=some(ANNA)), ROTA),
    ("who is named needs no group", EITHER, claim(BEN), known(BEN, oncall=AWAY), None),
    ("a group that could not be asked", EITHER, claim(ANNA), known(ANNA, oncall=AWAY), Reason.CANNOT_ASK),
    ("a group that was never looked up", GROUP, claim(ANNA), known(ANNA), Reason.CANNOT_ASK),
    ("a group of nobody", GROUP, claim(ANNA), known(ANNA, oncall=some()), Reason.NO_APPROVERS),
    ("a named person and a group of nobody", NAMED_FIRST, claim(ANNA), known(ANNA, oncall=some()), Reason.NOT_APPROVER),
    ("an empty list", {"approvers": []}, claim(ANNA), known(ANNA), Reason.NO_APPROVERS),
    (
        "the same id in another workspace",
        {"approvers": ["user:U0ANNA"]},
        claim(STRANGER),
        Facts(account=Account(STRANGER, teams=frozenset({TEAM, "T0OTHER"}))),
        Reason.NOT_APPROVER,
    ),
    ("before the escalation", LATER, claim(LEAD), known(LEAD), Reason.NOT_APPROVER),
    ("after it", LATER, claim(LEAD, escalated=True), known(LEAD), None),
    ("after it, as before", LATER, claim(ANNA, escalated=True), known(ANNA), None),
    # accounts
    ("Slack's own bot", {"approvers": ["user:USLACKBOT"]}, claim(SLACKBOT), known(SLACKBOT), Reason.BOT),
    ("an account nobody could tell of", {}, claim(ANNA), Facts(account=Unresolved("U0ANNA", "no")), Reason.CANNOT_ASK),
    ("the account of somebody else", {}, claim(ANNA), Facts(account=full_member(BEN)), Reason.CANNOT_ASK),
    # who is barred
    *((f"barred, to {act}", BARS_ANNA, claim(ANNA, act), known(ANNA), Reason.BARRED) for act in DECIDING),
    *(
        (
            f"barred in the file as it is now, to {act}",
            {},
            claim(ANNA, act),
            replace(known(ANNA), barred=(parse_approver("user:U0ANNA"),)),
            Reason.BARRED,
        )
        for act in DECIDING
    ),
    (
        "a barred group that could not be asked",
        {"barred": ["group:S0ONCALL"]},
        claim(ANNA),
        known(ANNA, oncall=AWAY),
        Reason.CANNOT_ASK,
    ),
    (
        "a bar is for the account, from whichever workspace",
        {**BARS_ANNA, "approvers": ["python:my.rota:on_call"]},
        claim(SOUTH),
        known(SOUTH, rota=some(SOUTH)),
        Reason.BARRED,
    ),
    # who asked, and who spoke to the agent
    ("the asker", ASKERS, claim(ASKER), known(ASKER), Reason.TURN_AUTHOR),
    ("the asker, to settle", ASKERS, claim(ASKER, VoteKind.HAPPENED), known(ASKER), Reason.TURN_AUTHOR),
    ("the asker, to run it again", ASKERS, claim(ASKER, VoteKind.RUN_AGAIN), known(ASKER), Reason.TURN_AUTHOR),
    ("denying harms nobody", ASKERS, claim(ASKER, VoteKind.DENY), known(ASKER), None),
    ("and is for approvers all the same", {}, claim(ASKER, VoteKind.DENY), known(ASKER), Reason.NOT_APPROVER),
    ("somebody who spoke", ASKERS, claim(ANNA, spoke=(ANNA,)), known(ANNA), Reason.REQUESTER),
    ("who spoke, to settle", {}, claim(ANNA, VoteKind.DID_NOT, spoke=(ANNA,)), known(ANNA), None),
    ("who spoke, again", {}, claim(ANNA, VoteKind.RUN_AGAIN, spoke=(ANNA,)), known(ANNA), Reason.REQUESTER),
    ("who spoke since", {}, claim(ANNA), replace(known(ANNA), speakers=some(ANNA)), Reason.REQUESTER),
    ("speakers may", {**ASKERS, "allow_requester": "speakers"}, claim(ANNA, spoke=(ANNA,)), known(ANNA), None),
    ("the asker not", {**ASKERS, "allow_requester": "speakers"}, claim(ASKER), known(ASKER), Reason.TURN_AUTHOR),
    ("the asker may", {**ASKERS, "allow_requester": True}, claim(ASKER), known(ASKER), None),
    ("if named", {"allow_requester": True}, claim(ASKER), known(ASKER), Reason.NOT_APPROVER),
    # who withdraws
    ("an approver does not withdraw", {}, claim(ANNA, VoteKind.WITHDRAW), Facts(account=AWAY), Reason.NOT_ASKER),
    ("nor does anybody else", {}, claim(MALLORY, VoteKind.WITHDRAW), Facts(account=AWAY), Reason.NOT_ASKER),
    ("the operator approves nothing", {}, claim(OPERATOR), known(OPERATOR), Reason.NOT_APPROVER),
]


@pytest.mark.parametrize(
    ("keys", "asked", "facts", "ruled"), [row[1:] for row in RULINGS], ids=[row[0] for row in RULINGS]
)
def test_who_may(keys: dict[str, Any], asked: Claim, facts: Facts, ruled: Reason | Approver | None) -> None:
    verdict = authorise(make_policy(**keys), asked, facts)
    if isinstance(ruled, Approver):
        assert verdict == Permission(ruled)
    else:
        assert reason(verdict) is ruled


def test_a_refusal_says_what_could_not_be_asked() -> None:
    verdict = authorise(make_policy(**EITHER), claim(ANNA), known(ANNA, oncall=AWAY))
    assert not isinstance(verdict, Permission)
    assert verdict.unresolved == AWAY


@pytest.mark.parametrize("who", [ASKER, OPERATOR])
def test_withdrawing_is_the_askers_and_the_operators(who: Person) -> None:
    nothing_known = Facts(account=Unresolved("", ""))
    assert isinstance(authorise(make_policy(), claim(who, VoteKind.WITHDRAW), nothing_known), Permission)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"bot": True}, Reason.BOT),
        ({"deleted": True}, Reason.DELETED),
        ({"guest": True}, Reason.GUEST),
        ({"stranger": True}, Reason.STRANGER),
        ({"teams": frozenset({"T0OTHER"})}, Reason.OTHER_WORKSPACE),
        ({"teams": frozenset()}, Reason.OTHER_WORKSPACE),
    ],
)
@pytest.mark.parametrize("act", [act for act in VoteKind if act is not VoteKind.WITHDRAW])
def test_these_accounts_never_decide(flags: dict[str, Any], expected: Reason, act: VoteKind) -> None:
    facts = Facts(account=replace(full_member(ANNA), **flags))
    assert reason(authorise(make_policy(), claim(ANNA, act), facts)) is expected


@pytest.mark.parametrize("allowed", [False, "speakers"])
@pytest.mark.parametrize("team", ["T0SOUTH", "E0CORP", "T0SHARED", ""])
def test_a_requester_under_another_team_may_not_approve(allowed: object, team: str) -> None:
    """Whoever asked in one workspace and is an approver in the other is the same person: the account is the user's id,
    whichever teams Slack names, and whichever it leaves out."""
    policy, elsewhere = make_policy(allow_requester=allowed), Person(team, ANNA.user)
    named = replace(full_member(ANNA), teams=frozenset({TEAM, "T0SOUTH", "E0CORP"}))
    for facts in (known(ANNA), Facts(account=named)):
        asked = replace(claim(ANNA, spoke=(elsewhere,)), asked_by=elsewhere)
        assert reason(authorise(policy, asked, facts)) is Reason.TURN_AUTHOR
        spoke = authorise(policy, claim(ANNA, spoke=(elsewhere,)), facts)
        assert reason(spoke) is (Reason.REQUESTER if allowed is False else None)


def test_only_what_must_be_asked_is_looked_up() -> None:
    policy = make_policy(
        approvers=["user:U0ANNA", "group:S0ONCALL"],
        escalate_to=["group:S0LEADS", "group:S0ONCALL"],
        escalate_after="1m",
        barred=["email:x@y.z"],
    )
    assert [str(e) for e in to_look_up(policy, escalated=False)] == ["group:S0ONCALL", "email:x@y.z"]
    later = to_look_up(policy, escalated=True, barred=(ROTA,))
    assert [str(e) for e in later] == ["group:S0ONCALL", "group:S0LEADS", "email:x@y.z", "python:my.rota:on_call"]
    assert people_of(parse_approver("user:U0ANNA"), TEAM, {}) == frozenset({ANNA})
