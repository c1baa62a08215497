"""When a confirmation next needs attention, and what happens then. Pure. The
deadline itself is set where a confirmation opens: `decision.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.decision import refuse, step_of
from adk_confirm.bot.confirmation.effects import Step
from adk_confirm.bot.confirmation.model import Confirmation, State, VoteKind
from adk_confirm.bot.confirmation.outcome import lapse, settle
from adk_confirm.bot.confirmation.states import ConfirmationEvent, Transition, next_version


class DueWork(StrEnum):
    """What a confirmation needs, in the order in which it is done."""

    COUNT = "count"
    REMIND = "remind"
    ESCALATE = "escalate"
    EXPIRE = "expire"
    LAPSE = "lapse"
    GIVE_UP = "give up"
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
    """Everything that is or will be due, with times. Expiry and giving up wait until stored votes are counted."""
    pending = row.pending_votes
    waiting = row.state is State.WAITING
    not_begun = row.state is State.APPROVED and row.outcome is None and row.handed_at is None
    places = [place for place in row.places if place.ts is not None or not row.quiet]
    behind = any(place.drawn_version < row.face for place in places)
    times: tuple[tuple[datetime | None, DueWork], ...] = (
        (pending[0].stored_at if pending else None, DueWork.COUNT),
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
        return refuse(row, ConfirmationEvent.EXPIRE, LineKind.EXPIRED, now, None, reason)
    if DueWork.LAPSE in due:
        return lapse(row, now)
    if DueWork.GIVE_UP in due:
        return settle(row, "nobody knows", now)
    steps: list[Step] = []
    if DueWork.END_GRANT in due:  # its card no longer offers to revoke it
        row = next_version(replace(row, grant=None), now)
    if DueWork.REMIND in due:
        row = next_version(replace(row, remind_at=None), now)
        votes, quorum = len(row.voters(VoteKind.APPROVE)), row.policy.quorum
        steps.append(replace(step_of(row, LineKind.REMINDED, now), votes=votes, quorum=quorum, until=row.deadline))
    if DueWork.ESCALATE in due:
        row = next_version(replace(row, escalated=True), now)
        entries = tuple(str(entry) for entry in row.policy.escalate_to)
        steps.append(replace(step_of(row, LineKind.ESCALATED, now), entries=entries, until=row.deadline))
    return Transition(row=row, steps=tuple(steps))
