"""A desk without a store: clicks, the clock and the host's words go to the pure code, and it keeps the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.confirmation.authorise import Facts, Reason, Refusal
from adk_confirm.bot.confirmation.confirmation import (
    AskedCall,
    Confirmation,
    Decision,
    Edit,
    Grant,
    Outcome,
    OutcomeKind,
    OutsideAnswer,
    State,
    Vote,
    VoteKind,
    VoteState,
)
from adk_confirm.bot.confirmation.decision import open_confirmation, record_outside_answer
from adk_confirm.bot.confirmation.outcome import begin, copy_outcome, tick
from adk_confirm.bot.confirmation.states import Delivery, Step, Transition
from adk_confirm.bot.confirmation.votes import count, store_vote
from adk_confirm.bot.ops.reapply import put_under
from adk_confirm.bot.policy.approvers import Account, Approver, Members, Person
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.runtime.calls.call import Call, CallState, HeldRequest
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.wire import SessionId

TEAM = "T0ACME"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def person(user: str) -> Person:
    return Person(TEAM, user)


ASKER, ANNA, BEN, LEAD, MALLORY = map(person, ("U0ASKER", "U0ANNA", "U0BEN", "U0LEAD", "U0MALLORY"))


def make_policy(**keys: object) -> Policy:
    """A policy as the file would give it. Anna and Ben decide, unless it says otherwise."""
    given = {"tools": ["*"], "approvers": ["user:U0ANNA", "user:U0BEN"], **keys}
    return Policy.model_validate(given)


def make_asked(tool: str = "deploy", arguments: JsonObject | None = None, **more: object) -> AskedCall:
    asked = AskedCall(
        session=SessionId("oncall", "slack-T0ACME-U0ASKER", "slack-T0ACME-C1-1.1"),
        request_id="r1",
        call_id="c1",
        tool=tool,
        arguments={"version": "2.4.1", "replicas": 3} if arguments is None else arguments,
        agent="oncall",
        asked_by=ASKER,
        team=TEAM,
        speakers=frozenset({ASKER}),
    )
    return replace(asked, **more)  # type: ignore[arg-type]  # the fields of Asked, named by the test


def refused(steps: Sequence[Step]) -> Refusal | None:
    """Why the vote did not count; None if it did."""
    return next((step.refusal for step in steps if step.kind is LineKind.VOTE_REFUSED), None)


def why(refusal: Refusal | None) -> Reason | None:
    return refusal.reason if refusal else None


def full_member(who: Person) -> Account:
    return Account(who, teams=frozenset({TEAM}))


@dataclass
class Desk:
    """
    >>> desk = Desk(make_policy(quorum=2))
    >>> desk.approve(ANNA), desk.approve(BEN), str(desk.row.state)
    (None, None, 'approved')
    """

    policy: Policy
    asked: AskedCall = field(default_factory=make_asked)
    now: datetime = NOON
    members: Mapping[Approver, Members] = field(default_factory=dict)
    barred: tuple[Approver, ...] = ()
    speakers: frozenset[Person] = frozenset()
    accounts: dict[Person, Account] = field(default_factory=dict)
    policies: Policies | None = None
    row: Confirmation = field(init=False)
    steps: list[Step] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    _votes: int = 0

    def __post_init__(self) -> None:
        self.took(open_confirmation("k1", self.asked, self.policy, self.now))

    @property
    def in_force(self) -> Policies:
        return self.policies or Policies.of(self.policy)

    @property
    def kinds(self) -> list[LineKind]:
        return [step.kind for step in self.steps]

    @property
    def answer(self) -> Delivery:
        """The only answer."""
        (answer,) = (delivery for delivery in self.deliveries if delivery.answers)
        return answer

    def state(self) -> State:
        """The state. A method, because a type checker takes two reads of an attribute for the same value."""
        return self.row.state

    def took(self, change: Transition) -> None:
        self.row = change.row
        self.steps += change.steps
        if change.delivery is not None:
            self.deliveries.append(change.delivery)
        if self.row.grant is not None and self.row.grant not in self.grants:
            self.grants.append(self.row.grant)

    def facts(self, who: Person) -> Facts:
        others = {vote.voter: self.account(vote.voter) for vote in self.row.votes}
        return Facts(
            account=self.account(who), others=others, members=self.members, barred=self.barred, speakers=self.speakers
        )

    def account(self, who: Person) -> Account:
        return self.accounts.get(who, full_member(who))

    def store(
        self,
        kind: VoteKind,
        who: Person,
        *,
        revision: int | None = None,
        reason: str | None = None,
        edit: Edit | None = None,
        grant: bool = False,
    ) -> Vote:
        """Stores a click without counting it."""
        self._votes += 1
        vote = Vote(
            id=f"v{self._votes}",
            kind=kind,
            voter=who,
            revision=revision or self.row.revision.number,
            stored_at=self.now,
            reason=reason,
            edit=edit,
            grant=grant,
        )
        self.took(store_vote(self.row, vote))
        return vote

    def count(self, facts: Facts | None = None) -> Refusal | None:
        """Counts the oldest stored vote. Returns why it was refused, if it was."""
        vote = self.row.pending_votes[0]
        change = count(self.row, vote.id, facts or self.facts(vote.voter), self.now, self.in_force)
        self.took(change)
        return refused(change.steps)

    def vote(self, kind: VoteKind, who: Person, **click: Any) -> Refusal | None:
        """Stores a click and counts it at once."""
        before = len(self.steps)
        self.store(kind, who, **click)
        if self.row.pending_votes:
            return self.count()
        return refused(self.steps[before:])

    def approve(self, who: Person, revision: int | None = None, *, grant: bool = False) -> Refusal | None:
        return self.vote(VoteKind.APPROVE, who, revision=revision, grant=grant)

    def edit(self, who: Person, revision: int | None = None, **arguments: Json) -> Refusal | None:
        return self.vote(VoteKind.APPROVE, who, revision=revision, edit=Edit(arguments))

    def fill_in(self, who: Person, payload: Json) -> Refusal | None:
        return self.vote(VoteKind.APPROVE, who, edit=Edit(payload=payload))

    def deny(self, who: Person, reason: str | None = None) -> Refusal | None:
        return self.vote(VoteKind.DENY, who, reason=reason)

    def wait(self, **time: float) -> None:
        """Lets time pass, and does what is due."""
        self.now += timedelta(**time)
        self.took(tick(self.row, self.now))

    def begin(self) -> None:
        self.took(begin(self.row, self.deliveries[-1], self.now))

    def host_says(self, kind: OutcomeKind, text: str | None = None) -> None:
        self.took(copy_outcome(self.row, call_that_became(kind, text), self.now))

    def answered_elsewhere(self, confirmed: bool | None = True) -> None:
        self.took(record_outside_answer(self.row, confirmed, self.now))

    def reapply(self, *policies: Policy) -> None:
        facts = {vote.id: self.facts(vote.voter) for vote in self.row.approvals}
        in_force = Policies.of(*policies)
        found = in_force.resolve(self.row.asked.facts(self.row.revision.arguments))
        self.took(put_under(self.row, found, facts, self.now, in_force))


def call_that_became(kind: OutcomeKind, text: str | None = None, confirmed: bool | None = None) -> Call:
    """A call as its host tells of it. `text`: its result as JSON, or its error."""
    result = None if text is None else json.loads(text) if text.startswith("{") else {"result": text}
    if kind is not OutcomeKind.DONE and (text or kind is OutcomeKind.FAILED):
        result = {"error": text}
    state = CallState.DONE if kind is OutcomeKind.FAILED else CallState(kind)
    asked = (HeldRequest("r", "", confirmed=confirmed),)
    return Call("c", "", {}, "", "", state=state, asked=asked, result=result)


# What tests make of rows and lines


def without_content(line: LedgerLine) -> LedgerLine:
    """The line without its content. It keeps its place in the chain."""
    return replace(line, content=None, salt=None)


def every_state(row: Confirmation) -> Iterator[Confirmation]:
    """One confirmation for each. Each has a version of its own, so that a card is drawn for it."""
    version = row.version
    for state in State:
        for kind in (None, *OutcomeKind):
            version += 1
            yield replace(in_state(row, state, kind), version=version, face=version)


def in_state(row: Confirmation, state: State, kind: OutcomeKind | None) -> Confirmation:
    at = row.asked_at + timedelta(minutes=5)
    decision = Decision(state=state, at=at, revision=1, by=ANNA, reason="because")
    vote = Vote(
        id="v1", kind=VoteKind.APPROVE, voter=BEN, revision=1, stored_at=at, state=VoteState.STANDING, stands_on=1
    )
    ended, text = at + timedelta(seconds=42), '{"status": "deployed"}'
    outcome = Outcome(kind=kind, attempt=1, at=ended, begun_at=at, text=text, by=ANNA) if kind else None
    return replace(
        row,
        state=state,
        votes=(vote,),
        decision=None if state is State.WAITING else decision,
        outcome=outcome,
        start_by=at + timedelta(hours=1) if state in (State.APPROVED, State.LAPSED) else None,
        outside=OutsideAnswer(at=at, confirmed=True) if state is State.ELSEWHERE else None,
    )
