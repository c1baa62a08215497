"""What happens to a call after its decision and by time: it is sent to the host, ends, expires, or is unknown until
people say. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import (
    AskedCall,
    Confirmation,
    Decision,
    Outcome,
    OutcomeKind,
    Revision,
    State,
    VoteKind,
)
from adk_confirm.bot.confirmation.decision import (
    close_asked_anew,
    delivery_of,
    deny,
    digest_of,
    record_outside_answer,
    refuse,
    step_of,
)
from adk_confirm.bot.confirmation.states import (
    OUTCOMES,
    Delivery,
    Illegal,
    Step,
    Transition,
    UnsealedPart,
    begin_next_attempt,
    change_outcome,
    next_version,
)
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.policies import Policy
from adk_confirm.bot.policy.redaction import MASK, own_words
from adk_confirm.runtime.calls.call import ALTERED, Call, CallState, HeldRequest, Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, canonical, same

UNKNOWN_FOR = timedelta(hours=24)
"""If people have not said by then what became of an unknown call, the session gets "nobody knows"."""


def kind_of(call: Call) -> OutcomeKind | None:
    """What became of the call. None while it waits, or may begin."""
    if call.state in (CallState.HELD, CallState.READY):
        return None
    failed = call.state is CallState.DONE and has_failed(call.result or {})
    return OutcomeKind.FAILED if failed else OutcomeKind(call.state)


def has_failed(result: JsonObject) -> bool:
    """Whether a result is an error, in the form of Python, Go and JavaScript, or Java. `"error": null` says that there
    was none, and so do false and 0."""
    failed = result.get("error") not in (None, False)
    return failed or (result.get("status") == "error" and "message" in result)


def text_of(result: JsonObject | None) -> str | None:
    """A result, error or refusal as text."""
    if result is None:
        return None
    error = result.get("error")
    return error if isinstance(error, str) and len(result) == 1 else canonical(result)


def begin(row: Confirmation, delivery: Delivery, now: datetime) -> Transition:
    """Checks an approval before a host gets it: it is for the decided call and for this attempt, and still in time.

    The call must also be exactly what its approvers saw. If not, the call is refused, and `handed_at` stays empty.
    """
    stands = row.state is State.APPROVED and delivery.approves and delivery.attempt == row.attempt
    if row.decision is None or not stands:
        raise Illegal(row, "begin")
    if row.outcome is not None or row.handed_at is not None:
        raise Illegal(row, "begin", " a second time")
    if row.start_by is None or now >= row.start_by:
        raise Illegal(row, "begin", f" after {row.start_by}")
    decided = delivery_of(row, delivery.word)
    if canonical([decided.arguments, decided.payload]) != canonical([delivery.arguments, delivery.payload]):
        return record_altered(row, now)
    return Transition(row=next_version(replace(row, handed_at=now), now, visible=False))


def start(row: Confirmation, call: Call, answer: Json, now: datetime, *, again: bool = False) -> Transition:
    """Decides whether our own runtime may run the call: only if the confirmation `runs` afterwards.

    An approval is good for one start, in time, of exactly what its approvers saw, with the `answer` that they gave.
    `again`: the process died while the call ran, and its tool can be repeated safely.
    """
    before = row.outcome.kind if row.outcome else None
    if row.state is State.APPROVED and before is None:
        if row.start_by is None or now >= row.start_by:
            return replace(lapse(row, now), delivery=None)  # the call itself tells the agent
        shown = [row.asked.call_id, row.asked.tool, row.revision.arguments, answer, row.whole_preview]
        if call.request is None or not same(shown, _what_begins(call, call.request)):
            return replace(record_altered(row, now), delivery=None)
        return _copy_report(row, OutcomeKind.RUNNING, now, begun=call.begun)
    if row.state is State.APPROVED and before is OutcomeKind.RUNNING and again:
        return Transition(row=row)
    if row.state is State.LAPSED or (row.unknown and call.attempt > row.attempt):
        return Transition(row=row)  # `tick` let the approval lapse just before
    step = replace(step_of(row, LineKind.ALTERED, now), text=own_words(decision_texts.ALTERED))
    void = replace(row, unsealed=True)
    if row.runs:  # its first start may have taken effect
        return _copy_report(void, OutcomeKind.UNKNOWN, now).after(step)
    return Transition(row=next_version(void, now), steps=(step,))


def starts_changed(row: Confirmation, preview: Preview | None) -> bool:
    """Whether the approved call starts although its preview has changed to this one: only if the policy allows that and
    people could approve a call with this preview."""
    return row.policy.preview_drift == "allow" and not row.is_unseen(preview)


def note_changed_preview(row: Confirmation, preview: Preview, now: datetime) -> Step:
    before, after = row.preview, row.masked(preview)
    text = "\n".join(after.changes_from(before)) if before and after else ""
    return replace(
        step_of(row, LineKind.BEGUN_CHANGED, now),
        preview=digest_of(row.redactor.mask(preview.as_json())),
        text=row.redactor.mask_text(text) or None,
    )


def _what_begins(call: Call, asked: HeldRequest) -> list[Json]:
    preview = asked.preview.as_json() if asked.preview else None
    return [call.id, call.tool, call.run_args, asked.answer, preview]


def take_back(row: Confirmation, now: datetime) -> Transition:
    """Records that the host did not get the approval. It may be sent again, or expire."""
    if row.handed_at is None or row.outcome is not None:
        raise Illegal(row, "take back")
    return Transition(row=next_version(replace(row, handed_at=None), now, visible=False))


def record_unreached(row: Confirmation, now: datetime) -> Transition:
    """Records that the host can't be reached. People see that sending is retried."""
    if row.state is not State.APPROVED or row.outcome is not None or row.handed_at is not None or row.unreached:
        return Transition(row=row)
    return Transition(row=next_version(replace(row, unreached=True), now))


