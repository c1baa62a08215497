"""Grants ("Also allow the next ones like this"): who gave one, for which calls, and until when."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation import grants
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import (
    Ask,
    AskedCall,
    Confirmation,
    Grant,
    OutcomeKind,
    Place,
    State,
    VoteKind,
)
from adk_confirm.bot.confirmation.decision import approve_by_grant, revoke
from adk_confirm.bot.confirmation.grants import is_for
from adk_confirm.bot.confirmation.outcome import DueWork, copy_outcome, due_work, tick
from adk_confirm.bot.confirmation.states import Illegal
from adk_confirm.bot.confirmation.stored_json import from_object, to_json
from adk_confirm.bot.policy.approvers import Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import Policy
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import SessionId
from tests.support.deciding import ANNA, BEN, NOON, Desk, call_that_became, full_member, make_asked, make_policy

ONCALL = parse_approver("group:S0ONCALL")
ARGUMENTS: JsonObject = {"service": "checkout", "version": "2.4.1"}


def given_by_anna(policy: Policy) -> Grant:
    desk = Desk(policy, asked=make_asked(arguments=ARGUMENTS))
    desk.approve(ANNA, grant=True)
    (grant,) = desk.grants
    return grant


def passes(grant: Grant, policy: Policy, *, minutes: float = 1, **changes: object) -> bool:
    """Whether the asker's next call goes through, while all who gave the grant are what they were."""
    arguments: JsonObject = {**ARGUMENTS, **changes}  # type: ignore[dict-item]  # JSON
    return lets_through(grant, make_asked(arguments=arguments), policy, minutes=minutes)


def lets_through(
    grant: Grant, asked: AskedCall, policy: Policy, rights: dict[Person, Facts] | None = None, *, minutes: float = 1
) -> bool:
    rights = {giver: Facts(account=full_member(giver)) for giver in grant.given_by} if rights is None else rights
    if not is_for(grant, asked, policy, NOON + timedelta(minutes=minutes)):
        return False
    return grants.lets_through(grant, asked, policy, rights.get)


@pytest.mark.parametrize(
    ("grant", "on", "minutes", "changes", "through"),
    [
        ("30m", ["service"], 1, {"version": "2.4.2"}, True),
        ("30m", ["service"], 1, {"service": "billing"}, False),
        ("30m", ["service"], 30, {}, False),  # it has an end
        ("30m", ["service"], -1, {}, False),
        ("session", None, 23 * 60, {}, True),
        ("session", None, 24 * 60, {}, False),  # and so has a session's
        ("30m", None, 1, {}, True),  # unless arguments are named, all must be the same
        ("30m", None, 1, {"version": "2.4.2"}, False),
        ("30m", None, 1, {"force": True}, False),
        ("30m", [], 1, {"service": "billing", "version": "2.4.2"}, True),  # none named: none matters
        ("30m", [], 1, {"force": True}, False),  # but nobody read that there is this one
    ],
)
def test_the_next_one_like_this_needs_no_card(
    grant: str, on: list[str] | None, minutes: int, changes: dict[str, object], through: bool
) -> None:
    policy = make_policy(grant=grant, grant_on=on)
    assert passes(given_by_anna(policy), policy, minutes=minutes, **changes) is through


@pytest.mark.parametrize(("on", "through"), [(None, False), (["service"], True)])
def test_a_call_that_says_something_else_with_the_same_arguments_asks(on: list[str] | None, through: bool) -> None:
    """A tool that asks by itself may look first: the hint says what it found."""
    policy = make_policy(grant="30m", grant_on=on)
    asked = make_asked(arguments=ARGUMENTS, hint="Deletes 5 million rows.")
    assert lets_through(given_by_anna(policy), asked, policy) is through


def test_never_across_sessions_tools_or_policies() -> None:
    policy = make_policy(grant="30m")
    grant = given_by_anna(policy)
    other = SessionId("oncall", "slack-T0ACME-U0ASKER", "slack-T0ACME-C1-2.2")
    assert not lets_through(grant, make_asked(arguments=ARGUMENTS, session=other), policy)
    assert not lets_through(grant, make_asked("rollback", arguments=ARGUMENTS), policy)
    assert not passes(grant, make_policy(grant="30m", edit=False))


