"""Which policy governs a call, and what is stored of it with the call."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from adk_confirm.bot.confirmation.decision_texts import ungoverned_to_model, ungoverned_to_operator
from adk_confirm.bot.policy.approvers import parse_approver
from adk_confirm.bot.policy.durations import LONGEST, parse_duration, spell_duration
from adk_confirm.bot.policy.policies import (
    CallFacts,
    CallRefusal,
    CallRefusalReason,
    GoverningPolicy,
    Policies,
    Policy,
    may_show_in,
    too_many_denials,
)
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.deciding import NOON, make_policy

FULL = {
    "tools": ["deploy*", "rollback"],
    "when": "args.env == 'prod'",
    "approvers": ["group:S0ONCALL", "user:U0LEAD", "email:Release@example.com", "python:my.rota:on_call"],
    "quorum": 2,
    "allow_requester": "speakers",
    "channel": "C0DEPLOYS",
    "remind_after": "10m",
    "escalate_after": "20m",
    "escalate_to": ["group:S0LEADS"],
    "expires_after": "1h",
    "start_within": "15m",
    "edit": ["version"],
    "deny_reason": "required",
    "confirm_dialog": True,
    "redact": ["token"],
    "max_denials": 2,
    "barred": ["user:U0LEFTUS"],
    "shared_channels": False,
    "grant": "30m",
    "grant_on": ["service"],
}


def call(tool: str = "deploy", **args: object) -> CallFacts:
    return CallFacts(tool=tool, args=args, session="s1", asker="U0ASKER")  # type: ignore[arg-type]  # JSON


def index(found: GoverningPolicy | CallRefusal) -> int | None:
    assert isinstance(found, GoverningPolicy)
    return found.index


def unfit(found: GoverningPolicy | CallRefusal) -> CallRefusalReason:
    assert isinstance(found, CallRefusal)
    return found.why


class TestFirstMatchWins:
    FILE = Policies.of(
        make_policy(tools=["deploy*"], when="args.env == 'prod'"),
        make_policy(tools=["deploy*"], when="asker == 'U0ASKER'"),
        make_policy(tools=["re?und", "[xy]*"]),
        make_policy(tools=["locked"], approvers=[]),
    )

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            (call("deploy", env="prod"), 0),
            (call("deploy_api", env="stage"), 1),
            (call("refund"), 2),
            (call("xylophone"), 2),
        ],
    )
    def test_by_name_and_expression(self, facts: CallFacts, expected: int) -> None:
        assert index(self.FILE.resolve(facts)) == expected

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            (call("Deploy", env="prod"), CallRefusalReason.NO_POLICY),
            (call("lookup"), CallRefusalReason.NO_POLICY),
            (call("locked"), CallRefusalReason.NO_APPROVERS),
            (call("deploy"), CallRefusalReason.WHEN_FAILED),
        ],
    )
    def test_or_nobody_is_asked(self, facts: CallFacts, expected: CallRefusalReason) -> None:
        found = self.FILE.resolve(facts)
        assert unfit(found) is expected

    def test_a_failing_expression_is_never_the_next_policys_business(self) -> None:
        lenient = Policies.of(make_policy(when="args.amount > 1000", quorum=2), make_policy())
        found = lenient.resolve(call(amount="1500"))
        assert isinstance(found, CallRefusal)
        assert (found.why, found.index) == (CallRefusalReason.WHEN_FAILED, 0)
        assert "policy 1" in ungoverned_to_operator(found)
        assert ungoverned_to_model(found)

    def test_an_expression_sees_the_call(self) -> None:
        policy = make_policy(when="tool == 'deploy' && asker == 'U0ASKER' && session == 's1'")
        assert index(Policies.of(policy).resolve(call())) == 0


class TestEditsAndPolicies:
    FILE = Policies.of(make_policy(when="args.env == 'prod'", quorum=2), make_policy())

    def test_the_same_policy_on_both_sides(self) -> None:
        strict, lenient = self.FILE.entries
        assert self.FILE.same_policy(lenient, call(env="dev"))
        assert not self.FILE.same_policy(strict, call(env="dev"))
        assert self.FILE.same_policy(make_policy(barred=["user:U1"]), call(env="dev")), "the file's bars count anyway"
        assert not self.FILE.same_policy(make_policy(quorum=2), call(env="dev"))
        assert not self.FILE.same_policy(lenient, call(env="prod"))

    def test_an_edit_that_no_policy_can_judge_is_another_one(self) -> None:
        assert not self.FILE.same_policy(self.FILE.entries[1], call())
        assert not Policies().same_policy(self.FILE.entries[1], call())


def test_being_barred_does_not_depend_on_an_expression() -> None:
    file = Policies.of(
        make_policy(tools=["deploy"], when="args.env == 'prod'", barred=["user:U1"]),
        make_policy(tools=["*"], barred=["user:U1", "group:S1"]),
        make_policy(tools=["refund"], barred=["user:U3"]),
    )
    assert file.barred(call("deploy")) == (parse_approver("user:U1"), parse_approver("group:S1"))


class TestDenials:
    def test_two_within_ten_minutes(self) -> None:
        policy = make_policy(max_denials=2)
        minutes = [NOON - timedelta(minutes=m) for m in (1, 9)]
        assert too_many_denials(policy, minutes, NOON)
        assert not too_many_denials(policy, minutes, NOON + timedelta(minutes=1))
        assert not too_many_denials(policy, minutes[:1], NOON)
        assert not too_many_denials(make_policy(), [NOON] * 100, NOON), "without a limit there is none"


def test_cards_stay_out_of_shared_channels() -> None:
    assert may_show_in(make_policy(), shared_with_others=False) is None
    assert may_show_in(make_policy(), shared_with_others=True) is CallRefusalReason.SHARED_CHANNEL
    assert may_show_in(make_policy(), shared_with_others=None) is CallRefusalReason.CHANNEL_UNKNOWN
    assert may_show_in(make_policy(shared_channels=True), shared_with_others=True) is None


class TestFrozen:
    def test_it_comes_back_as_it_was(self) -> None:
        wordy: dict[str, object] = {
            "title": "Deploy {service}",
            "format": {"amount": "EUR"},
            "grant": {"for": "30m", "uses": 3},
        }
        for policy in (make_policy(**FULL), make_policy(**wordy)):
            assert Policy.thaw(json.loads(json.dumps(policy.freeze()))) == policy

    def test_reading_does_not_ask_the_expression(self) -> None:
        frozen: JsonObject = {**make_policy().freeze(), "when": "an expression of another time ("}
        assert Policy.thaw(frozen).when == "an expression of another time ("

    def test_a_fingerprint_follows_the_rules_not_their_place(self) -> None:
        assert make_policy(**FULL).fingerprint == make_policy(**FULL).fingerprint
        for key, other in (
            ("quorum", 1),
            ("redact", []),
            ("edit", True),
            ("expires_after", "2h"),
            ("grant", "session"),
        ):
            assert make_policy(**{**FULL, key: other}).fingerprint != make_policy(**FULL).fingerprint

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            make_policy().quorum = 3  # type: ignore[misc]  # what the type forbids is refused


class TestDurations:
    @given(st.integers(1, int(LONGEST.total_seconds())))
    def test_what_is_spelled_is_read(self, seconds: int) -> None:
        duration = timedelta(seconds=seconds)
        assert parse_duration(spell_duration(duration)) == duration

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("30s", 30), ("10m", 600), ("1h", 3600), ("24h", 86_400), ("2d", 172_800), ("1h30m", 5400)],
    )
    def test_as_people_write_them(self, text: str, seconds: int) -> None:
        assert parse_duration(text).total_seconds() == seconds

    @pytest.mark.parametrize(
        "text", ["", "10", "m", "10 minutes", "-5m", "0s", "1.5h", "30m1h", "999999999d", "１０m", 600, None]
    )
    def test_anything_else_says_what_to_write(self, text: object) -> None:
        with pytest.raises(ValueError, match="must be"):
            parse_duration(text)


@given(st.text())
def test_no_text_breaks_the_reading_of_an_approver(text: str) -> None:
    try:
        entry = parse_approver(text)
    except ValueError:
        return
    assert parse_approver(str(entry)) == entry


@pytest.mark.parametrize(
    "text",
    ["group:oncall", "user:anna", "U0LEAD", "users:U0LEAD", "email:anna", "python:rota", "python:a:b:c", "group:", 7],
)
def test_an_approver_that_means_nobody(text: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_approver(text)


class TestWording:
    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            ("title", "", "must not be empty"),
            ("title", "Pay {amount:.2f}", "can only name arguments"),
            ("title", "Pay {amount!r}", "can only name arguments"),
            ("title", "Pay {0}", "can only name arguments"),
            ("title", "Pay {a.__class__.x[0]}", "can only name arguments"),
            ("title", "Pay {amount", "lone brace"),
            ("title", "Pay\nnow", "one line"),
            ("title", 5, "must be a text"),
            ("format", "EUR", "must be a table"),
            ("format", {"amount": "euro"}, "must be a currency"),
            ("format", {"a b": "EUR"}, "names arguments"),
            ("grant", {"uses": 3}, 'needs "for"'),
            ("grant", {"for": "30m", "uses": 0}, "at least 1"),
            ("grant", {"for": "30m", "uses": True}, "at least 1"),
            ("grant", {"for": "30m", "use": 1}, 'not "use"'),
        ],
    )
    def test_what_is_wrong_is_reported(self, key: str, value: object, said: str) -> None:
        with pytest.raises(ValidationError, match=re.escape(said)):
            make_policy(**{key: value})
