"""What becomes of a confirmation whose stored row does not verify: somebody changed it, or put an older one back. Pure.

Nothing in such a row counts. What the ledger says of it is known: what was asked for, by whom, and what was decided.

    waiting → denied        approved and not begun → refused        running → unknown        ended: only the alarm
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.decision import deny, step_of
from adk_confirm.bot.confirmation.effects import Step, UnsealedPart
from adk_confirm.bot.confirmation.model import AskedCall, Confirmation, Decision, Outcome, OutcomeKind, Revision, State
from adk_confirm.bot.confirmation.outcome import UNKNOWN_FOR, HostOutcome, observe, record_altered
from adk_confirm.bot.confirmation.states import Transition, next_version
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.model import Policy
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text


@dataclass(frozen=True)
class KnownStep:
    """A line about the confirmation, whose seal fits."""

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
    """The confirmation as the ledger tells it, masked, and with nobody who could decide. `asked` names the request and
    its session. Without a line that says that it was asked, nobody was asked: it is denied."""
    first = next((step for step in known if step.kind in (LineKind.ASKED, LineKind.GRANT_USED)), None)
    state, outcome = State.DENIED, None
    if first is not None:
        who = as_object(first.content.get("who"))
        asker = Person(as_text(who.get("team")), as_text(who.get("user")))
        arguments = as_object(first.content.get("arguments"))
        asked = replace(asked, tool=first.tool, arguments=arguments, asked_by=asker)
        for step in known:
            state, outcome = _AFTER.get(step.kind, (state, outcome))
            if step.kind in (LineKind.LAPSED, LineKind.ALTERED) and step.content.get("attempt", 1) != 1:
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
    """`row`: from `from_ledger`."""
    if row.state is State.WAITING:
        change = deny(row, now, None, decision_texts.ALTERED_TO_MODEL)
        return change.after(_alarm(row, UnsealedPart.CALL, now))
    if row.state is State.APPROVED and row.outcome is None:
        return record_altered(row, now)
    if row.runs:
        return observe(row, HostOutcome(became=OutcomeKind.UNKNOWN), now).after(_alarm(row, UnsealedPart.ROW, now))
    return Transition(row=next_version(row, now), steps=(_alarm(row, UnsealedPart.ROW, now),))


def _alarm(row: Confirmation, what: UnsealedPart, now: datetime) -> Step:
    return replace(step_of(row, LineKind.UNSEALED, now), text=what)
