"""Who may decide. One function answers this, and it refuses when something is unknown."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.confirmation.authorise import (
    Act,
    Claim,
    Facts,
    Permission,
    Reason,
    Ruling,
    authorise,
    people_of,
    to_look_up,
)
from adk_confirm.bot.policy.approvers import OPERATOR, Account, Approver, Person, Unresolved
from adk_confirm.bot.policy.model import Policy, may_decide
from tests.support.deciding import ANNA, ASKER, BEN, LEAD, MALLORY, TEAM, full_member, make_policy

ONCALL, ROTA, MAIL = map(Approver.parse, ("group:S0ONCALL", "python:my.rota:on_call", "email:Ben@Example.com"))


def claim(voter: Person, act: Act = Act.APPROVE, *, escalated: bool = False, spoke: tuple[Person, ...] = ()) -> Claim:
    return Claim(
        act=act, voter=voter, team=TEAM, asked_by=ASKER, speakers=frozenset({ASKER, *spoke}), escalated=escalated
    )


def known(voter: Person, **members: frozenset[Person] | Unresolved) -> Facts:
    found = {ONCALL: members.get("oncall"), ROTA: members.get("rota"), MAIL: members.get("mail")}
    return Facts(account=full_member(voter), members={entry: m for entry, m in found.items() if m is not None})


def reason(verdict: Ruling) -> Reason | None:
    return None if isinstance(verdict, Permission) else verdict.reason


class TestWhoIsNamed:
    def test_a_member_of_the_group_as_it_is_now(self) -> None:
        policy = make_policy(approvers=["group:S0ONCALL"])
        assert authorise(policy, claim(ANNA), known(ANNA, oncall=frozenset({ANNA}))) == Permission(ONCALL)
        assert reason(authorise(policy, claim(ANNA), known(ANNA, oncall=frozenset({BEN})))) is Reason.NOT_APPROVER

    def test_an_address_and_a_function_name_people_too(self) -> None:
        policy = make_policy(approvers=["email:ben@example.com", "python:my.rota:on_call"])
        assert authorise(policy, claim(BEN), known(BEN, mail=frozenset({BEN}))) == Permission(MAIL)
        assert authorise(policy, claim(ANNA), known(ANNA, mail=frozenset({BEN}), rota=frozenset({ANNA}))) == Permission(
            ROTA
        )

    def test_a_group_that_could_not_be_asked_names_nobody_and_says_so(self) -> None:
        policy = make_policy(approvers=["group:S0ONCALL", "user:U0BEN"])
        facts = known(ANNA, oncall=Unresolved("group:S0ONCALL", "Slack did not answer within 30 s"))
        verdict = authorise(policy, claim(ANNA), facts)
        assert not isinstance(verdict, Permission)
        assert verdict.reason is Reason.CANNOT_ASK
        assert verdict.unresolved == Unresolved("group:S0ONCALL", "Slack did not answer within 30 s")

    def test_who_is_named_directly_needs_no_group(self) -> None:
        policy = make_policy(approvers=["group:S0ONCALL", "user:U0BEN"])
        facts = known(BEN, oncall=Unresolved("group:S0ONCALL", "Slack did not answer"))
        assert isinstance(authorise(policy, claim(BEN), facts), Permission)

    def test_a_group_that_was_never_looked_up_is_no_yes(self) -> None:
        policy = make_policy(approvers=["group:S0ONCALL"])
        assert reason(authorise(policy, claim(ANNA), known(ANNA))) is Reason.CANNOT_ASK

    @pytest.mark.parametrize("approvers", [[], ["group:S0ONCALL"]])
    def test_an_empty_list_means_nobody(self, approvers: list[str]) -> None:
        policy = make_policy(approvers=approvers)
        assert reason(authorise(policy, claim(ANNA), known(ANNA, oncall=frozenset()))) is Reason.NO_APPROVERS

    def test_the_same_id_in_another_workspace_is_another_person(self) -> None:
        policy = make_policy(approvers=["user:U0ANNA"])
        stranger = Person("T0OTHER", "U0ANNA")
        facts = Facts(account=Account(stranger, teams=frozenset({TEAM, "T0OTHER"})))
        assert reason(authorise(policy, claim(stranger), facts)) is Reason.NOT_APPROVER

    def test_escalation_adds_people(self) -> None:
        policy = make_policy(escalate_to=["user:U0LEAD"], escalate_after="20m")
        assert reason(authorise(policy, claim(LEAD), known(LEAD))) is Reason.NOT_APPROVER
        assert isinstance(authorise(policy, claim(LEAD, escalated=True), known(LEAD)), Permission)
        assert isinstance(authorise(policy, claim(ANNA, escalated=True), known(ANNA)), Permission)


class TestAccounts:
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
    @pytest.mark.parametrize("act", [act for act in Act if act is not Act.WITHDRAW])
    def test_these_never_decide(self, flags: dict[str, object], expected: Reason, act: Act) -> None:
        facts = Facts(account=replace(full_member(ANNA), **flags))  # type: ignore[arg-type]  # fields of Account
        assert reason(authorise(make_policy(), claim(ANNA, act), facts)) is expected

    def test_slacks_own_bot_is_a_bot_whatever_slack_says(self) -> None:
        slackbot = Person(TEAM, "USLACKBOT")
        policy = make_policy(approvers=["user:USLACKBOT"])
        assert reason(authorise(policy, claim(slackbot), known(slackbot))) is Reason.BOT

    def test_an_account_that_could_not_be_asked_about(self) -> None:
        facts = Facts(account=Unresolved("U0ANNA", "Slack did not answer"))
        assert reason(authorise(make_policy(), claim(ANNA), facts)) is Reason.CANNOT_ASK

    def test_an_account_that_is_not_the_voters(self) -> None:
        facts = Facts(account=full_member(BEN))
        refused = authorise(make_policy(), claim(ANNA), facts)
        assert reason(refused) is Reason.CANNOT_ASK


class TestBarred:
    @pytest.mark.parametrize("act", [Act.APPROVE, Act.DENY, Act.SETTLE, Act.RUN_AGAIN])
    def test_by_the_policy_or_by_the_file_as_it_is_now(self, act: Act) -> None:
        frozen = make_policy(barred=["user:U0ANNA"])
        assert reason(authorise(frozen, claim(ANNA, act), known(ANNA))) is Reason.BARRED
        now = replace(known(ANNA), barred=(Approver.parse("user:U0ANNA"),))
        assert reason(authorise(make_policy(), claim(ANNA, act), now)) is Reason.BARRED

    def test_a_barred_group_that_could_not_be_asked_bars(self) -> None:
        facts = known(ANNA, oncall=Unresolved("group:S0ONCALL", "Slack did not answer"))
        assert reason(authorise(make_policy(barred=["group:S0ONCALL"]), claim(ANNA), facts)) is Reason.CANNOT_ASK


class TestRequesters:
    def test_by_default_nobody_who_spoke_to_the_agent(self) -> None:
        policy = make_policy(approvers=["user:U0ASKER", "user:U0ANNA"])
        assert reason(authorise(policy, claim(ASKER), known(ASKER))) is Reason.TURN_AUTHOR
        assert reason(authorise(policy, claim(ANNA, spoke=(ANNA,)), known(ANNA))) is Reason.REQUESTER

    @pytest.mark.parametrize("allowed", [False, "speakers"])
    def test_a_requester_in_another_workspace_of_the_organisation_may_not_approve(self, allowed: object) -> None:
        """Whoever asked in one and is an approver in the other is the same person."""
        elsewhere = Person("T0SOUTH", ANNA.user)
        policy = make_policy(allow_requester=allowed)
        facts = Facts(account=replace(full_member(ANNA), teams=frozenset({TEAM, "T0SOUTH", "E0CORP"})))
        asked = replace(claim(ANNA, spoke=(elsewhere,)), asked_by=elsewhere)
        assert reason(authorise(policy, asked, facts)) is Reason.TURN_AUTHOR
        spoke = authorise(policy, claim(ANNA, spoke=(elsewhere,)), facts)
        assert reason(spoke) is (Reason.REQUESTER if allowed is False else None)

    @pytest.mark.parametrize("allowed", [False, "speakers"])
    def test_a_requester_under_a_team_that_slack_does_not_name_may_not_approve(self, allowed: object) -> None:
        """The account is the user's id. Slack may leave out a workspace, or the id of the organisation itself."""
        policy = make_policy(allow_requester=allowed)
        for team in ("E0CORP", "T0SHARED", ""):
            elsewhere = Person(team, ANNA.user)
            asked = replace(claim(ANNA), asked_by=elsewhere)
            assert reason(authorise(policy, asked, known(ANNA))) is Reason.TURN_AUTHOR
            spoke = authorise(policy, claim(ANNA, spoke=(elsewhere,)), known(ANNA))
            assert reason(spoke) is (Reason.REQUESTER if allowed is False else None)

    def test_a_bar_holds_for_the_account_too(self) -> None:
        there = Person("T0SOUTH", ANNA.user)
        policy = make_policy(barred=["user:U0ANNA"], approvers=["python:rota:who"])
        facts = replace(known(there), members={Approver.parse("python:rota:who"): frozenset({there})})
        assert reason(authorise(policy, claim(there), facts)) is Reason.BARRED

    def test_who_spoke_since_is_no_better(self) -> None:
        facts = replace(known(ANNA), speakers=frozenset({ANNA}))
        assert reason(authorise(make_policy(), claim(ANNA), facts)) is Reason.REQUESTER

    def test_speakers_lets_all_but_the_turns_author(self) -> None:
        policy = make_policy(approvers=["user:U0ASKER", "user:U0ANNA"], allow_requester="speakers")
        assert isinstance(authorise(policy, claim(ANNA, spoke=(ANNA,)), known(ANNA)), Permission)
        assert reason(authorise(policy, claim(ASKER), known(ASKER))) is Reason.TURN_AUTHOR

    def test_true_lets_the_asker_too_if_named(self) -> None:
        policy = make_policy(approvers=["user:U0ASKER"], allow_requester=True)
        assert isinstance(authorise(policy, claim(ASKER), known(ASKER)), Permission)
        assert reason(authorise(make_policy(allow_requester=True), claim(ASKER), known(ASKER))) is Reason.NOT_APPROVER

    @pytest.mark.parametrize("act", [Act.SETTLE, Act.RUN_AGAIN])
    def test_a_requester_may_not_settle_or_run_again(self, act: Act) -> None:
        policy = make_policy(approvers=["user:U0ASKER"])
        assert reason(authorise(policy, claim(ASKER, act), known(ASKER))) is Reason.TURN_AUTHOR

    def test_denying_harms_nobody(self) -> None:
        policy = make_policy(approvers=["user:U0ASKER"])
        assert isinstance(authorise(policy, claim(ASKER, Act.DENY), known(ASKER)), Permission)
        assert reason(authorise(make_policy(), claim(ASKER, Act.DENY), known(ASKER))) is Reason.NOT_APPROVER


