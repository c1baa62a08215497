"""The decision on a confirmation: opened, approved, denied, withdrawn, answered elsewhere. Pure.

    waiting → approved | denied | expired | withdrawn | elsewhere        approved → lapsed
    (none) → running → done | failed | refused | unknown
    unknown → it happened | it did not | nobody knows | done | failed | (none), as attempt n + 1

`states.py` holds these tables. The store calls these functions, each in a transaction of its own:

1. `open_confirmation(confirmation_id, asked, policy, now)` when a call is held: the row and its first
   step.
2. `votes.store_vote(row, vote)` on a click, then
   `votes.count(row, vote.id, facts, now, policies)`, oldest vote first. Where `votes.refusal_without_asking` has an
   answer, `facts` may be `None`.
3. `outcome.tick(row, now)` at the time that `outcome.next_due(row)` says: reminder, escalation, expiry, an approval
   that did not start in time, "nobody knows".
4. `outcome.begin(row, delivery, now)` right before a host gets an approval: `Illegal` means that the call must not run
   any more, and the letter is dropped. `outcome.take_back(row, now)` if the host did not get the approval after all.
5. `outcome.observe(row, seen, now)` with what the host says about the call, any number of times;
   `record_outside_answer(row, confirmed, now)` when somebody answered outside of this app.

Each returns a `Transition`: the new row, steps for ledger and thread, and, after a decision, the `delivery` for the
session's mailbox, which is stored in the same transaction.

>>> from datetime import UTC
>>> from adk_confirm.bot.confirmation.authorise import Facts
>>> from adk_confirm.bot.policy.approvers import Account
>>> from adk_confirm.bot.policy.policies import Policies
>>> from adk_confirm.bot.confirmation.confirmation import Vote, VoteKind
>>> from adk_confirm.runtime.wire import SessionId
>>> from adk_confirm.bot.confirmation.votes import count, store_vote
>>> lead, noon = Person("T1", "U0LEAD"), datetime(2030, 1, 1, 12, tzinfo=UTC)
>>> policy = Policy(tools=("deploy",), approvers=("user:U0LEAD",))
>>> asked = AskedCall(session=SessionId("oncall", "slack-T1-U0ASKER", "slack-T1-C1-1.2"), request_id="r1",
...               call_id="c1", tool="deploy", arguments={"version": "2.4.1"}, agent="oncall",
...               asked_by=Person("T1", "U0ASKER"), team="T1")
>>> row = open_confirmation("k1", asked, policy, noon).row
>>> vote = Vote(id="v1", kind=VoteKind.APPROVE, voter=lead, revision=1, stored_at=noon)
>>> row = store_vote(row, vote).row
>>> facts = Facts(account=Account(lead, teams=frozenset({"T1"})))
>>> change = count(row, "v1", facts, noon, Policies.of(policy))
>>> change.row.state, [str(step.kind) for step in change.steps], change.delivery.word
(<State.APPROVED: 'approved'>, ['approval', 'approved'], 'approved')
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Literal

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import (
    AskedCall,
    Confirmation,
    Grant,
    OutsideAnswer,
    Revision,
    State,
    VoteKind,
)
from adk_confirm.bot.confirmation.edits import amendments
from adk_confirm.bot.confirmation.grants import make_grant
from adk_confirm.bot.confirmation.states import Delivery, Illegal, Step, Transition, change_decision, next_version
from adk_confirm.bot.confirmation.stored_json import check_json
from adk_confirm.bot.policy.approvers import Person, is_operator
from adk_confirm.bot.policy.policies import Policy
from adk_confirm.bot.policy.redaction import MaskedText, own_words
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.jsontypes import Json, canonical


def open_confirmation(confirmation_id: str, asked: AskedCall, policy: Policy, now: datetime) -> Transition:
    """Opens a confirmation under the policy that governs the request, as the policy is now."""
    check_json(asked.arguments, f"The call to {asked.tool}")
    check_json(asked.payload, f"The payload that {asked.tool} asks for")
    first = Revision(
        number=1,
        arguments=asked.arguments,
        payload=asked.payload,
        at=now,
    )
    row = Confirmation(
        id=confirmation_id,
        asked=asked,
        policy=policy,
        asked_at=now,
        revisions=(first,),
        deadline=now + policy.expires_after,
        attempt=asked.attempts + 1,
        remind_at=now + policy.remind_after if policy.remind_after else None,
        escalate_at=now + policy.escalate_after if policy.escalate_after else None,
        changed_at=now,
    )
    shown, hidden = row.redactor.mask_call(asked.arguments)
    asking = replace(
        step_of(row, LineKind.ASKED, now),
        who=asked.asked_by,
        quorum=policy.quorum,
        text=row.redactor.mask_text(asked.hint) if asked.hint else None,
        arguments=shown,
        hidden=hidden,
        preview=digest_of(row.redactor.mask(asked.preview)) if asked.preview else None,
        until=row.deadline,
        way=f"caller {asked.agent}" if asked.by_caller else None,
    )
    return Transition(row=row, steps=(asking,))


def digest_of(masked: Json) -> MaskedText:
    return own_words(hashlib.sha256(canonical(masked).encode("utf-8", "surrogatepass")).hexdigest())


def approve(row: Confirmation, now: datetime) -> Transition:
    """Approves if the counted votes on the current revision are from enough *people*. Otherwise raises `Illegal`."""
    voters = row.voters(VoteKind.APPROVE)
    if len(voters) < row.policy.quorum:
        raise Illegal(row, "approve", f" with {len(voters)} of {row.policy.quorum} votes")
    amended = amendments(row)
    if amended and not row.asked.wants_payload and not row.asked.can_edit:
        wish = decision_texts.wanted_otherwise_to_model(row.asked.tool, amended)
        return refuse(row, State.DENIED, LineKind.DENIED, now, voters[-1], wish)
    grant = make_grant(row, now)
    row = change_decision(row, State.APPROVED, now, by=voters[-1])
    row = replace(row, start_by=now + row.policy.start_within, grant=grant)
    steps = [
        replace(
            step_of(row, LineKind.APPROVED, now),
            people=voters,
            votes=len(voters),
            quorum=row.policy.quorum,
            preview=digest_of(row.redactor.mask(row.revision.preview)) if row.revision.preview else None,
            until=row.start_by,
        )
    ]
    if grant is not None:
        granting = step_of(row, LineKind.GRANTED, now)
        steps.append(replace(granting, people=grant.given_by, until=grant.until, grant=grant.id))
    return Transition(row=row, steps=tuple(steps), delivery=delivery_of(row, "approved"))


def approve_by_grant(confirmation_id: str, asked: AskedCall, policy: Policy, now: datetime, grant: Grant) -> Transition:
    """Approves a request that a grant covers, without asking anybody."""
    row = open_confirmation(confirmation_id, asked, policy, now).row
    row = change_decision(row, State.APPROVED, now, by=grant.given_by[-1])
    row = replace(row, start_by=now + policy.start_within, by_grant=grant.id)
    shown, hidden = row.redactor.mask_call(asked.arguments)
    step = replace(
        step_of(row, LineKind.GRANT_USED, now),
        who=asked.asked_by,
        people=grant.given_by,
        arguments=shown,
        hidden=hidden,
        until=row.start_by,
        grant=grant.id,
    )
    return Transition(row=row, steps=(step,), delivery=delivery_of(row, "approved"))


def revoke(row: Confirmation, now: datetime, by: Person, said: str | None = None) -> Transition:
    """Ends the grant that came with an approval. Calls that it let through stay approved. `said`: the person's
    reason."""
    if row.grant is None:
        raise Illegal(row, "revoke")
    row = next_version(replace(row, grant=None), now)
    masked_reason = row.redactor.mask_text(said) if said else None
    step = replace(step_of(row, LineKind.GRANT_REVOKED, now), who=by, grant=row.id, text=masked_reason)
    return Transition(row=row, steps=(step,))


def deny(row: Confirmation, now: datetime, by: Person | None, reason: str | None) -> Transition:
    """Denies. One Deny is enough. `by` is `None` when the policies leave nobody who could approve."""
    return refuse(row, State.DENIED, LineKind.DENIED, now, by, reason)


def withdraw(row: Confirmation, now: datetime, by: Person, said: str | None = None) -> Transition:
    """Withdraws the request. `said`: the operator's own reason, for the agent and the ledger."""
    reason = (
        decision_texts.withdrawn_by_operator_to_model(said) if is_operator(by) else decision_texts.WITHDRAWN_TO_MODEL
    )
    reason = decision_texts.QUESTION_WITHDRAWN_TO_MODEL if row.asked.question else reason
    change = refuse(row, State.WITHDRAWN, LineKind.WITHDRAWN, now, by, reason)
    masked_reason = row.redactor.mask_text(said) if said else None
    return replace(change, steps=tuple(replace(step, text=masked_reason) for step in change.steps))


