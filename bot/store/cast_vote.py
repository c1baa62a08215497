"""Stores and counts votes, and stores the answers for voters. Transaction functions.

Nothing here calls Slack. The caller looks things up before the transaction and passes them in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import Facts, Refusal
from adk_confirm.bot.confirmation.confirmation import Confirmation, Edit, Seat, State, Vote, VoteKind
from adk_confirm.bot.confirmation.states import Step, Transition, UnsealedPart, Verdict
from adk_confirm.bot.confirmation.stored_json import from_json, step_content, to_json
from adk_confirm.bot.confirmation.votes import count, needs_asking, store_vote
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.marks import begin_attempt
from adk_confirm.bot.store.repository import Session, lock_confirmation, now, save, session_is_sealed
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import owe, settle


@dataclass(frozen=True, kw_only=True)
class SubmittedVote:
    """A click or a submitted form that is to be stored. If Slack delivers it again, it has the same `id`."""

    id: str
    confirmation: str
    revision: int
    kind: VoteKind
    voter: Person
    reason: str | None = None
    edit: Edit | None = None
    grant: bool = False
    way: str = "button"
    seat: Seat | None = None  # where to show the voter the result


@dataclass(frozen=True)
class CastResult:
    """What became of a vote so far. `counted`: it counts or is refused already, without asking Slack."""

    row: Confirmation
    counted: bool
    refusal: Refusal | None = None


KnownFacts = Callable[[Confirmation, Vote], Facts | None]
"""Returns what was already looked up about a voter. None if Slack must be asked. No I/O."""


def nothing_known(row: Confirmation, vote: Vote) -> Facts | None:  # noqa: ARG001
    return None  # a `KnownFacts`


def cast(tx: Tx, ballot: SubmittedVote, policies: Policies, known: KnownFacts = nothing_known) -> CastResult:
    """Stores a vote. The caller acks the click only after this transaction. The vote is also counted here if nothing
    has to be looked up, or was looked up just now."""
    session, row = lock_confirmation(tx, ballot.confirmation)
    answer = tx.first(_ANSWER, session=session.key, vote=ballot.id)
    if answer is not None:  # Slack delivered a vote again that was refused: it stays so, whoever may decide by now
        return CastResult(row.heard(session.speakers), False, from_json(Verdict, answer.body).refusal)
    vote = Vote(
        id=ballot.id,
        kind=ballot.kind,
        voter=ballot.voter,
        revision=ballot.revision,
        stored_at=now(tx),
        reason=ballot.reason,
        edit=ballot.edit,
        grant=ballot.grant,
        way=ballot.way,
        seat=ballot.seat,
    )
    stored = store_vote(row, vote)
    change, counted = stored, all(waiting.id != vote.id for waiting in stored.row.pending_votes)
    first = stored.row.pending_votes[:1]
    if first and first[0].id == vote.id:
        facts = known(stored.row, vote)
        if facts is not None:
            facts = with_speakers(tx, session, stored.row, facts)
        if facts is not None or not needs_asking(stored.row, vote):
            change, counted = stored.then(count(stored.row, vote.id, facts, vote.stored_at, policies)), True
    if change.row is row:
        return CastResult(row, counted=False)  # Slack delivered the same click again
    if counted:  # Slack waits for a form's answer, and shows it there
        _store_answer(tx, session.key, vote, change, answered=vote.way == "form" and _refusal(change) is not None)
    news = without_repeats(tx, change)
    if counted and news is not change and not news.steps:  # refused often enough before: no new line
        return CastResult(row.heard(session.speakers), counted, _refusal(change))
    save(tx, session, news)
    return CastResult(change.row.heard(session.speakers), counted, _refusal(change))


_ANSWER = "SELECT body FROM bot_outbox WHERE session = :session AND kind = 'answer' AND mark = :vote"


def count_next(tx: Tx, confirmation_id: str, vote_id: str, known: KnownFacts, policies: Policies) -> Confirmation:
    """Counts the oldest stored vote, with what is known about its voter now. Does nothing if another replica counted
    it, or if what was looked up is too old: the transaction may have waited for minutes."""
    session, row = lock_confirmation(tx, confirmation_id)
    if not row.pending_votes or row.pending_votes[0].id != vote_id:
        return row
    facts = known(row, row.pending_votes[0]) if (asks := needs_asking(row, row.pending_votes[0])) else None
    if asks and facts is None:
        return row
    change = count(row, vote_id, facts and with_speakers(tx, session, row, facts), now(tx), policies)
    _answer_lost_votes(tx, session.key, row, change)
    save(tx, session, without_repeats(tx, change))
    return change.row


def _answer_lost_votes(tx: Tx, session: str, before: Confirmation, change: Transition) -> None:
    """Answers each voter whose vote no longer waits."""
    waiting = {vote.id for vote in change.row.pending_votes}
    for vote in before.pending_votes:
        if vote.id not in waiting:
            _store_answer(tx, session, vote, change)


def _refusal(change: Transition) -> Refusal | None:
    return next((s.refusal for s in change.steps if s.kind is LineKind.VOTE_REFUSED), None)


_WHILE_SENDING = 1.0


def _store_answer(tx: Tx, session: str, vote: Vote, change: Transition, *, answered: bool = False) -> None:
    """Stores the answer for a person who submitted a form or was refused. Other voters see the result on the card.

    `answered`: the caller shows the answer. It is stored anyway, to recognise the vote if Slack delivers it again.
    """
    if vote.seat is None or not (_refusal(change) or vote.seat.lists):
        return
    person = f"{vote.voter.team}/{vote.voter.user}"
    answer = {
        "session": session,
        "kind": "answer",
        "mark": vote.id,
        "seat": to_json(vote.seat, exclude_defaults=True),
        "body": to_json(_verdict(change)),
        "shown_at": tx.now() if answered else None,
        "person": person,
        "matter": change.row.id,
    }
    tx.insert("bot_outbox", answer)
    due_at = _drop_older_answers(tx, session, vote.id, person, change.row.id)
    if not answered:
        owe(tx, "reply", vote.id, due_at, owner=session, turn=person)


def _drop_older_answers(tx: Tx, session: str, vote: str, person: str, matter: str) -> float | None:
    """Drops older answers for the same person and confirmation, and returns the time when they were due."""
    now = tx.now()
    older = tx.all(_OLDER_ANSWERS, session=session, vote=vote, person=person, matter=matter)
    waiting = [row for row in older if row.due_at > now or row.lease_until is None or row.lease_until <= now]
    for row in waiting:
        settle(tx, "reply", row.vote)
        tx.run(ANSWERED, vote=row.vote, now=now)
    if older and not waiting:
        return now + _WHILE_SENDING  # one is being sent: answers that come meanwhile are combined
    return min((row.due_at for row in waiting), default=None)


ANSWERED = """
    UPDATE bot_outbox SET shown_at = :now WHERE kind = 'answer' AND mark = :vote
      AND session = (SELECT owner FROM jobs WHERE kind = 'reply' AND key = :vote)