@pytest.mark.parametrize(
    "change", [{"agent": "prod"}, {"title": "Empty PRODUCTION"}, {"title": None}, {"ask": Ask.NODE}]
)
def test_never_across_agents_titles_or_kinds_of_questions(change: dict[str, Any]) -> None:
    """A staging agent's `wipe` opens no other agent's."""
    policy = make_policy(grant="30m", grant_on=["service"])
    asked = make_asked(arguments=ARGUMENTS, agent="staging", title="Empty the staging copy")
    desk = Desk(policy, asked=asked)
    desk.approve(ANNA, grant=True)
    assert lets_through(desk.grants[0], asked, policy)
    assert not lets_through(desk.grants[0], replace(asked, **change), policy)


def test_a_grant_from_before_it_was_bound_to_an_agent_covers_nothing() -> None:
    policy = make_policy(grant="30m")
    stored = json.loads(to_json(given_by_anna(policy)))
    for name in ("agent", "ask", "title"):
        del stored[name]
    assert not passes(from_object(Grant, stored), policy)


@pytest.mark.parametrize("on", [["servce"], ["service.name"], ["service", "region"]])
def test_a_name_that_the_call_lacks_binds_nothing(on: list[str]) -> None:
    """Otherwise one approval would let every call of the tool through."""
    policy = make_policy(grant="30m", grant_on=on)
    desk = Desk(policy, asked=make_asked(arguments=ARGUMENTS))
    desk.approve(ANNA, grant=True)
    assert (desk.row.state, desk.grants) == (State.APPROVED, [])
    named = make_policy(grant="30m", grant_on=["service"])
    given = replace(given_by_anna(named), on={}, policy=policy.fingerprint)  # as it was made before
    assert not passes(given, policy)


def test_everybody_whose_approval_made_it_gave_it() -> None:
    policy = make_policy(grant="30m", quorum=2)
    half = Desk(policy)
    half.approve(ANNA, grant=True)
    half.approve(BEN)
    assert half.grants == []
    both = Desk(policy)
    both.approve(ANNA, grant=True)
    both.approve(BEN, grant=True)
    assert both.grants[0].given_by == (ANNA, BEN)
    assert both.steps[-1].kind is LineKind.GRANTED
    assert both.steps[-1].until == NOON + timedelta(minutes=30)


def test_only_where_the_policy_offers_it_and_no_form_is_to_be_filled_in() -> None:
    desk = Desk(make_policy())
    desk.approve(ANNA, grant=True)
    assert desk.grants == []
    form = Desk(make_policy(grant="30m", edit=True), asked=make_asked(wants_payload=True, payload={"days": 0}))
    form.fill_in(ANNA, {"days": 1})
    assert form.grants == []


@pytest.mark.parametrize("way", ["asks", "asks from another workspace", "spoke"])
def test_nobody_lets_a_call_of_their_own_through(way: str) -> None:
    """Anna grants while she approves Ben's 10, and then asks for 999999 herself."""
    policy = make_policy(tools=["reimburse"], grant="30m", grant_on=["purpose"])
    desk = Desk(policy, asked=make_asked("reimburse", {"amount": 10, "purpose": "lunch"}, asked_by=BEN))
    desk.approve(ANNA, grant=True)
    (grant,) = desk.grants
    more = make_asked("reimburse", {"amount": 999999, "purpose": "lunch"}, asked_by=BEN)
    assert lets_through(grant, more, policy)
    hers = {
        "asks": replace(more, asked_by=ANNA),
        "asks from another workspace": replace(more, asked_by=Person("T0SOUTH", ANNA.user)),
        "spoke": replace(more, speakers=frozenset({BEN, ANNA})),
    }[way]
    assert not lets_through(grant, hers, policy)
    allowed = make_policy(tools=["reimburse"], grant="30m", grant_on=["purpose"], allow_requester=True)
    assert lets_through(replace(grant, policy=allowed.fingerprint), hers, allowed), "unless the policy lets her"


@pytest.mark.parametrize(
    "now",
    [
        Facts(account=full_member(ANNA), members={ONCALL: frozenset({BEN})}),
        Facts(account=Unresolved("U0ANNA", "Slack is away")),
        None,
    ],
)
def test_a_giver_who_could_not_approve_it_now_gives_nothing(now: Facts | None) -> None:
    policy = make_policy(grant="30m", approvers=["group:S0ONCALL"], quorum=2)
    desk = Desk(policy, asked=make_asked(arguments=ARGUMENTS), members={ONCALL: frozenset({ANNA, BEN})})
    desk.approve(BEN, grant=True)
    desk.approve(ANNA, grant=True)
    (grant,) = desk.grants
    as_they_were = {who: Facts(account=full_member(who), members=desk.members) for who in (ANNA, BEN)}
    assert lets_through(grant, desk.asked, policy, as_they_were)

    rights = {**as_they_were, ANNA: now} if now else {BEN: as_they_were[BEN]}
    assert not lets_through(grant, desk.asked, policy, rights)


