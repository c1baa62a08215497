"""Fills in `ShownLine`: a ledger line as people may see it, and chooses what a thread shows. Pure.

A line was masked when it was written. What a tool returned is masked once more, since the policy hides values by name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.blocks.shown import ABSENT, Approver, ApproverKind, Argument, FieldDiff, OutcomeKind, Shown, State
from adk_confirm.blocks.shown_lines import LINES, TOLD, TOLD_WITH_REASON, ShownLine
from adk_confirm.blocks.thread import REMINDERS
from adk_confirm.bot.audit.ledger import LedgerLine
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.confirmation.shown import (
    NO_ACCOUNTS,
    answer_in,
    bound_by,
    epoch,
    free_in,
    masked_arguments,
    masked_text,
    named_approvers,
)
from adk_confirm.bot.policy.approvers import parse_approver
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects, texts


@dataclass(frozen=True)
class About:
    """The confirmation that ledger lines are about, and how it is shown. `accounts`: the users behind addresses."""

    row: Confirmation
    call: Shown
    accounts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def redactor(self) -> Redactor:
        return self.row.redactor

    @cached_property
    def first(self) -> tuple[Argument, ...]:
        """The arguments as they were asked for."""
        return masked_arguments(self.redactor, self.row.asked.arguments, self.call.formats)[0]

    @cached_property
    def answers(self) -> tuple[tuple[Argument, ...], ...]:
        """What people filled in, by revision."""
        return tuple(answer_in(self.row, self.redactor, made) for made in self.row.revisions)


def shown_line(line: LedgerLine, about: About | None = None) -> ShownLine | None:
    """A ledger line as people may see it. None for a kind that is never shown, or a line whose content was purged."""
    entry, call = LINES[line.kind], about.call if about else None
    said = entry.of_question if call and call.question else entry.of_operation if call and call.operation else True
    if not said or entry.sentence is None or line.content is None:
        return None
    return _filled(line, as_object(json.loads(line.content)), about)


def _filled(line: LedgerLine, content: JsonObject, about: About | None) -> ShownLine:
    entry, kind = LINES[line.kind], line.kind
    said, reason = as_text(content.get("text")), as_text(content.get("reason")) if entry.reason else ""
    text = said if kind in (LineKind.UNSEALED, LineKind.STOPPED) or entry.result else None
    if about is not None:  # the redactor may hide more now than when the line was written
        redactor = about.redactor
        reason, text = masked_text(redactor, reason), text if not entry.result else masked_text(redactor, said)
        content |= {name: redactor.mask_call(as_object(content.get(name)))[0] for name in _VALUES}
    own, ours = said if entry.text else "", kind in (LineKind.CALL_REFUSED, LineKind.REAPPLIED)
    why = as_object(content.get("refusal")).get("reason")
    before, after = as_object(content.get("before")), as_object(content.get("after"))
    yes = content.get("yes")
    step = ShownLine(
        kind=kind,
        seq=line.seq,
        at=epoch(line.at),
        tool=line.tool or "",
        who=_user(content.get("who")),
        people=tuple(filter(None, map(_user, objects(content.get("people"))))),
        revision=_number(content.get("revision"), 1),
        attempt=_number(content.get("attempt"), 1),
        quorum=_number(content.get("quorum"), 1),
        votes=_number(content.get("votes"), 0),
        approvers=_entries(content, NO_ACCOUNTS) if kind is LineKind.ESCALATED else (),
        said=own if ours else None,
        reason="\n".join(filter(None, (reason,) if ours else (own, reason))) or None,
        why=Reason(why) if isinstance(why, str) and why in set(Reason) else None,
        changes=tuple(FieldDiff(name, before.get(name, ABSENT), value) for name, value in after.items()),
        arguments=tuple(Argument(name, value) for name, value in as_object(content.get("arguments")).items()),
        text=text or None,
        seconds=read_seconds(content.get("seconds")),
        until=_moment(content.get("until")),
        yes=yes if isinstance(yes, bool) else None,
    )
    return step if about is None else _with_call(step, content, about)


def _with_call(step: ShownLine, content: JsonObject, about: About) -> ShownLine:
    """The line, with facts that only its confirmation has."""
    row, call, answers, kind = about.row, about.call, about.answers, step.kind
    formats = {one.name: one.formats for one in about.first}
    of_question = call.question and kind is LineKind.APPROVED
    granted = kind is LineKind.GRANTED
    return replace(
        step,
        question=call.question,
        operation=call.operation,
        quorum=_number(content.get("quorum"), call.quorum),
        votes=_number(content.get("votes"), len(call.voted) if kind in _COUNTS_NOW else 0),
        approvers=_approvers(step, content, about),
        arguments=answers[-1]
        if of_question
        else tuple(replace(one, formats=formats.get(one.name, ())) for one in step.arguments),
        channel=_elsewhere(row) if kind is LineKind.ASKED else None,
        on=bound_by(row, call.arguments) if granted else (),
        free=free_in(row) if granted else (),
        call=about.first,
        formats=call.formats,
        answer=() if call.question else answers[min(step.revision, len(answers)) - 1],
    )


def _approvers(step: ShownLine, content: JsonObject, about: About) -> tuple[Approver, ...]:
    call = about.call
    if step.kind is LineKind.ESCALATED:
        return _entries(content, about.accounts)
    if step.kind not in _ASKS_APPROVERS or about.row.policy.notify:
        return ()
    return (*call.approvers, *call.escalated_to) if step.kind is LineKind.UNKNOWN else call.approvers


def _entries(content: JsonObject, accounts: Mapping[str, str]) -> tuple[Approver, ...]:
    return named_approvers(map(parse_approver, texts(content.get("entries"))), accounts)


def _elsewhere(row: Confirmation) -> str | None:
    """The channel of the row's cards, if that is not the session's."""
    channels = [one.channel for one in row.places if not one.pointer and one.channel and one.person is None]
    return channels[0] if channels and row.asked.channel not in channels else None


def _user(person: Json) -> str | None:
    return as_text(as_object(person).get("user")) or None


def _number(value: Json, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_seconds(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moment(value: Json) -> int | None:
    return epoch(datetime.fromisoformat(value)) if isinstance(value, str) else None


_VALUES = ("before", "after", "arguments")
"""The parts of a line's content that hold values of the call."""
_COUNTS_NOW = (LineKind.EXPIRED, LineKind.REMINDED)  # they do not store the number of approvals
_DECIDED_ON_THE_CARD = (State.WAITING, OutcomeKind.UNKNOWN)
_ASKS_APPROVERS = (LineKind.REMINDED, LineKind.UNKNOWN)