"""
_OLDER_ANSWERS = """
    SELECT o.mark AS vote, j.due_at,
        (SELECT s.lease_until FROM jobs s WHERE s.kind = 'session' AND s.key = j.owner) AS lease_until
    FROM bot_outbox o JOIN jobs j ON j.kind = 'reply' AND j.key = o.mark
    WHERE o.session = :session AND o.shown_at IS NULL AND o.kind = 'answer'
      AND o.person = :person AND o.matter = :matter AND o.mark <> :vote
      AND j.due_at IS NOT NULL
    FOR UPDATE
"""


_ENDS = {State.DENIED: LineKind.DENIED, State.WITHDRAWN: LineKind.WITHDRAWN}


def _verdict(change: Transition) -> Verdict:
    """The ledger line that the vote caused, and whether it decided."""
    row = change.row
    made = next((step for step in change.steps if step.kind is not LineKind.VOTE_FELL), None)  # that is another's vote
    again = made is not None and made.kind is LineKind.RUN_AGAIN_VOTE
    return Verdict(
        confirmation=row.id,
        kind=made.kind if made else _ENDS.get(row.state, LineKind.APPROVAL),
        refusal=_refusal(change),
        votes=(made.votes if made else None) or 0,
        decided=row.outcome is None if again else row.state is not State.WAITING,
    )


# Who spoke to the agent


def with_speakers(tx: Tx, session: Session, row: Confirmation, facts: Facts) -> Facts:
    """Adds everybody who has spoken so far to the facts. The session is locked, so nobody else can speak before the
    vote is counted."""
    if row.policy.allow_requester is not False:
        return facts
    sealed = session_is_sealed(tx, session)
    if not sealed:
        warn_of_session(tx, session)
    return replace(facts, speakers=facts.speakers | session.speakers, speakers_known=sealed)


def warn_of_session(tx: Tx, session: Session) -> None:
    """Warns once that a session's row was changed from outside."""
    if begin_attempt(tx, session.key, "unsealed session") is None:
        write_steps(tx, session.key, Step(kind=LineKind.UNSEALED, at=now(tx), text=UnsealedPart.SESSION))


# Refused clicks. Somebody who clicks again and again fills neither the ledger nor the thread; a metric counts the rest.

TRIES = 3
"""After this many refused votes of one person on one card, the thread says once that they do not count."""

_IDENTITY = ("who", "revision", "text", "refusal")


@dataclass(frozen=True)
class RefusedAgain:
    """Tells the metrics how many refused clicks have no line of their own."""

    clicks: int


def without_repeats(tx: Tx, change: Transition) -> Transition:
    """The change without refusals that the ledger already has `TRIES` times, of the same person, revision and reason.
    The caller has locked the confirmation."""
    refused = [step for step in change.steps if step.kind is LineKind.VOTE_REFUSED]
    if not refused:
        return change
    lines = "SELECT content FROM bot_ledger WHERE confirmation = :id AND kind = :kind AND content IS NOT NULL"
    stored = tx.column(lines, id=change.row.id, kind=str(LineKind.VOTE_REFUSED))
    known = [_identity(json.loads(content)) for content in stored]
    repeats = [step for step in refused if known.count(_identity(step_content(step))) >= TRIES]
    if not repeats:
        return change
    tx.report(RefusedAgain(len(repeats)))
    return replace(change, steps=tuple(step for step in change.steps if step not in repeats))


def _identity(content: JsonObject) -> list[Json]:
    return [content.get(name) for name in _IDENTITY]