def copy_outcome(row: Confirmation, call: Call, now: datetime) -> Transition:
    """Copies what the host says became of the call. A report that comes again or too late changes nothing, and neither
    does one about an outcome that people have settled.

    If a host runs a call that was not approved here, or was not sent to it yet, somebody else answered it. Until the
    host gets a new attempt that people decided on, its reports are about the previous attempt.
    """
    if call.state is CallState.REFUSED and call.reason == decision_texts.ASKED_ANEW:
        return close_asked_anew(row, now)
    kind, told = kind_of(call), text_of(call.result)
    before, known = (row.outcome.kind, row.outcome.text) if row.outcome else (None, None)
    confirmed = call.request.confirmed if call.request is not None else None
    change = Transition(row=row)
    if kind is None or (kind is before and (kind is not OutcomeKind.RUNNING or told in (None, known))):
        return change
    # Nobody has decided here yet, or the call was denied at the host before our approval was sent.
    not_given = row.state is State.APPROVED and before is None and row.handed_at is None
    if row.state is State.WAITING or (not_given and confirmed is False):
        change = record_outside_answer(row, confirmed, now)
    if confirmed is False and row.state is not State.APPROVED:
        return change  # the host has our denial
    if change.row.state not in (State.APPROVED, State.ELSEWHERE):
        return change if kind is OutcomeKind.REFUSED else record_outside_answer(row, True, now)
    if kind not in OUTCOMES[before] or (not_given and not row.is_first and kind is OutcomeKind.UNKNOWN):
        return change  # a later report sorts it out
    if not_given and row.is_first and kind is not OutcomeKind.REFUSED:
        change = change.then(record_outside_answer(change.row, True, now))
    altered = call.state is CallState.REFUSED and call.reason == ALTERED
    report = _copy_report(change.row, kind, now, told, call.begun, altered=altered)
    return report.after(*change.steps)


def settle(
    row: Confirmation, word: Word, now: datetime, by: Person | None = None, reason: str | None = None
) -> Transition:
    """Ends an unknown outcome: it took effect, it did not, or, after 24 hours, nobody knows."""
    kind = OutcomeKind(word)
    if not row.unknown or row.outcome is None:
        raise Illegal(row, kind)
    delivery = delivery_of(row, word, reason)
    row = change_outcome(row, replace(row.outcome, kind=kind, at=now, by=by), now)
    line = LineKind.NOBODY_KNOWS if kind is OutcomeKind.NOBODY_KNOWS else LineKind.SETTLED
    masked = row.redactor.mask_text(reason) if reason else None
    yes = None if kind is OutcomeKind.NOBODY_KNOWS else kind is OutcomeKind.HAPPENED
    step = replace(step_of(row, line, now), who=by, text=kind, reason=masked, yes=yes)
    return Transition(row=row, steps=(step,), delivery=delivery)


