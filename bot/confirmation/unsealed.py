"""Handles the parts of a stored row whose fingerprints do not fit. Pure.

Somebody wrote such a part into the database. It does not count, and card and ledger say so. The confirmation goes on
under the policy in the file, which is not in the database, and people vote again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from bot.audit.fingerprint import Fingerprints
from bot.audit.ledger import LineKind
from bot.config.rules import Rules
from bot.confirmation import decision_texts
from bot.confirmation.authorise import Reason, Refusal
from bot.confirmation.decision import deny, step_of
from bot.confirmation.effects import Step, UnsealedPart
from bot.confirmation.fingerprints import (
    revision_is_sealed,
    terms_are_sealed,
    vote_is_sealed,
    with_terms,
)
from bot.confirmation.model import Confirmation, State, Vote, VoteState
from bot.confirmation.outcome import record_altered
from bot.confirmation.states import Transition, next_version
from bot.policy.model import CallRefusal, GoverningPolicy
from bot.policy.redaction import own_words

MOST_NAMED = 10

_DECIDED = frozenset(
    {
        LineKind.APPROVED,
        LineKind.GRANT_USED,
        LineKind.DENIED,
        LineKind.EXPIRED,
        LineKind.WITHDRAWN,
        LineKind.ELSEWHERE,
    }
)
_VOTES_GONE = frozenset({LineKind.VOTE_FELL, LineKind.VOTE_REFUSED})


def without_unsealed(row: Confirmation, now: datetime, rules: Rules) -> Transition:
    """The row without the parts whose fingerprints do not fit. If all fit, nothing changes. Checking twice changes
    nothing more."""
    if row.doubt is not None:
        return _resolve_doubt(row, row.doubt, now, rules)
    if row.state is State.WAITING or row.unknown:
        if not terms_are_sealed(row, rules.fingerprints):
            return _put_under_file(row, now, rules)
        if row.state is State.WAITING and not revision_is_sealed(row, rules.fingerprints):
            return _not_the_call(row, now)
    return _remove_votes(
        row, tuple(vote for vote in _open_votes(row) if not vote_is_sealed(row, vote, rules.fingerprints)), now
    )


def _resolve_doubt(row: Confirmation, happened: frozenset[LineKind], now: datetime, rules: Rules) -> Transition:
    """Handles a row that somebody changed or replaced with an older one. Its parts may have fingerprints that fit, so
    the ledger decides: a decision is not reopened, and a vote that ended does not count again."""
    row = next_version(replace(row, doubt=None), now, visible=False)
    waits = row.state is State.WAITING
    if waits and happened & _DECIDED:
        return _not_the_call(row, now)
    if row.state is State.APPROVED and row.outcome is None:
        return record_altered(row, now)
    if not waits and not row.unknown:
        row = next_version(replace(row, unsealed=True), now)
        return Transition(row=row, steps=(_alarm(row, UnsealedPart.ROW, now),))
    if LineKind.REAPPLIED in happened:
        return _put_under_file(row, now, rules)
    if row.unknown or happened & _VOTES_GONE:
        change = _remove_votes(row, _open_votes(row), now)
        return change.then(without_unsealed(change.row, now, rules))
    sound = without_unsealed(row, now, rules)
    if sound.row is not row:
        return Transition(row=row).then(sound)
    row = next_version(replace(row, unsealed=True), now)  # only where its cards are, or when to remind
    return Transition(row=row, steps=(_alarm(row, UnsealedPart.ROW, now),))


def under_policy(row: Confirmation, found: GoverningPolicy, fingerprints: Fingerprints) -> Confirmation:
    """The row under another policy. Times count from when it was asked. People who were notified are not notified
    again."""
    old, new = row.policy, found.policy
    reminded = old.remind_after is not None and row.remind_at is None
    escalated_already = row.escalated and old.escalate_to == new.escalate_to
    row = replace(
        row,
        policy=new,
        deadline=row.asked_at + new.expires_after,
        remind_at=row.asked_at + new.remind_after if new.remind_after and not reminded else None,
        escalate_at=row.asked_at + new.escalate_after if new.escalate_after else None,
        escalated=escalated_already,
    )
    return with_terms(row, fingerprints)


def _open_votes(row: Confirmation) -> tuple[Vote, ...]:
    """Votes that could still decide something."""
    live, here = row.state is State.WAITING or row.unknown, row.revision.number
    standing = (v for v in row.votes if live and v.state is VoteState.STANDING and v.stands_on == here)
    return (*row.pending_votes, *standing)


def _remove_votes(row: Confirmation, lost: tuple[Vote, ...], now: datetime) -> Transition:
    """Removes votes. Each voter who waits for a result learns that the vote does not count, whoever really gave it."""
    if not lost:
        return Transition(row=row)
    gone = {vote.id for vote in lost}
    votes = tuple(vote for vote in row.votes if vote.id not in gone)
    people = tuple(dict.fromkeys(vote.voter for vote in lost))[:MOST_NAMED]
    row = next_version(replace(row, votes=votes, unsealed=True), now)
    alarm = replace(_alarm(row, UnsealedPart.VOTES, now), people=people)
    waiting = [vote for vote in lost if vote.state is VoteState.PENDING][:MOST_NAMED]
    return Transition(row=row, steps=(alarm, *(_refusal_step(row, vote, now) for vote in waiting)))


def _put_under_file(row: Confirmation, now: datetime, rules: Rules) -> Transition:
    """Replaces a policy and asker without a fitting fingerprint. Their votes do not count either."""
    if row.state is State.WAITING and not revision_is_sealed(row, rules.fingerprints):
        return _not_the_call(row, now)
    found = rules.policies.resolve(row.asked.facts(row.revision.arguments))
    same_policy = isinstance(found, GoverningPolicy) and found.policy.fingerprint == row.policy.fingerprint
    change = _remove_votes(row, _open_votes(row), now)
    steps: tuple[Step, ...] = change.steps
    if row.sealed and not steps:
        steps = (_alarm(row, UnsealedPart.TERMS, now),)
    row = replace(change.row, unsealed=row.unsealed or bool(steps))
    row = next_version(row, now, visible=bool(steps) or not same_policy)
    if not isinstance(found, GoverningPolicy):
        return _leave_to_nobody(row, now, found, rules.fingerprints).after(*steps)
    row = under_policy(row, found, rules.fingerprints)
    moved = () if same_policy else (replace(step_of(row, LineKind.REAPPLIED, now), quorum=row.policy.quorum),)
    return Transition(row=row, steps=(*steps, *moved))


def _leave_to_nobody(row: Confirmation, now: datetime, found: CallRefusal, fingerprints: Fingerprints) -> Transition:
    """No policy in the file covers the call. If it waits, it is denied; an unknown outcome can't be answered any
    more."""
    step = replace(step_of(row, LineKind.REAPPLIED, now), text=own_words(decision_texts.ungoverned(found)))
    if row.state is State.WAITING:
        return deny(row, now, None, decision_texts.ungoverned_to_model(found)).after(step)
    nobody = row.policy.model_copy(update={"approvers": (), "escalate_to": ()})
    return Transition(row=with_terms(replace(row, policy=nobody), fingerprints), steps=(step,))


def _not_the_call(row: Confirmation, now: datetime) -> Transition:
    """The row does not hold the call that people were asked about, so the call does not run."""
    change = deny(replace(row, unsealed=True), now, None, decision_texts.ALTERED_TO_MODEL)
    return change.after(_alarm(row, UnsealedPart.CALL, now))


def _alarm(row: Confirmation, what: UnsealedPart, now: datetime) -> Step:
    return replace(step_of(row, LineKind.UNSEALED, now), text=what)


def _refusal_step(row: Confirmation, vote: Vote, now: datetime) -> Step:
    refusal = Refusal(reason=Reason.UNSEALED)
    step = replace(step_of(row, LineKind.VOTE_REFUSED, now), who=vote.voter, revision=vote.revision)
    return replace(step, text=vote.kind, refusal=refusal, way=vote.way)
