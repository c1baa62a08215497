"""Makes and checks fingerprints of the stored parts of a confirmation: what was asked, each vote, the decision. Pure.

Somebody who can write to the database could add a vote or change the policy. So each part gets a fingerprint when it
comes in, with a key that is not in the database: the terms when people are asked, a vote in the transaction that takes
Slack's signed request, the decision when votes that count make it. A part counts only if its fingerprint fits.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache

from pydantic import TypeAdapter

from bot.audit.fingerprint import Fingerprints
from bot.audit.ledger import stamp
from bot.confirmation.edits import EditedCall, apply_edit
from bot.confirmation.exact_json import check_json
from bot.confirmation.model import AskedCall, Confirmation, Revision, Vote, VoteKind, VoteState
from bot.policy.approvers import Person
from runtime.jsontypes import Json, JsonObject, canonical


@cache
def _asked() -> TypeAdapter[AskedCall]:
    """Made at its first use, since a start does not need it."""
    return TypeAdapter(AskedCall)


# Terms: what was asked, and under which policy


def with_terms(row: Confirmation, fingerprints: Fingerprints) -> Confirmation:
    return replace(row, sealed=fingerprints.within("terms").of(_row_terms(row)))


def terms_are_sealed(row: Confirmation, fingerprints: Fingerprints) -> bool:
    return fingerprints.within("terms").matches(_row_terms(row), row.sealed)


def _row_terms(row: Confirmation) -> JsonObject:
    """What was asked. A key that a later version adds is left out while it has its default, so that older fingerprints
    still fit."""
    asked: JsonObject = _asked().dump_python(row.asked, mode="json", exclude_defaults=True, exclude={"speakers"})
    return {
        "confirmation": row.id,
        "asked": asked,
        "speakers": [_person(speaker) for speaker in sorted(row.asked.speakers)],
        "policy": row.policy.fingerprint,
        "asked_at": _instant(row.asked_at),
        "deadline": _instant(row.deadline),
        "escalate_at": _instant(row.escalate_at),
    }


# Revisions


def revision_by_fingerprint(row: Confirmation, fingerprint: str) -> Revision | None:
    """The first revision with this fingerprint. Later revisions may repeat it if an outcome is unknown."""
    return next((revision for revision in row.revisions if revision.fingerprint == fingerprint), None)


def revision_is_sealed(row: Confirmation, fingerprints: Fingerprints) -> bool:
    """Whether the fingerprint fits the current revision and its number, so that no earlier revision was restored."""
    revision = row.revision
    return row.asked.has_fingerprint(
        fingerprints, revision.arguments, revision.payload, revision.number, revision.fingerprint
    )


# Votes


def with_fingerprint(vote: Vote, row: Confirmation, fingerprints: Fingerprints) -> Vote:
    """The vote with its fingerprint, for this confirmation and for the call that its revision held at that time."""
    if vote.edit is not None:
        check_json(vote.edit.arguments, "The edit")
        check_json(vote.edit.payload, "The payload")
    revision = _revision_numbered(row, vote.revision)
    vote = replace(vote, reason=(vote.reason or "").strip() or None, of=revision.fingerprint if revision else "")
    return replace(vote, sealed=fingerprints.within("vote").of(_vote_terms(row, vote)))


def vote_is_sealed(row: Confirmation, vote: Vote, fingerprints: Fingerprints) -> bool:
    """Whether somebody gave this vote through this app, on the call for which it counts here."""
    if not fingerprints.within("vote").matches(_vote_terms(row, vote), vote.sealed):
        return False
    given_on = _revision_numbered(row, vote.revision)
    if vote.state is VoteState.PENDING:
        return vote.stands_on is None and (given_on is None or vote.of == given_on.fingerprint)
    if given_on is None or vote.of != given_on.fingerprint:
        return False
    after = _edited_call(row, vote)
    if after is None:
        return vote.stands_on == vote.revision
    made = _revision_numbered(row, vote.revision + 1)
    if made is None or vote.stands_on != made.number or made.author != vote.voter:
        return False
    return canonical([made.arguments, made.payload]) == canonical([after.arguments, after.payload])


def voters(row: Confirmation, kind: VoteKind, fingerprints: Fingerprints) -> tuple[Person, ...]:
    """The people who make the quorum: each account once, by votes whose fingerprints fit. Only these make a
    decision."""
    sound = tuple(vote for vote in row.votes if vote.kind is not kind or vote_is_sealed(row, vote, fingerprints))
    return replace(row, votes=sound).voters(kind)


def _edited_call(row: Confirmation, vote: Vote) -> EditedCall | None:
    """The call that results from the vote's edit, or None if it changes nothing."""
    if vote.edit is None:
        return None
    after = apply_edit(replace(row, revisions=row.revisions[: vote.revision]), vote.edit)
    return after if after.changes else None


def _revision_numbered(row: Confirmation, number: int) -> Revision | None:
    found = row.revisions[number - 1] if 1 <= number <= len(row.revisions) else None
    return found if found is not None and found.number == number else None


def _vote_terms(row: Confirmation, vote: Vote) -> JsonObject:
    edit: Json = None
    if vote.edit is not None:
        edit = {"arguments": vote.edit.arguments, "payload": vote.edit.payload}
    return {
        "confirmation": row.id,
        "id": vote.id,
        "kind": str(vote.kind),
        "voter": _person(vote.voter),
        "revision": vote.revision,
        "of": vote.of,
        "at": _instant(vote.stored_at),
        "reason": vote.reason,
        "edit": edit,
        "grant": vote.grant,
        "way": vote.way,
    }


# The decision


def with_decision(row: Confirmation, fingerprints: Fingerprints) -> Confirmation:
    """An approval that votes or a grant have just made, with its fingerprint."""
    assert row.decision is not None
    return replace(row, decision=replace(row.decision, sealed=fingerprints.within("decision").of(_decision(row))))


def decision_is_sealed(row: Confirmation, fingerprints: Fingerprints) -> bool:
    return row.decision is not None and fingerprints.within("decision").matches(_decision(row), row.decision.sealed)


def _decision(row: Confirmation) -> JsonObject:
    decision = row.decision
    assert decision is not None
    return {
        "confirmation": row.id,
        "attempt": row.attempt,
        "state": str(decision.state),
        "revision": decision.revision,
        "fingerprint": decision.fingerprint,
        "at": _instant(decision.at),
        "by": _person(decision.by) if decision.by else None,
        "start_by": _instant(row.start_by),
        "grant": row.by_grant,
    }


def _person(person: Person) -> list[Json]:
    return [person.team, person.user]


def _instant(at: datetime | None) -> str | None:
    return None if at is None else stamp(at)