def run_again(row: Confirmation, now: datetime) -> Transition:
    """Begins the next attempt at the same approved call: a new quorum wants it to run once more."""
    voters = row.voters(VoteKind.RUN_AGAIN)
    if len(voters) < row.policy.quorum:
        raise Illegal(row, "run again", f" with {len(voters)} of {row.policy.quorum} votes")
    row = begin_next_attempt(row, now, by=voters[-1])
    step = replace(
        step_of(row, LineKind.RUN_AGAIN, now),
        people=voters,
        votes=len(voters),
        quorum=row.policy.quorum,
        until=row.start_by,
    )
    return Transition(row=row, steps=(step,), delivery=delivery_of(row, "run again"))


def lapse(row: Confirmation, now: datetime) -> Transition:
    """Records that an approved call did not begin in time. If that was a later attempt, the earlier outcome stays
    unknown."""
    if row.outcome is not None:
        raise Illegal(row, "lapse")
    if row.is_first:
        reason = decision_texts.lapsed_to_model(row.policy.start_within)
        return refuse(row, State.LAPSED, LineKind.LAPSED, now, None, reason)
    step = step_of(row, LineKind.LAPSED, now)
    return Transition(row=_become_unknown(replace(row, attempt=row.attempt - 1), now, None, None), steps=(step,))


def record_altered(row: Confirmation, now: datetime) -> Transition:
    """Raises an alarm about a changed call. A first attempt is refused, and the agent gets the reason. For a later
    attempt, the outcome stays unknown."""
    if not row.is_first:
        step = replace(step_of(row, LineKind.ALTERED, now), text=own_words(decision_texts.ALTERED))
        return Transition(row=_become_unknown(replace(row, attempt=row.attempt - 1), now, None, None), steps=(step,))
    change = _copy_report(row, OutcomeKind.REFUSED, now, decision_texts.ALTERED, altered=True)
    return replace(change, delivery=delivery_of(row, "denied", decision_texts.ALTERED_TO_MODEL))


def _copy_report(
    row: Confirmation,
    kind: OutcomeKind,
    now: datetime,
    text: str | None = None,
    begun: float | None = None,
    *,
    altered: bool = False,
) -> Transition:
    if row.is_void and text is not None and not altered:
        text = MASK  # nobody knows any more what its policy hid
    begun_at = row.outcome.begun_at if row.outcome else None
    if begun is not None:
        begun_at = datetime.fromtimestamp(begun, UTC)
    if kind is OutcomeKind.UNKNOWN:
        row = _become_unknown(row, now, begun_at, text)
    else:
        begun_at = begun_at or (now if kind is OutcomeKind.RUNNING else None)
        by = row.asked.reporter if kind in (OutcomeKind.DONE, OutcomeKind.FAILED) else None
        outcome = Outcome(kind=kind, attempt=row.attempt, at=now, begun_at=begun_at, text=text, by=by)
        row = change_outcome(row, outcome, now)
    step = replace(
        step_of(row, LineKind.ALTERED if altered else _LINES[kind], now),
        who=row.outcome.by if row.outcome else None,
        text=row.redactor.mask_text(text) if text else None,
        seconds=row.outcome.seconds if row.outcome else None,
        until=row.unknown_until,
    )
    return Transition(row=row, steps=(step,))


def _become_unknown(row: Confirmation, now: datetime, begun_at: datetime | None, text: str | None) -> Confirmation:
    """Makes the outcome unknown, in a new revision of the same call: no earlier vote counts as an answer about it."""
    outcome = Outcome(kind=OutcomeKind.UNKNOWN, attempt=row.attempt, at=now, begun_at=begun_at, text=text)
    fresh = replace(row.revision, number=row.revision.number + 1, at=now)
    return replace(
        change_outcome(row, outcome, now),
        revisions=(*row.revisions, fresh),
        unknown_until=now + UNKNOWN_FOR,
        start_by=None,
        handed_at=None,
    )


_LINES = {
    OutcomeKind.RUNNING: LineKind.BEGUN,
    OutcomeKind.DONE: LineKind.DONE,
    OutcomeKind.FAILED: LineKind.FAILED,
    OutcomeKind.REFUSED: LineKind.REFUSED,
    OutcomeKind.UNKNOWN: LineKind.UNKNOWN,
}