@pytest.mark.parametrize(("voter", "may"), [(ASKER, True), (OPERATOR, True), (ANNA, False), (MALLORY, False)])
def test_withdrawing_is_the_askers_and_the_operators(voter: Person, may: bool) -> None:
    nothing_known = Facts(account=Unresolved("", ""))
    verdict = authorise(make_policy(), claim(voter, Act.WITHDRAW), nothing_known)
    assert isinstance(verdict, Permission) is may


def test_the_operator_approves_nothing() -> None:
    assert not isinstance(authorise(make_policy(), claim(OPERATOR), known(OPERATOR)), Permission)


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
    assert people_of(Approver.parse("user:U0ANNA"), TEAM, {}) == frozenset({ANNA})


_GROUPS = ("group:S1", "group:S2", "user:U0ANNA", "user:U0BEN")


@given(
    approvers=st.lists(st.sampled_from(_GROUPS), unique=True),
    barred=st.lists(st.sampled_from(_GROUPS), unique=True),
    members=st.dictionaries(
        st.sampled_from(("group:S1", "group:S2")), st.none() | st.frozensets(st.sampled_from([ANNA, BEN, ASKER]))
    ),
    voter=st.sampled_from([ANNA, BEN, ASKER]),
    flags=st.sampled_from([{}, {"guest": True}, {"bot": True}, {"deleted": True}, {"stranger": True}]),
    act=st.sampled_from([Act.APPROVE, Act.DENY, Act.RUN_AGAIN]),
)
def test_permitted_only_if_every_question_has_a_good_answer(
    approvers: list[str],
    barred: list[str],
    members: dict[str, frozenset[Person] | None],
    voter: Person,
    flags: dict[str, bool],
    act: Act,
) -> None:
    policy: Policy = make_policy(approvers=approvers, barred=barred)
    found = {
        Approver.parse(name): Unresolved(name, "no answer") if people is None else people
        for name, people in members.items()
    }
    account = Account(voter, teams=frozenset({TEAM}), **flags)
    verdict = authorise(policy, claim(voter, act), Facts(account=account, members=found))

    def holds(entry: str) -> bool | None:
        if entry.startswith("user:"):
            return entry.removeprefix("user:") == voter.user
        people = members.get(entry)
        return None if people is None else voter in people

    good = (
        not flags
        and all(holds(entry) is False for entry in barred)
        and any(holds(entry) is True for entry in approvers)
        and (act is Act.DENY or voter != ASKER)
    )
    assert isinstance(verdict, Permission) is good


def test_every_way_of_being_nobody_is_distinguished() -> None:
    policies = [make_policy(approvers=[]), make_policy(approvers=["user:U0BEN"]), make_policy(barred=["user:U0ANNA"])]
    reasons = [reason(authorise(policy, claim(ANNA), known(ANNA))) for policy in policies]
    assert all(one is not other for one, other in itertools.combinations(reasons, 2))
    assert may_decide(policies[0], escalated=True) == ()