def close_asked_anew(row: Confirmation, now: datetime) -> Transition:
    """Ends a confirmation whose answer a newer request would get. The agent gets no message."""
    if row.state is not State.WAITING:
        return Transition(row=row)
    closed = refuse(row, State.WITHDRAWN, LineKind.ASKED_ANEW, now, None, decision_texts.ASKED_ANEW)
    return replace(closed, delivery=None)


def record_outside_answer(row: Confirmation, confirmed: bool | None, now: datetime) -> Transition:
    """Records that somebody answered outside of this app. This raises an alarm once, whatever was decided here."""
    if row.outside is not None:
        return Transition(row=row)
    step = replace(step_of(row, LineKind.ELSEWHERE, now), yes=confirmed, text=row.state)
    if row.state is State.WAITING:
        row = change_decision(row, State.ELSEWHERE, now)
    row = next_version(replace(row, outside=OutsideAnswer(at=now, confirmed=confirmed)), now)
    return Transition(row=row, steps=(step,))


def refuse(
    row: Confirmation, state: State, line: LineKind, now: datetime, by: Person | None, reason: str | None
) -> Transition:
    """Ends the confirmation without an approval. The session gets a denial with the reason."""
    row = change_decision(row, state, now, by=by, reason=reason)
    step = replace(step_of(row, line, now), who=by, reason=row.redactor.mask_text(reason) if reason else None)
    return Transition(row=row, steps=(step,), delivery=delivery_of(row, "denied", reason))


def step_of(row: Confirmation, kind: LineKind, now: datetime) -> Step:
    """A step of this kind with the fields that all steps have."""
    return Step(kind=kind, at=now, revision=row.revision.number, attempt=row.attempt)


def delivery_of(row: Confirmation, word: Word | Literal["approved", "denied"], reason: str | None = None) -> Delivery:
    """The message to the session: the answer to a request, or what people say about an unknown outcome."""
    current = row.revision
    notes = "\n".join(vote.reason for vote in row.approvals if vote.reason) if word == "approved" else ""
    made = Delivery(
        word=word,
        reason=reason or notes or None,
        arguments=current.arguments,
        revision=current.number,
        attempt=row.attempt,
        trace=row.asked.trace,
    )
    sent = current.payload if row.asked.wants_payload else amendments(row)
    return replace(made, payload=sent, preview=current.preview) if made.approves else made