class DueWork(StrEnum):
    """What a confirmation needs, in the order in which it is done."""

    COUNT = "count"
    PREVIEW = "preview"  # of an edited call
    REDRAW = "redraw"
    REMIND = "remind"
    ESCALATE = "escalate"
    EXPIRE = "expire"
    LAPSE = "lapse"
    GIVE_UP = "give up"  # on an unknown outcome: nobody knows
    END_GRANT = "end grant"
    DRAW = "draw"


def next_due(row: Confirmation) -> datetime | None:
    """When something other than drawing is due. A time in the past means now, `None` means never."""
    return min((since for since, what in scheduled_work(row) if what is not DueWork.DRAW), default=None)


def needs_drawing(row: Confirmation) -> bool:
    """Whether a card shows an older version of the row."""
    return any(what is DueWork.DRAW for _, what in scheduled_work(row))


def due_work(row: Confirmation, now: datetime) -> tuple[DueWork, ...]:
    """What is due now. Counting comes first and drawing last, so that one drawing shows everything."""
    return tuple(what for since, what in scheduled_work(row) if since <= now)


def scheduled_work(row: Confirmation) -> tuple[tuple[datetime, DueWork], ...]:
    """Everything that is or will be due, with times. Uncounted votes delay `EXPIRE`, `GIVE_UP` and
    `END_GRANT`."""
    pending = row.pending_votes
    waiting = row.state is State.WAITING
    not_begun = row.state is State.APPROVED and row.outcome is None and row.handed_at is None
    places = [place for place in row.places if place.ts is not None or not row.quiet]
    behind = any(place.drawn_version < row.face for place in places)
    times: tuple[tuple[datetime | None, DueWork], ...] = (
        (pending[0].stored_at if pending else None, DueWork.COUNT),
        (row.revision.at if row.awaits_preview else None, DueWork.PREVIEW),
        (row.redraw_at, DueWork.REDRAW),
        (row.remind_at if waiting else None, DueWork.REMIND),
        (row.escalate_at if waiting and not row.escalated else None, DueWork.ESCALATE),
        (row.deadline if waiting and not pending else None, DueWork.EXPIRE),
        (row.start_by if not_begun else None, DueWork.LAPSE),
        (row.unknown_until if row.unknown and not pending else None, DueWork.GIVE_UP),
        (row.grant_until if not pending else None, DueWork.END_GRANT),
        (row.changed_at if behind else None, DueWork.DRAW),
    )
    return tuple((since, what) for since, what in times if since is not None)


def tick(row: Confirmation, now: datetime) -> Transition:
    """Applies everything that is due by the clock. If nothing is due, nothing changes.

    A request that expires gets no reminder first, however late this runs.
    """
    due = due_work(row, now)
    if DueWork.EXPIRE in due:
        reason = decision_texts.expired_to_model(row.policy.expires_after, question=row.asked.question)
        return refuse(row, State.EXPIRED, LineKind.EXPIRED, now, None, reason)
    if DueWork.LAPSE in due:
        return lapse(row, now)
    if DueWork.GIVE_UP in due:
        return settle(row, "nobody knows", now)
    steps: list[Step] = []
    if DueWork.END_GRANT in due:  # its card no longer offers to revoke it
        row = next_version(replace(row, grant=None), now)
    if DueWork.REDRAW in due:
        row = next_version(replace(row, redraw_at=None, doubt=1), now)
    if DueWork.REMIND in due:
        row = next_version(replace(row, remind_at=None), now)
        votes, quorum = len(row.voters(VoteKind.APPROVE)), row.policy.quorum
        steps.append(replace(step_of(row, LineKind.REMINDED, now), votes=votes, quorum=quorum, until=row.deadline))
    if DueWork.ESCALATE in due:
        row = next_version(replace(row, escalated=True), now)
        entries = tuple(str(entry) for entry in row.policy.escalate_to)
        steps.append(replace(step_of(row, LineKind.ESCALATED, now), entries=entries, until=row.deadline))
    return Transition(row=row, steps=tuple(steps))


@dataclass(frozen=True)
class KnownStep:
    """A ledger line about a confirmation. The line's seal fits."""

    kind: LineKind
    at: datetime
    tool: str
    content: JsonObject


