"""Votes, edits, the clock, withdrawals and the host's reports in any order: there is one decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import Facts, Permission, authorise
from adk_confirm.bot.confirmation.confirmation import Confirmation, Edit, OutcomeKind, Place, State, Vote, VoteKind
from adk_confirm.bot.confirmation.decision import record_outside_answer
from adk_confirm.bot.confirmation.outcome import DueWork, begin, copy_outcome, due_work, next_due, take_back, tick
from adk_confirm.bot.confirmation.states import DECISIONS, OUTCOMES, SEEN_BY_HOSTS, Delivery, Illegal, Transition
from adk_confirm.bot.confirmation.stored_json import from_json, to_json
from adk_confirm.bot.confirmation.votes import claim_of, count, store_vote
from adk_confirm.bot.ops.reapply import put_under
from adk_confirm.bot.policy.approvers import Account, Approver, Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.runtime.jsontypes import canonical
from tests.support.deciding import (
    ANNA,
    ASKER,
    BEN,
    LEAD,
    MALLORY,
    TEAM,
    Desk,
    call_that_became,
    make_asked,
    make_policy,
)

PEOPLE = (ANNA, BEN, LEAD, MALLORY, ASKER)
GROUP = parse_approver("group:S0ONCALL")
BARRED_ANNA = (parse_approver("user:U0ANNA"),)
FILES = (
    make_policy(quorum=2, approvers=["group:S0ONCALL", "user:U0ASKER"], expires_after="1h", start_within="15m"),
    make_policy(quorum=1, approvers=["user:U0BEN"], expires_after="3h", remind_after="10m", start_within="15m"),
    make_policy(
        quorum=2,
        approvers=["group:S0ONCALL"],
        escalate_after="20m",
        escalate_to=["user:U0LEAD"],
        edit=["version"],
        deny_reason="required",
    ),
)


class Confirming(RuleBasedStateMachine):
    """The model beside it keeps what the world would see: decisions made, runs begun, who was permitted when."""

    @initialize(policy=st.sampled_from(FILES), calm=st.booleans(), chapter=st.integers(0, 4))
    def opened(self, policy: Policy, calm: bool, chapter: int) -> None:
        """The story begins at any of its chapters; on a calm day it is not ended at the first opportunity."""
        self.calm = calm
        self.desk = Desk(policy, asked=make_asked(arguments={"version": "1", "replicas": 1}))
        place = Place(channel="C1", ts="1.1")
        self.desk.row = replace(self.desk.row, places=(place,))
        self.oncall = frozenset({ANNA, BEN})
        self.decisions: list[State] = []
        self.begun: list[tuple[str, int]] = []
        self.permitted: set[str] = set()
        self.answered: list[Delivery] = []
        for who in (ANNA, BEN) if chapter else ():
            self.click(who, VoteKind.APPROVE, stale=False, at_once=True, edit=None, reason=None)
        if chapter > 1:
            self.took(begin(self.desk.row, self.answered[0], self.desk.now))
            self.begun.append((canonical(self.answered[0].arguments), 1))
            self.the_host_says(OutcomeKind.UNKNOWN if chapter > 2 else OutcomeKind.RUNNING)
        for who in (ANNA, BEN) if chapter > 3 else ():
            self.click(who, VoteKind.RUN_AGAIN, stale=False, at_once=True, edit=None, reason=None)

    def facts(self, who: Person, *, reachable: bool = True) -> Facts:
        members = self.oncall if reachable else Unresolved("group:S0ONCALL", "Slack did not answer")
        accounts = {person: Account(person, teams=frozenset({TEAM}), guest=person == MALLORY) for person in PEOPLE}
        return Facts(account=accounts[who], others=accounts, members={GROUP: members}, barred=self.desk.barred)

    def took(self, change: Transition) -> None:
        before, after = self.desk.row, change.row
        if before.state is not after.state:
            assert after.state in DECISIONS[before.state]
            self.decisions.append(after.state)
        if before.outcome != after.outcome:
            self.check_outcome(before, after)
        assert after.version >= before.version
        assert (after == before) or after.version > before.version, "no change without a new version"
        assert after.asked == before.asked
        assert after.revisions[: len(before.revisions)] == before.revisions, "a revision never changes"
        if change.delivery is not None:
            self.answered.append(change.delivery)
            assert from_json(Delivery, to_json(change.delivery)) == change.delivery
        self.desk.took(change)

    @staticmethod
    def check_outcome(before: Confirmation, after: Confirmation) -> None:
        was = before.outcome.kind if before.outcome else None
        if after.outcome is None:
            assert was is OutcomeKind.UNKNOWN, "only an unknown call runs again"
            assert after.attempt == before.attempt + 1
        else:
            lapsed_again = was is None and before.attempt > 1 and after.outcome.kind is OutcomeKind.UNKNOWN
            assert after.outcome.kind in OUTCOMES[was] or lapsed_again

    @rule(
        who=st.sampled_from(PEOPLE),
        kind=st.sampled_from(VoteKind),
        stale=st.booleans(),
        at_once=st.booleans(),
        edit=st.none()
        | st.fixed_dictionaries({}, optional={"version": st.sampled_from("123"), "replicas": st.just(9)}),
        reason=st.sampled_from([None, "", "because"]),
    )
    def click(self, who: Person, kind: VoteKind, stale: bool, at_once: bool, edit: Any, reason: str | None) -> None:
        if self.calm and kind in (VoteKind.DENY, VoteKind.WITHDRAW):
            kind = VoteKind.APPROVE
        revision = max(1, self.desk.row.revision.number - stale)
        vote = Vote(
            id=f"v{self.desk.row.version}-{len(self.desk.steps)}",
            kind=kind,
            voter=who,
            revision=revision,
            stored_at=self.desk.now,
            reason=reason,
            edit=Edit(edit) if edit is not None and kind is VoteKind.APPROVE else None,
        )
        change = store_vote(self.desk.row, vote)
        self.took(change)
        if change.row.pending_votes:
            assert store_vote(self.desk.row, change.row.pending_votes[-1]).row is self.desk.row, "delivered again"
        while at_once and self.desk.row.pending_votes:
            self.count(reachable=True)

    @precondition(lambda self: self.desk.row.pending_votes)
    @rule(reachable=st.booleans())
    def count(self, reachable: bool) -> None:
        row = self.desk.row
        vote = row.pending_votes[0]
        facts = self.facts(vote.voter, reachable=reachable)
        if isinstance(authorise(row.policy, claim_of(row, vote), facts), Permission):
            self.permitted.add(vote.id)
        self.took(count(row, vote.id, facts, self.desk.now, self.desk.in_force))
        assert vote.id not in {pending.id for pending in self.desk.row.pending_votes}

    @rule(minutes=st.sampled_from([1, 5, 12, 25, 90, 1500]), look=st.booleans())
    def time_passes(self, minutes: int, look: bool) -> None:
        self.desk.now += timedelta(minutes=minutes / 10 if self.calm else minutes)
        if look:
            self.look_at_the_clock()

    @rule()
    def look_at_the_clock(self) -> None:
        self.took(tick(self.desk.row, self.desk.now))
        left = set(due_work(self.desk.row, self.desk.now)) - {DueWork.COUNT, DueWork.DRAW}
        assert not left, "one look at the clock brings all that the clock can bring"

    @precondition(lambda self: not self.calm)
    @rule(members=st.frozensets(st.sampled_from(PEOPLE)))
    def the_group_changes(self, members: frozenset[Person]) -> None:
        self.oncall = members

    @rule(barred=st.sampled_from([(), BARRED_ANNA]))
    def somebody_is_barred(self, barred: tuple[Approver, ...]) -> None:
        self.desk.barred = barred

    @rule(policy=st.none() | st.sampled_from(FILES))
    def the_file_is_reapplied(self, policy: Policy | None) -> None:
        row = self.desk.row
        policy = FILES[0] if self.calm else policy
        policies = Policies.of(policy) if policy else Policies()
        facts = {vote.id: self.facts(vote.voter) for vote in row.approvals}
        try:
            found = policies.resolve(row.asked.facts(row.revision.arguments))
            self.took(put_under(row, found, facts, self.desk.now, policies))
        except Illegal:
            assert row.state is not State.WAITING

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def the_host_gets_an_answer(self, data: st.DataObject) -> None:
        """Any answer ever given, as a mailbox that delivers late, twice or out of order would hand it over."""
        delivery = data.draw(st.sampled_from(self.answered))
        row = self.desk.row
        try:
            self.took(begin(row, delivery, self.desk.now))
        except Illegal:
            return
        assert row.state is State.APPROVED
        assert delivery.word == ("run again" if row.attempt > 1 else "approved")
        assert row.decision is not None
        assert row.start_by is not None
        assert self.desk.now < row.start_by
        assert delivery.arguments == row.revision.arguments
        self.begun.append((canonical(delivery.arguments), delivery.attempt))

    @precondition(lambda self: self.desk.row.handed_at)
    @rule()
    def it_never_got_it(self) -> None:
        row = self.desk.row
        try:
            self.took(take_back(row, self.desk.now))
        except Illegal:
            assert row.outcome is not None
        else:
            self.begun.pop()

    @rule(kind=st.sampled_from(sorted(SEEN_BY_HOSTS)))
    def the_host_says(self, kind: OutcomeKind) -> None:
        row = self.desk.row
        if row.state is State.APPROVED and row.handed_at is None and row.outcome is None:
            return  # that is somebody else's doing, which the next rule is about
        try:
            self.took(copy_outcome(row, call_that_became(kind), self.desk.now))
        except Illegal:
            assert row.state is State.WAITING or row.unknown

    @precondition(lambda self: not self.calm or self.desk.row.state is not State.WAITING)
    @rule(confirmed=st.sampled_from([True, False, None]))
    def somebody_answers_elsewhere(self, confirmed: bool | None) -> None:
        self.took(record_outside_answer(self.desk.row, confirmed, self.desk.now))

    @rule()
    def the_card_is_drawn(self) -> None:
        row = self.desk.row
        self.desk.row = replace(row, places=tuple(replace(place, drawn_version=row.face) for place in row.places))

    @invariant()
    def one_decision(self) -> None:
        assert self.decisions in ([], [self.desk.row.state], [State.APPROVED, State.LAPSED])
        first = [d for d in self.answered if d.word == "approved"]
        assert len(first) <= 1
        if self.desk.row.state in (State.WAITING, State.ELSEWHERE):
            assert not [d for d in self.answered if d.answers]

    @invariant()
    def approved_by_enough_people_who_might(self) -> None:
        for step in self.desk.steps:
            if step.kind in (LineKind.APPROVED, LineKind.RUN_AGAIN):
                assert step.quorum is not None
                assert len(set(step.people)) >= step.quorum
        row = self.desk.row
        for vote in row.votes:
            if vote.stands_on is not None:
                assert vote.id in self.permitted

    @invariant()
    def an_attempt_begins_once(self) -> None:
        assert len(self.begun) == len(set(self.begun))

    @invariant()
    def votes_stand_on_what_their_voters_saw(self) -> None:
        row = self.desk.row
        for vote in row.approvals:
            edited = row.revision.author == vote.voter and vote.stands_on == vote.revision + 1
            assert vote.stands_on == vote.revision or edited

    @invariant()
    def an_unknown_call_is_closed_by_one_word(self) -> None:
        closing = [d for d in self.answered if not d.answers and d.word != "run again"]
        assert len(closing) <= 1

    @invariant()
    def due_in_the_past_means_owed(self) -> None:
        row, now = self.desk.row, self.desk.now
        due = next_due(row)
        assert (due is not None and due <= now) is bool(set(due_work(row, now)) - {DueWork.DRAW})
        if due is None:
            assert row.state is not State.WAITING
            assert not row.pending_votes
            assert not row.unknown

    @invariant()
    def a_row_survives_being_stored(self) -> None:
        row = replace(self.desk.row, places=())  # these are stored with the cards
        assert from_json(Confirmation, f"{to_json(self.desk.row)} ") == row, "read anew, as the text is another"


TestConfirming = Confirming.TestCase
TestConfirming.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=50)
