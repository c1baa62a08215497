"""Votes: stored first, then counted in the order in which they were stored. Pure.

In between, Slack is asked about the voter. A vote counts from the time at which it was stored: a confirmation does not
expire while an earlier vote waits to be counted. Withdrawals and answers about an unknown outcome are handled in the
same way, so the first stored click comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from adk_confirm.blocks.shown import ABSENT
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import (
    Claim,
    Facts,
    Permission,
    Reason,
    Refusal,
    Ruling,
    authorise,
    people_of,
    to_look_up,
)
from adk_confirm.bot.confirmation.confirmation import Confirmation, Revision, State, Vote, VoteKind, VoteState
from adk_confirm.bot.confirmation.decision import approve, deny, digest_of, revoke, step_of, withdraw
from adk_confirm.bot.confirmation.edits import EditedCall, apply_edit, check_edit
from adk_confirm.bot.confirmation.outcome import run_again, settle
from adk_confirm.bot.confirmation.states import Illegal, Step, Transition, next_version
from adk_confirm.bot.confirmation.stored_json import check_json
from adk_confirm.bot.policy.approvers import Account, Person, Unresolved, is_operator
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject


def store_vote(row: Confirmation, vote: Vote) -> Transition:
    """Stores a click before anything is looked up. A vote that can't count any more is refused at once, with a step.

    Storing the same vote again changes nothing, since Slack may deliver a click twice.
    """
    if any(known.id == vote.id or _is_repeat(known, vote) for known in row.votes):
        return Transition(row=row)
    if vote.state is not VoteState.PENDING or vote.stands_on is not None:
        raise Invalid("A vote is stored before it is counted.")
    vote = replace(vote, reason=(vote.reason or "").strip() or None)
    if vote.edit is not None:
        check_json(vote.edit.arguments, "The edit")
        check_json(vote.edit.payload, "The payload")
    refusal = refusal_without_asking(row, vote)
    if refusal is not None:
        return _reject(row, vote, refusal, vote.stored_at)
    return Transition(row=next_version(replace(row, votes=(*row.votes, vote)), vote.stored_at, visible=False))


def _is_repeat(waiting: Vote, vote: Vote) -> bool:
    """Whether the same button was pressed again before the first press was counted. Both presses
    are answered when the first is counted."""
    return waiting.state is VoteState.PENDING and vote.way == "button" and _content_of(waiting) == _content_of(vote)


def _content_of(vote: Vote) -> tuple[object, ...]:
    return vote.voter, vote.kind, vote.revision, vote.way, vote.reason, vote.edit, vote.grant


def refusal_without_asking(row: Confirmation, vote: Vote) -> Refusal | None:
    """Why a vote can't count, as far as the row alone shows. `None`: the voter's rights must be looked up."""
    match vote.kind:
        case VoteKind.APPROVE | VoteKind.DENY | VoteKind.WITHDRAW:
            refusal = _too_late(row, vote)
        case VoteKind.HAPPENED | VoteKind.DID_NOT | VoteKind.RUN_AGAIN:
            refusal = _nothing_to_settle(row, vote)
        case VoteKind.REVOKE:
            refusal = _nothing_to_revoke(row, vote)
        case _:
            assert_never(vote.kind)
    if refusal is not None or vote.kind in (VoteKind.WITHDRAW, VoteKind.REVOKE):
        return refusal
    if vote.revision != row.revision.number:
        return Refusal(reason=Reason.OLDER_REVISION)
    if vote.kind is VoteKind.DENY and vote.reason is None and row.policy.deny_reason == "required":
        return Refusal(reason=Reason.REASON_WANTED)
    approves = vote.kind is VoteKind.APPROVE and not _only_edits(row, vote)
    if approves and vote.reason is None and row.policy.approve_note == "required":
        return Refusal(reason=Reason.NOTE_WANTED)
    if approves and row.lacks_preview:
        return Refusal(reason=Reason.NO_PREVIEW)
    if vote.kind is VoteKind.APPROVE and vote.edit is None and row.asked.wants_payload and not row.answered:
        return Refusal(reason=Reason.PAYLOAD_WANTED)
    repeats = any(earlier.voter.is_also(vote.voter) for earlier in row.standing_votes(vote.kind))
    if repeats and not _edit_of(row, vote).changes:
        return Refusal(reason=Reason.ALREADY_VOTED)
    return None


def needs_asking(row: Confirmation, vote: Vote) -> bool:
    """Whether `count` needs facts for this vote. Not for a withdrawal by the asker, or a giver who revokes their grant:
    the row says who they are."""
    own = vote.kind is VoteKind.REVOKE and (vote.voter in row.givers or is_operator(vote.voter))
    return vote.kind is not VoteKind.WITHDRAW and not own and refusal_without_asking(row, vote) is None


def hypothetical_vote(row: Confirmation, person: Person, at: datetime, kind: VoteKind = VoteKind.APPROVE) -> Vote:
    """A vote that nobody gave and that is never stored. It is used to find out whether such a vote would count."""
    return Vote(id="hypothetical", kind=kind, voter=person, revision=row.revision.number, stored_at=at)


def best_case_facts(row: Confirmation, vote: Vote) -> Facts:
    """The best that Slack could say about a voter: a full member who is in every group and barred from nothing. Whoever
    is refused with these facts, such as the asker, is refused whatever Slack says."""
    voter, barred = vote.voter, row.policy.barred
    account = Account(voter, teams=frozenset({row.asked.team}))
    named = to_look_up(row.policy, escalated=True)
    members = {entry: frozenset[Person]() if entry in barred else frozenset({voter}) for entry in named}
    return Facts(account=account, members=members)


def waits_for_slack(row: Confirmation, vote: Vote, facts: Facts) -> float | None:
    """Seconds until the next try, if a vote can't be counted only because of Slack's rate limit."""
    verdicts = [authorise(row.policy, claim_of(row, vote), facts), *_check_again(row, vote, facts).values()]
    unasked = any(isinstance(one, Refusal) and one.reason is Reason.CANNOT_ASK for one in verdicts)
    return facts.after if unasked else None


def completing_votes(row: Confirmation, vote: Vote) -> tuple[Vote, ...]:
    """The counted votes that make the quorum together with this one. Their authors' rights may be days old, so they are
    looked up again before a decision."""
    if vote.kind not in (VoteKind.APPROVE, VoteKind.RUN_AGAIN) or _edit_of(row, vote).changes:
        return ()
    standing = row.standing_votes(vote.kind)
    accounts = {one.voter.user for one in (*standing, vote)}
    return standing if len(accounts) >= row.policy.quorum else ()


def _check_again(row: Confirmation, vote: Vote, facts: Facts) -> dict[str, Ruling]:
    """Whether each vote of the quorum could still be given now, by vote id."""
    return {
        one.id: authorise(row.policy, claim_of(row, one), facts.about(one.voter)) for one in completing_votes(row, vote)
    }


def claim_of(row: Confirmation, vote: Vote) -> Claim:
    """How the voter relates to the confirmation. The escalation counts if it came before the vote was stored."""
    return Claim(
        act=vote.kind,
        voter=vote.voter,
        team=row.asked.team,
        asked_by=row.asked.asked_by,
        speakers=row.asked.speakers,
        escalated=row.escalate_at is not None and vote.stored_at >= row.escalate_at,
        givers=row.givers,
    )


def count(row: Confirmation, vote_id: str, facts: Facts | None, now: datetime, policies: Policies) -> Transition:
    """Counts the oldest stored vote: it is refused, counted, or decides. `facts` are about its voter, looked up just
    now.

    First, the votes of people who were barred since are removed. If this vote completes the quorum, so are the votes of
    everybody who may not decide any more. If their rights can't be looked up, this vote is refused, and the quorum
    waits for another.
    """
    pending = row.pending_votes
    if not pending or pending[0].id != vote_id:
        raise Illegal(row, "count", f": vote {vote_id} is not the oldest one stored")
    vote = pending[0]
    refusal = refusal_without_asking(row, vote)
    if refusal is not None:
        return _reject(row, vote, refusal, now)
    if facts is None:
        if needs_asking(row, vote):
            raise Illegal(row, "count", ": who may decide now was not asked")
        facts = Facts(account=Unresolved(vote.voter.user, "it was not asked"))
    verdict = authorise(row.policy, claim_of(row, vote), facts)
    row, fallen = drop_votes(row, dict.fromkeys(_votes_of_barred(row, facts), Refusal(reason=Reason.BARRED)), now)
    if isinstance(verdict, Refusal):
        return _reject(row, vote, verdict, now).after(*fallen)
    lost = {id_: one for id_, one in _check_again(row, vote, facts).items() if isinstance(one, Refusal)}
    unasked = next((one for one in lost.values() if one.reason is Reason.CANNOT_ASK), None)
    if unasked is not None:
        return _reject(row, vote, unasked, now).after(*fallen)
    row, fallen_too = drop_votes(row, lost, now)
    return _apply(row, vote, verdict, now, policies).after(*fallen, *fallen_too)


def _too_late(row: Confirmation, vote: Vote) -> Refusal | None:
    repeats = any(earlier.voter.is_also(vote.voter) for earlier in row.approvals)
    if row.state is State.APPROVED and repeats and vote.kind is VoteKind.APPROVE and vote.way == "button":
        return Refusal(reason=Reason.ALREADY_VOTED)  # a form may say something else than what was counted
    if row.state is not State.WAITING:
        return Refusal(reason=Reason.TOO_LATE, state=str(row.state))
    if vote.stored_at >= row.deadline:
        return Refusal(reason=Reason.TOO_LATE, state=str(State.EXPIRED))
    return None


def _nothing_to_settle(row: Confirmation, vote: Vote) -> Refusal | None:
    outcome = str(row.outcome.kind) if row.outcome else None
    late = row.unknown_until is None or vote.stored_at >= row.unknown_until
    foreign = vote.kind is VoteKind.RUN_AGAIN and row.state is not State.APPROVED
    if not row.unknown or late or foreign:
        return Refusal(reason=Reason.NOTHING_TO_SETTLE, state=outcome)
    return None


def _nothing_to_revoke(row: Confirmation, vote: Vote) -> Refusal | None:
    over = row.grant_until is None or vote.stored_at >= row.grant_until
    return Refusal(reason=Reason.NOTHING_TO_REVOKE) if over else None


_STALE = (Reason.OLDER_REVISION, Reason.TOO_LATE, Reason.NOTHING_TO_SETTLE, Reason.NOTHING_TO_REVOKE)


def _reject(row: Confirmation, vote: Vote, refusal: Refusal, now: datetime) -> Transition:
    """Removes a refused vote from the row; the ledger keeps it. If the voter saw an old card, it is drawn again."""
    stale = refusal.reason in _STALE or row.state is not State.WAITING
    votes = tuple(other for other in row.votes if other.id != vote.id)
    row = next_version(replace(row, votes=votes), now, visible=stale)
    step = replace(
        step_of(row, LineKind.VOTE_REFUSED, now),
        who=vote.voter,
        revision=vote.revision,
        text=vote.kind,
        refusal=refusal,
        way=vote.way,
    )
    return Transition(row=row, steps=(step,))


def _apply(row: Confirmation, vote: Vote, permitted: Permission, now: datetime, policies: Policies) -> Transition:
    match vote.kind:
        case VoteKind.APPROVE:
            return _approval(row, vote, permitted, now, policies)
        case VoteKind.DENY:
            return deny(_count_vote(row, vote, now), now, vote.voter, vote.reason)
        case VoteKind.WITHDRAW:
            return withdraw(_count_vote(row, vote, now), now, vote.voter, vote.reason)
        case VoteKind.HAPPENED:
            return settle(_count_vote(row, vote, now), "it happened", now, vote.voter, vote.reason)
        case VoteKind.DID_NOT:
            return settle(_count_vote(row, vote, now), "it did not", now, vote.voter, vote.reason)
        case VoteKind.RUN_AGAIN:
            row = _count_vote(row, vote, now)
            step = _vote_step(row, vote, permitted, LineKind.RUN_AGAIN_VOTE, now)
            enough = len(row.voters(VoteKind.RUN_AGAIN)) >= row.policy.quorum
            return run_again(row, now).after(step) if enough else Transition(row=row, steps=(step,))
        case VoteKind.REVOKE:
            return revoke(_count_vote(row, vote, now), now, vote.voter, vote.reason)
    assert_never(vote.kind)


def _approval(row: Confirmation, vote: Vote, permitted: Permission, now: datetime, policies: Policies) -> Transition:
    """Counts an approval for the revision. One with an edit makes the next revision and is its only vote. But if people
    have still to see what the edited call would do, it is no vote for that revision."""
    fallen: tuple[Step, ...] = ()
    after = _edit_of(row, vote)
    if vote.edit is not None:
        refusal = check_edit(row, vote.edit, policies)
        if refusal is not None:
            return _reject(row, vote, refusal, now)
    only_edits = _only_edits(row, vote)
    if after.changes:
        row, fallen = drop_votes(row, {standing.id: None for standing in row.approvals}, now)
        row = _count_vote(row, vote, now, VoteState.FALLEN) if only_edits else row
        number, arguments, payload = row.revision.number + 1, after.arguments, after.payload
        edited = Revision(number=number, arguments=arguments, payload=payload, author=vote.voter, at=now)
        row = replace(row, revisions=(*row.revisions, edited))
    row = row if only_edits else _count_vote(row, vote, now)
    step = _vote_step(row, vote, permitted, LineKind.EDITED if after.changes else LineKind.APPROVAL, now)
    if after.changes:
        before = {change.path: change.old for change in after.changes if change.old is not ABSENT}
        made = {change.path: None if change.new is ABSENT else change.new for change in after.changes}
        mask = row.redactor.mask_call
        step = replace(step, before=mask(before)[0], after=mask(made)[0])
    return approve_if_enough(row, now).after(step, *fallen)


def _only_edits(row: Confirmation, vote: Vote) -> bool:
    """Whether the vote only edits the call: people have to see what the edited call would do before they approve."""
    return row.asked.previews_edits and bool(_edit_of(row, vote).changes)


def take_preview(row: Confirmation, made: JsonObject, now: datetime) -> Transition:
    """Stores the preview of the edited call, which people can approve from now on. The ledger line about it makes
    older copies of the row void: if somebody put one back, the preview would be made anew, while the cards still show
    this one."""
    seen = replace(row.revision, preview=made, at=now)
    step = replace(step_of(row, LineKind.PREVIEWED, now), preview=digest_of(row.redactor.mask(made)))
    return Transition(row=next_version(replace(row, revisions=(*row.revisions[:-1], seen)), now), steps=(step,))


def approve_if_enough(row: Confirmation, now: datetime) -> Transition:
    enough = len(row.voters(VoteKind.APPROVE)) >= row.policy.quorum
    return approve(row, now) if enough else Transition(row=row)


def _edit_of(row: Confirmation, vote: Vote) -> EditedCall:
    current = row.revision
    return apply_edit(row, vote.edit) if vote.edit else EditedCall(current.arguments, current.payload, ())


def _count_vote(row: Confirmation, vote: Vote, now: datetime, state: VoteState = VoteState.STANDING) -> Confirmation:
    here = row.revision.number
    counted = replace(vote, state=state, stands_on=here, heard=row.version + 1)
    votes = tuple(counted if other.id == vote.id else other for other in row.votes)
    return next_version(replace(row, votes=votes), now)


def _vote_step(row: Confirmation, vote: Vote, permitted: Permission, kind: LineKind, now: datetime) -> Step:
    """A step with the number of votes now, and the entry that permitted the person."""
    return replace(
        step_of(row, kind, now),
        who=vote.voter,
        votes=len(row.voters(vote.kind)),
        quorum=row.policy.quorum,
        entries=(str(permitted.by),) if permitted.by else (),
        way=vote.way,
        reason=row.redactor.mask_text(vote.reason) if vote.reason else None,
        seconds=_could_see(row, vote) if kind is LineKind.APPROVAL else None,
    )


def _could_see(row: Confirmation, vote: Vote) -> float:
    """For how many seconds the voter could see the call, at most: from when there was the revision and, by Slack's
    time, the card that they pressed."""
    ts = vote.seat.message if vote.seat else ""
    posted = float(ts) if _TS.fullmatch(ts) else 0.0
    return max(0.0, vote.stored_at.timestamp() - max(row.revision.at.timestamp(), posted))


_TS = re.compile(r"\d{1,12}\.\d+", re.ASCII)


def _votes_of_barred(row: Confirmation, facts: Facts) -> tuple[str, ...]:
    """The counted votes of people who are barred now. If it can't be looked up whom the policy bars, these votes stand,
    and no new vote counts."""
    barred = [
        people
        for entry in (*row.policy.barred, *facts.barred)
        if not isinstance(people := people_of(entry, row.asked.team, facts.members), Unresolved)
    ]
    standing = (*row.approvals, *row.standing_votes(VoteKind.RUN_AGAIN))
    return tuple(
        vote.id for vote in standing if any(vote.voter.is_also(person) for people in barred for person in people)
    )


def drop_votes(
    row: Confirmation, lost: Mapping[str, Refusal | None], now: datetime
) -> tuple[Confirmation, tuple[Step, ...]]:
    """Removes these votes, by id, with the reason. A vote that an edit ended needs no reason."""
    if not lost:
        return row, ()
    steps = tuple(
        replace(step_of(row, LineKind.VOTE_FELL, now), who=vote.voter, text=vote.kind, refusal=lost[vote.id])
        for vote in row.votes
        if vote.id in lost
    )
    votes = tuple(replace(vote, state=VoteState.FALLEN) if vote.id in lost else vote for vote in row.votes)
    return next_version(replace(row, votes=votes), now), steps