_AFTER: Mapping[LineKind, tuple[State, OutcomeKind | None]] = {
    LineKind.ASKED: (State.WAITING, None),
    LineKind.APPROVED: (State.APPROVED, None),
    LineKind.GRANT_USED: (State.APPROVED, None),
    LineKind.RUN_AGAIN: (State.APPROVED, None),
    LineKind.DENIED: (State.DENIED, None),
    LineKind.EXPIRED: (State.EXPIRED, None),
    LineKind.WITHDRAWN: (State.WITHDRAWN, None),
    LineKind.ASKED_ANEW: (State.WITHDRAWN, None),
    LineKind.ELSEWHERE: (State.ELSEWHERE, None),
    LineKind.LAPSED: (State.LAPSED, None),
    LineKind.BEGUN: (State.APPROVED, OutcomeKind.RUNNING),
    LineKind.DONE: (State.APPROVED, OutcomeKind.DONE),
    LineKind.FAILED: (State.APPROVED, OutcomeKind.FAILED),
    LineKind.REFUSED: (State.APPROVED, OutcomeKind.REFUSED),
    LineKind.ALTERED: (State.APPROVED, OutcomeKind.REFUSED),
    LineKind.UNKNOWN: (State.APPROVED, OutcomeKind.UNKNOWN),
    LineKind.SETTLED: (State.APPROVED, OutcomeKind.NOBODY_KNOWS),
    LineKind.NOBODY_KNOWS: (State.APPROVED, OutcomeKind.NOBODY_KNOWS),
}


def from_ledger(confirmation: str, asked: AskedCall, known: Sequence[KnownStep], now: datetime) -> Confirmation:
    """Makes a confirmation anew from its ledger lines: masked, and with nobody who could decide. `asked` names the
    request and its session. Without a line that says that people were asked, it is denied."""
    first = next((step for step in known if step.kind in (LineKind.ASKED, LineKind.GRANT_USED)), None)
    state, outcome = State.DENIED, None
    if first is not None:
        who = as_object(first.content.get("who"))
        asker = Person(as_text(who.get("team")), as_text(who.get("user")))
        arguments = as_object(first.content.get("arguments"))
        asked_for = first.content.get("attempt")
        earlier = asked_for - 1 if isinstance(asked_for, int) else 0
        asked = replace(asked, tool=first.tool, arguments=arguments, asked_by=asker, attempts=earlier)
        for step in known:
            state, outcome = _AFTER.get(step.kind, (state, outcome))
            if step.kind in (LineKind.LAPSED, LineKind.ALTERED) and step.content.get("attempt", 1) != earlier + 1:
                state, outcome = State.APPROVED, OutcomeKind.UNKNOWN  # the attempt before may have taken effect
    attempts = [step.content.get("attempt") for step in known]
    attempt = max((number for number in attempts if isinstance(number, int)), default=1)
    at, last = (first.at if first else now), (known[-1].at if known else now)
    return Confirmation(
        id=confirmation,
        asked=asked,
        policy=Policy(),
        asked_at=at,
        revisions=(Revision(number=1, arguments=asked.arguments, payload=None, at=at),),
        deadline=now,
        state=state,
        decision=None if state is State.WAITING else Decision(state=state, at=last, revision=1),
        outcome=Outcome(kind=outcome, attempt=attempt, at=last) if outcome else None,
        attempt=attempt,
        unknown_until=now + UNKNOWN_FOR if outcome is OutcomeKind.UNKNOWN else None,
        unsealed=True,
        changed_at=now,
    )


def end_void(row: Confirmation, now: datetime) -> Transition:
    """Ends a confirmation whose row somebody changed, with an alarm. `row`: what `from_ledger` made anew."""
    if row.state is State.WAITING:
        change = deny(row, now, None, decision_texts.ALTERED_TO_MODEL)
        return change.after(_alarm(row, UnsealedPart.CALL, now))
    if row.state is State.APPROVED and row.outcome is None:
        return record_altered(row, now)
    if row.runs:
        return _copy_report(row, OutcomeKind.UNKNOWN, now).after(_alarm(row, UnsealedPart.ROW, now))
    return Transition(row=next_version(row, now), steps=(_alarm(row, UnsealedPart.ROW, now),))


def _alarm(row: Confirmation, what: UnsealedPart, now: datetime) -> Step:
    return replace(step_of(row, LineKind.UNSEALED, now), text=what)