def test_whoever_gave_it_ends_it_also_after_the_call_was_run_again_and_they_may_decide_no_more() -> None:
    desk = Desk(make_policy(grant="30m"))
    desk.approve(ANNA, grant=True)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    desk.vote(VoteKind.RUN_AGAIN, BEN)
    desk.barred = (parse_approver("user:U0ANNA"),)
    assert desk.vote(VoteKind.REVOKE, ANNA) is None
    assert desk.row.grant is None


def test_fewer_givers_than_the_quorum_give_nothing() -> None:
    policy = make_policy(grant="30m", quorum=2)
    alone = replace(given_by_anna(make_policy(grant="30m")), policy=policy.fingerprint)
    assert not passes(alone, policy)
    twice = replace(alone, given_by=(ANNA, Person("T0SOUTH", ANNA.user)))
    assert not lets_through(twice, make_asked(arguments=ARGUMENTS), policy, {})


def test_a_policy_that_spells_out_a_default_is_the_same() -> None:
    plain = make_policy(grant="30m")
    assert passes(given_by_anna(plain), make_policy(grant="30m", edit=True, expires_after="24h", quorum=1))


class LaterPolicy(Policy):
    """As a later version of adk-confirm reads it."""

    one_more_key: bool = False


def test_a_key_that_a_later_version_adds_ends_no_grant() -> None:
    read = {"tools": ["*"], "approvers": ["user:U0ANNA"], "grant": "30m"}
    policy = Policy.model_validate(read)
    assert passes(given_by_anna(policy), LaterPolicy.model_validate(read))


@given(names=st.none() | st.lists(st.sampled_from(["service", "version", "n"])), n=st.sampled_from([1, 1.0, True, "1"]))
def test_values_are_the_same_only_to_the_letter(names: list[str] | None, n: object) -> None:
    policy = make_policy(grant="30m", grant_on=names)
    desk = Desk(policy, asked=make_asked(arguments={**ARGUMENTS, "n": 1}))
    desk.approve(ANNA, grant=True)
    (grant,) = desk.grants
    bound = names is None or "n" in names
    assert passes(grant, policy, n=n) is (type(n) is int or not bound)


def let_one_through(policy: Policy) -> Confirmation:
    grant = given_by_anna(policy)
    asked = replace(make_asked(arguments=ARGUMENTS), request_id="the next one")
    later = NOON + timedelta(minutes=1)
    change = approve_by_grant("k2", asked, policy, later, grant)
    (step,) = change.steps
    assert (step.kind, step.grant, step.people) == (LineKind.GRANT_USED, grant.id, grant.given_by)
    assert change.delivery is not None
    assert change.delivery.word == "approved"
    return replace(change.row, places=(Place(channel="C1", thread_ts="1.2"),))


def test_what_a_grant_lets_through_needs_no_card_until_people_have_to_say_something() -> None:
    row = let_one_through(make_policy(grant="30m", grant_on=["service"]))
    at = NOON + timedelta(minutes=2)
    assert row.state is State.APPROVED
    assert DueWork.DRAW not in due_work(row, at)

    row = replace(row, handed_at=at)
    running = copy_outcome(row, call_that_became(OutcomeKind.RUNNING), at).row
    assert DueWork.DRAW not in due_work(running, at)
    assert DueWork.DRAW not in due_work(copy_outcome(running, call_that_became(OutcomeKind.DONE), at).row, at)
    assert DueWork.DRAW in due_work(copy_outcome(running, call_that_became(OutcomeKind.UNKNOWN), at).row, at)


def test_a_grant_ends_by_the_clock_and_by_who_may_end_it() -> None:
    desk = Desk(make_policy(grant="30m"), asked=make_asked(arguments=ARGUMENTS))
    desk.approve(ANNA, grant=True)
    row = desk.row
    end = row.grant_until
    assert end is not None
    assert DueWork.END_GRANT in due_work(row, end)
    ended = tick(row, end)
    over = ended.row
    assert (over.grant_until, ended.steps) == (None, ()), "nobody revoked it, and no policy changed"
    assert over.face > row.face, "its card offers to revoke it no longer"
    change = revoke(row, NOON, ANNA)
    with pytest.raises(Illegal):
        revoke(change.row, NOON, ANNA)
