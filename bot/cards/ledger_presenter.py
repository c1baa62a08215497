"""Turns ledger lines and stored answers to votes into what `blocks` shows. Pure.

Lines are masked when they are written. Results are masked here once more, since the row's policy hides values by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from blocks.content import headline
from blocks.ledger_kinds import LineKind, Reason
from blocks.ledger_lines import LINES
from blocks.step_views import Counted, StepView, VerdictView
from bot.audit.ledger import LedgerLine
from bot.confirmation.authorise import Refusal
from bot.confirmation.grants import fixed_arguments
from bot.confirmation.model import Ask, Confirmation, OutcomeKind, State
from bot.confirmation.shown import (
    ABSENT,
    Argument,
    FieldDiff,
    Shown,
    answer_of,
    approved_by,
    epoch,
    masked_arguments,
    masked_text,
    named_approvers,
    stage_of,
)
from bot.policy.approvers import Approver
from bot.store.ledger_lines import content_of
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects, texts

D = TypeVar("D", bound=int | None)

_STILL_RUNS = (None, OutcomeKind.RUNNING)


def thread_steps(
    lines: Sequence[LedgerLine], rows: Mapping[str, Confirmation], thread_ts: str, tries: Collection[int]
) -> list[StepView]:
    """The lines that the thread shows: one for each decision, with its outcome. The card shows the rest.

    `rows` are all confirmations of the session. `tries` are the numbers of the refused votes that the thread shows:
    each person's third on one card.
    """
    steps = (_in_thread(line, rows.get(line.confirmation or ""), thread_ts, tries) for line in lines)
    return [replace(step, several=len(rows) > 1) for step in steps if step is not None]


def _in_thread(line: LedgerLine, row: Confirmation | None, thread_ts: str, tries: Collection[int]) -> StepView | None:
    step = step_view(line, row)
    if step is None or row is None:
        return step
    carded = any(place.thread_ts == thread_ts and not place.pointer for place in row.places) and not row.quiet
    entry = LINES[step.kind]
    if entry.card:
        return None
    match step.kind:
        case LineKind.VOTE_REFUSED if step.seq not in tries:
            return None
        case LineKind.APPROVED if step.question:
            return step
        case LineKind.APPROVED if carded or (row.outcome.kind if row.outcome else None) not in _STILL_RUNS:
            return None  # the card or the line about the end shows it
    editor = row.revision.author.user if row.revision.author else None
    if step.kind is LineKind.VOTE_FELL and step.why is None and step.who == editor:
        return None  # the line about the edit replaces this one
    if entry.headline and not step.question:
        step = replace(step, headline=headline(Shown(row)))
    if step.kind is LineKind.REMINDED:
        return replace(step, notified=named_approvers(row.policy.notify))
    if entry.end is None:
        return replace(step, editor=editor)
    return replace(
        step,
        people=approved_by(row) if entry.end.approved and row.by_grant is None else step.people,
        editor=None if row.asked.wants_payload else editor,
        asker=row.asked.asked_by.user or None,
        carded=carded,
    )


def step_view(line: LedgerLine, row: Confirmation | None = None) -> StepView | None:
    """The view of one ledger line. None for a kind that is never shown, or a line whose content was purged."""
    kind, entry, content = line.kind, LINES[line.kind], content_of(line)
    question = row is not None and row.asked.question
    operation = row is not None and row.asked.ask is Ask.OPERATION
    shown = entry.of_question if question else entry.of_operation if operation else True
    if entry.sentence is None or content is None or not shown:
        return None
    return StepView(
        seq=line.seq,
        kind=kind,
        at=epoch(line.at),
        tool=line.tool or "",
        who=_user(content.get("who")),
        people=tuple(filter(None, map(_user, objects(content.get("people"))))),
        approvers=_approvers(kind, content, row),
        revision=_number(content.get("revision"), 1),
        attempt=_number(content.get("attempt"), 1),
        votes=_number(content.get("votes"), None) if "votes" in content else _approval_count(kind, row),
        quorum=_number(content.get("quorum"), row.policy.quorum if row else 1),
        reason=_reason_text(kind, content),
        why=_reason(as_object(content.get("refusal")).get("reason")),
        changes=changes_of(content),
        arguments=_arguments(kind, content, row),
        text=_text(kind, content, row),
        seconds=_seconds(content.get("seconds")),
        until=_moment(content.get("until")),
        channel=_card_channel(row) if kind is LineKind.ASKED else None,
        grant=as_text(content.get("grant")) or line.confirmation,
        on=_common_arguments(row) if row is not None and kind is LineKind.GRANTED else (),
        yes=_yes(content.get("yes")),
        answer=answer_of(row, _number(content.get("revision"), 1)) if row is not None and not question else (),
        call=masked_arguments(row.redactor, row.asked.arguments)[0] if row is not None else (),
        question=question,
        operation=operation,
    )


def _arguments(kind: LineKind, content: JsonObject, row: Confirmation | None) -> tuple[Argument, ...]:
    """The arguments of a call, or the answer to a question."""
    if row is not None and row.asked.question and kind is LineKind.APPROVED:
        return answer_of(row)
    return tuple(Argument(name, value) for name, value in as_object(content.get("arguments")).items())


def _common_arguments(row: Confirmation) -> tuple[Argument, ...]:
    return masked_arguments(row.redactor, fixed_arguments(row.revision.arguments, row.policy))[0]


def _card_channel(row: Confirmation | None) -> str | None:
    """The card's channel, if it differs from the session's."""
    if row is None:
        return None
    channels = [place.channel for place in row.places if not place.pointer and place.channel and place.person is None]
    return channels[0] if channels and row.asked.channel not in channels else None


def _approvers(kind: LineKind, content: JsonObject, row: Confirmation | None) -> tuple[Approver, ...]:
    if kind is LineKind.ESCALATED:
        return named_approvers(Approver.parse(entry) for entry in texts(content.get("entries")))
    if kind is LineKind.REMINDED and row is not None and not row.policy.notify:
        return named_approvers(row.policy.approvers)
    return ()


def _approval_count(kind: LineKind, row: Confirmation | None) -> int | None:
    """The number of approvals, for lines that do not store it."""
    return len(row.approvals) if row is not None and kind in (LineKind.EXPIRED, LineKind.REMINDED) else None


def _reason_text(kind: LineKind, content: JsonObject) -> str | None:
    """Our sentence about the step, and the reason that a person gave."""
    entry = LINES[kind]
    said = (as_text(content.get("text")) if entry.text else "", as_text(content.get("reason")) if entry.reason else "")
    return "\n".join(filter(None, said)) or None


def _text(kind: LineKind, content: JsonObject, row: Confirmation | None) -> str | None:
    said = as_text(content.get("text"))
    if kind in (LineKind.UNSEALED, LineKind.STOPPED):
        return said
    if not LINES[kind].result or not said:
        return None
    return masked_text(row.redactor, said) if row else said


def changes_of(content: JsonObject) -> tuple[FieldDiff, ...]:
    """What an edit changed."""
    before, after = as_object(content.get("before")), as_object(content.get("after"))
    return tuple(FieldDiff(name, before.get(name, ABSENT), value) for name, value in after.items())


def _user(person: Json) -> str | None:
    return as_text(as_object(person).get("user")) or None


def _reason(value: Json) -> Reason | None:
    return Reason(value) if isinstance(value, str) and value in set(Reason) else None


def _number(value: Json, default: D) -> int | D:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _seconds(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _yes(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None


def _moment(value: Json) -> int | None:
    return epoch(datetime.fromisoformat(value)) if isinstance(value, str) else None


# Verdicts


def verdict_view(body: Mapping[str, Json], *, what: str = "") -> VerdictView:
    """The stored result of somebody's vote."""
    state = State(as_text(body.get("state"))) if body.get("state") else State.WAITING
    outcome = OutcomeKind(as_text(body.get("outcome"))) if body.get("outcome") else None
    counted = _verdict_of(body.get("kind"), state)
    again = counted is Counted.RUN_AGAIN
    return VerdictView(
        counted=counted,
        tool=as_text(body.get("tool")) or "the call",
        what=what,
        votes=_number(body.get("votes"), 0),
        quorum=_number(body.get("quorum"), 1),
        decided=outcome is None if again else state is not State.WAITING,
        revision=_number(body.get("revision"), 1),
        why=_reason(body.get("reason")),
        stage=stage_of(state, outcome) if state is not State.WAITING else None,
        fields=tuple(texts(body.get("fields"))),
        unresolved=as_text(body.get("unresolved")) or None,
        question=_yes(body.get("question")) is True,
    )


def _verdict_of(kind: Json, state: State) -> Counted:
    """The answer to a vote that changed nothing, such as a second click: the state of the confirmation."""
    if isinstance(kind, str) and kind in set(LineKind) and (counted := LINES[LineKind(kind)].counted) is not None:
        return counted
    ends = {State.DENIED: Counted.DENIED, State.WITHDRAWN: Counted.WITHDRAWN}
    return ends.get(state, Counted.APPROVED)


def refused_view(row: Confirmation, refusal: Refusal) -> VerdictView:
    """The answer to a vote that does not count."""
    outcome = row.outcome.kind if row.outcome else None
    return VerdictView(
        counted=Counted.REFUSED,
        tool=row.asked.tool,
        question=row.asked.question,
        revision=row.revision.number,
        why=_reason(str(refusal.reason)),
        stage=stage_of(row.state, outcome) if row.state is not State.WAITING else None,
        fields=refusal.fields,
        unresolved=refusal.unresolved.what if refusal.unresolved else None,
    )