def thread_lines(
    lines: Sequence[LedgerLine], about: Mapping[str, About], thread_ts: str, tries: Collection[int]
) -> list[ShownLine]:
    """The lines that the thread shows: one for each decision, with its outcome. The card shows the rest.

    `about` are the calls that the lines are about. `tries` are the numbers of the refused votes that the thread shows:
    each person's third on one card.
    """
    found = (_in_thread(line, about.get(line.confirmation or ""), thread_ts, tries) for line in lines)
    return [one for one in found if one is not None]


def _in_thread(line: LedgerLine, about: About | None, thread_ts: str, tries: Collection[int]) -> ShownLine | None:
    step, entry = shown_line(line, about), LINES[line.kind]
    if step is None or (step.kind is LineKind.VOTE_REFUSED and step.seq not in tries):
        return None
    if about is None:
        return step
    row, call = about.row, about.call
    carded = not row.quiet and any(place.thread_ts == thread_ts for place in row.places if not place.pointer)
    ended = isinstance(call.stage, OutcomeKind) and call.stage is not OutcomeKind.RUNNING
    told = step.kind in TOLD or (step.reason and step.kind in TOLD_WITH_REASON)
    if not told or (carded and entry.card):
        return None
    if step.kind is LineKind.WITHDRAWN and carded and not step.reason:
        return None  # the card says it
    if step.kind is LineKind.APPROVED and (step.question or carded or ended):
        return step if step.question else None  # the card or the line about the end shows it
    if step.kind is LineKind.VOTE_FELL and step.why is None and step.who == call.edited_by:
        return None  # the line about the edit replaces this one
    asked_again = step.who if call.stage is State.WAITING and step.who not in call.voted else None
    if step.kind is LineKind.VOTE_FELL and step.why is None and asked_again:
        step = replace(step, notified=(Approver(ApproverKind.USER, asked_again),))
    elif step.kind in (LineKind.REMINDED, LineKind.UNKNOWN):
        step = replace(step, notified=named_approvers(row.policy.notify, about.accounts))
    step = replace(
        step,
        headline=headline(call),
        card_link=call.card_link if call.drifted or (entry.approvers and call.stage in _DECIDED_ON_THE_CARD) else None,
        past=step.kind in REMINDERS and call.stage is not State.WAITING,
        editor=None if entry.end is not None and call.wants_payload else call.edited_by,
        carded=carded,
    )
    if entry.end is None:
        return step
    people = call.approved_by or step.people if entry.approved else step.people
    return replace(step, people=people, asker=call.asked_by, notes=call.notes, drifted=call.drifted)
