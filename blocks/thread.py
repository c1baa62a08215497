"""The lines of a session's thread, and the longer sentences of a history.

A thread gets one line for each decision: the card shows the rest. A history shows every step of the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blocks import words
from blocks.card_text import approvers, by
from blocks.content import LIST, differences, values
from blocks.ids import LineMark
from blocks.kit import Message, drawn
from blocks.rich import (
    Box,
    Channel,
    Line,
    Link,
    Piece,
    Prose,
    Quote,
    Say,
    Span,
    User,
    When,
    code,
    markup,
    name,
    rich,
    say,
    text,
)
from blocks.step_views import StepKind, StepView
from blocks.text import MESSAGE_TEXT, seen, units
from blocks.view import NOBODY

_PAGE = 2500
_STEPS = 20
_SAID, _LINES = 480, 8
_NO_NAMES: Mapping[str, str] = {}


def story(session: str, steps: Sequence[StepView], names: Mapping[str, str] = _NO_NAMES) -> tuple[Message, ...]:
    """These steps as messages for the thread, in order. The mark of each names the last step that it shows.

    `names` are those of the users whom a line does not notify: see `unmentioned`.
    """
    return tuple(_message(session, part, names) for part in _parted(steps))


def unmentioned(steps: Sequence[StepView]) -> frozenset[str]:
    """The users whom these lines name and do not notify."""
    return frozenset(
        span.id
        for step in steps
        for piece in in_thread(step)
        if isinstance(piece, Line)
        for span in piece.spans
        if isinstance(span, User) and span.id not in mentioned(step)
    )


def _parted(steps: Sequence[StepView]) -> list[list[StepView]]:
    parts: list[list[StepView]] = []
    spent = 0
    for step in steps:
        length = sum(units(markup(p.spans) if isinstance(p, Line) else p.text) for p in in_thread(step))
        if not parts or spent + length > _PAGE or len(parts[-1]) >= _STEPS:
            parts.append([])
            spent = 0
        parts[-1].append(step)
        spent += length
    return parts


def _message(session: str, steps: Sequence[StepView], names: Mapping[str, str]) -> Message:
    pieces = [_with_names(piece, names, mentioned(step)) for step in steps for piece in in_thread(step)]
    last = steps[-1].seq
    return Message(
        text=text([], pieces, [], MESSAGE_TEXT),
        blocks=drawn([rich(pieces, f"story.{steps[0].seq}.{last}")]),
        metadata=LineMark(session, last).metadata(),
    )


def _with_names(piece: Piece, names: Mapping[str, str], keep: frozenset[str]) -> Piece:
    if not isinstance(piece, Line):
        return piece
    named = {user for user in names if user not in keep}
    return Line(tuple(Prose(names[s.id]) if isinstance(s, User) and s.id in named else s for s in piece.spans))


# The thread

_ENDS: Mapping[StepKind, tuple[str, tuple[str, ...]]] = {
    StepKind.DONE: ("✅ ", (words.THREAD_APPROVED_BY, words.THREAD_EDITED_BY, words.THREAD_RAN)),
    StepKind.FAILED: ("❌ ", (words.THREAD_APPROVED_BY, words.THREAD_EDITED_BY, words.THREAD_FAILED)),
    StepKind.REFUSED: ("⛔ ", (words.THREAD_APPROVED_BY, words.THREAD_EDITED_BY, words.THREAD_DID_NOT_RUN)),
    StepKind.UNKNOWN: ("⚠️ ", (words.THREAD_APPROVED_BY, words.THREAD_EDITED_BY, words.THREAD_UNKNOWN)),
    StepKind.LAPSED: ("⌛ ", (words.THREAD_APPROVED_BY, words.THREAD_LATE)),
    StepKind.APPROVED: ("👍 ", (words.THREAD_APPROVED_BY, words.THREAD_EDITED_BY)),
    StepKind.DENIED: ("🚫 ", (words.THREAD_DENIED,)),
    StepKind.EXPIRED: ("⌛ ", (words.THREAD_EXPIRED,)),
    StepKind.WITHDRAWN: ("↩️ ", (words.THREAD_WITHDRAWN,)),
}
"""How a call was decided and how it ended: a sign, and the parts of the line."""

_NEEDS: Mapping[str, str] = {words.THREAD_APPROVED_BY: "people", words.THREAD_EDITED_BY: "editor"}
"""A part is left out where its field is empty."""


def in_thread(step: StepView) -> tuple[Piece, ...]:
    """One line, and what somebody said with it."""
    if step.question:
        return told(step)
    if step.told in _ENDS:
        return (Line(_end(step)), *_said(replace(step, text=None) if step.carded else step))
    match step.told:
        case StepKind.VOTE_REFUSED:
            return (Line(say(words.THREAD_TRIES, **_spans(step))),)
        case StepKind.VOTE_FELL if step.why is None and step.editor:
            return (Line(say(words.THREAD_NO_LONGER, **_spans(step))),)
        case StepKind.REMINDED if step.notified != NOBODY:
            return (*told(step), Line(say(words.NOTIFIED, approvers=approvers(step.notified))))
    return told(step)


def mentioned(step: StepView) -> frozenset[str]:
    """The users whom the thread's line notifies: the asker at the end, approvers when they are reminded."""
    if step.told in (StepKind.REMINDED, StepKind.ESCALATED):
        who = (step.approvers, step.notified)
        return frozenset(user for one in who for user in (*one.users, *(each.user or "" for each in one.emails)))
    return frozenset({step.asker} if step.asker and step.asker != step.who else ())


def _end(step: StepView) -> tuple[Span, ...]:
    sign, parts = _ENDS[step.told]
    spans = _spans(step)
    shown = [_worded(step, part) for part in parts if getattr(step, _NEEDS.get(part, "seq"))]
    if mentioned(step):
        shown.append(words.THREAD_ASKED_BY)
    row: tuple[Span, ...] = (Say(sign), name(step.tool), Say(words.DOT)) if step.several else (Say(sign),)
    for index, part in enumerate(shown):
        dot = (Say(words.DOT),) if index else ()
        template = part if index or step.several else part[0].upper() + part[1:]
        row += (*dot, *say(template, **spans))
    return row


def _worded(step: StepView, part: str) -> str:
    match part:
        case words.THREAD_RAN if step.attempt > 1:
            return words.THREAD_RAN_AGAIN
        case words.THREAD_DENIED if step.who is None:
            return words.THREAD_DENIED_BY_POLICY
        case words.THREAD_WITHDRAWN if step.who is None:
            return words.THREAD_REMOVED
    return part


# The history


def told(step: StepView) -> tuple[Piece, ...]:
    """One step: a sentence, and what an agent, a tool or a person said with it."""
    row = say(_template(step), **_spans(step))
    if step.link:
        row += (Say(words.DOT), Link(step.link, words.CARD))
    return (Line(row), *differences(step.changes), *_arguments(step), *_said(step))


_TEMPLATES: Mapping[StepKind, str] = {
    StepKind.CALL_REFUSED: words.TOLD_CALL_REFUSED,
    StepKind.ESCALATED: words.TOLD_ESCALATED,
    StepKind.APPROVAL: words.TOLD_APPROVAL,
    StepKind.EDITED: words.TOLD_EDITED,
    StepKind.VOTE_REFUSED: words.TOLD_VOTE_REFUSED,
    StepKind.VOTE_FELL: words.TOLD_VOTE_FELL,
    StepKind.REAPPLIED: words.TOLD_REAPPLIED,
    StepKind.APPROVED: words.TOLD_APPROVED,
    StepKind.DENIED: words.TOLD_DENIED,
    StepKind.EXPIRED: words.TOLD_EXPIRED,
    StepKind.WITHDRAWN: words.TOLD_WITHDRAWN,
    StepKind.ASKED_ANEW: words.TOLD_ASKED_ANEW,
    StepKind.LAPSED: words.TOLD_LAPSED,
    StepKind.DONE: words.TOLD_DONE,
    StepKind.FAILED: words.TOLD_FAILED,
    StepKind.REFUSED: words.TOLD_REFUSED,
    StepKind.ALTERED: words.TOLD_ALTERED,
    StepKind.UNKNOWN: words.TOLD_UNKNOWN,
    StepKind.RUN_AGAIN_VOTE: words.TOLD_RUN_AGAIN_VOTE,
    StepKind.RUN_AGAIN: words.TOLD_RUN_AGAIN,
    StepKind.NOBODY_KNOWS: words.TOLD_NOBODY_KNOWS,
    StepKind.GRANTED: words.TOLD_GRANTED,
    StepKind.GRANT_USED: words.TOLD_GRANT_USED,
    StepKind.GRANT_REVOKED: words.TOLD_GRANT_REVOKED,
    StepKind.PAUSED: words.TOLD_PAUSED,
    StepKind.RESUMED: words.TOLD_RESUMED,
}


_BY_OPERATORS: Mapping[StepKind, str] = {
    StepKind.REAPPLIED: words.TOLD_REAPPLIED_BY,
    StepKind.PAUSED: words.TOLD_PAUSED_BY,
    StepKind.RESUMED: words.TOLD_RESUMED_BY,
}


_ABOUT_QUESTIONS: Mapping[StepKind, str] = {
    StepKind.CALL_REFUSED: words.TOLD_QUESTION_REFUSED,
    StepKind.ESCALATED: words.TOLD_QUESTION_ESCALATED,
    StepKind.VOTE_REFUSED: words.TOLD_ANSWER_REFUSED_VOTE,
    StepKind.APPROVED: words.TOLD_ANSWERED,
    StepKind.EXPIRED: words.TOLD_NOT_ANSWERED,
    StepKind.ELSEWHERE: words.TOLD_QUESTION_ELSEWHERE,
    StepKind.LAPSED: words.TOLD_ANSWER_LAPSED,
    StepKind.REFUSED: words.TOLD_ANSWER_REFUSED,
}


def _about_question(step: StepView) -> str | None:
    match step.told:
        case StepKind.ASKED:
            return words.TOLD_QUESTION_IN if step.channel else words.TOLD_QUESTION
        case StepKind.REMINDED:
            named = step.until and approvers(step.approvers)
            return words.TOLD_QUESTION_REMINDED_WHO if named else words.TOLD_QUESTION_REMINDED
        case StepKind.WITHDRAWN:
            return words.TOLD_QUESTION_REMOVED if step.who is None else words.TOLD_QUESTION_WITHDRAWN
    return _ABOUT_QUESTIONS.get(step.told)


def _template(step: StepView) -> str:
    if step.operation and not step.channel and step.told in words.TOLD_OPERATION:
        return words.TOLD_OPERATION[step.told]
    if step.question and (told := _about_question(step)) is not None:
        return told
    match step.told:
        case StepKind.ASKED:
            return words.TOLD_ASKED_IN if step.channel else words.TOLD_ASKED
        case StepKind.REMINDED:
            return words.TOLD_REMINDED_WHO if step.until and approvers(step.approvers) else words.TOLD_REMINDED
        case StepKind.BEGUN:
            return words.TOLD_BEGUN_AGAIN if step.attempt > 1 else words.TOLD_BEGUN
        case StepKind.ELSEWHERE:
            return words.TOLD_ELSEWHERE[step.yes]
        case StepKind.SETTLED:
            return words.TOLD_SETTLED[step.yes]
        case StepKind.UNSEALED:
            return words.TOLD_UNSEALED.get(step.text or "", words.TOLD_UNSEALED["terms"])
        case StepKind.VOTE_FELL if step.why is not None:
            return words.TOLD_VOTE_FELL_WHY
        case StepKind.REAPPLIED | StepKind.PAUSED | StepKind.RESUMED if step.who is not None:
            return _BY_OPERATORS[step.told]
        case StepKind.WITHDRAWN if step.who is None:
            return words.TOLD_REMOVED
        case StepKind.GRANT_REVOKED if step.who is None and step.people:
            return words.TOLD_GRANT_GIVER_LOST
        case StepKind.GRANT_REVOKED if step.who is None:
            return words.TOLD_GRANT_LOST if step.why else words.TOLD_GRANT_ENDED
    return _TEMPLATES[step.told]


def _spans(step: StepView) -> dict[str, Span | tuple[Span, ...] | str]:
    """All the fields that a template can have."""
    return {
        "tool": name(step.tool),
        "who": User(step.who) if step.who else words.SOMEBODY.lower(),
        "people": by(step.people),
        "approvers": approvers(step.approvers) or words.SOMEBODY.lower(),
        "votes": words.votes(step.votes or 0, step.quorum),
        "revision": str(step.revision),
        "attempt": str(step.attempt),
        "channel": Channel(step.channel or ""),
        "when": When(step.until or 0),
        "grant": code(step.grant or "", 64),
        "asker": User(step.asker) if step.asker else words.SOMEBODY.lower(),
        "editor": User(step.editor) if step.editor else words.SOMEBODY.lower(),
        "why": words.WHY_SHORT[step.why] if step.why else words.THE_POLICY,
        "took": _took(step),
    }


def _took(step: StepView) -> str:
    if step.seconds is None:
        return ""
    template = words.TOOK_UNTIL_FAILED if step.told is StepKind.FAILED else words.TOOK
    return template.format(duration=words.duration(step.seconds))


def _arguments(step: StepView) -> tuple[Piece, ...]:
    """The call, where there is no card that shows it."""
    shown = (StepKind.APPROVED,) if step.question else (StepKind.GRANT_USED, StepKind.CALL_REFUSED)
    return values(step.arguments, LIST) if step.told in shown else ()


def _said(step: StepView) -> list[Piece]:
    said: list[Piece] = []
    if step.reason:
        said.append(Quote(seen(step.reason, _SAID, _LINES, keep="\n").text))
    if step.text and step.told in (
        StepKind.DONE,
        StepKind.FAILED,
        StepKind.REFUSED,
        StepKind.ALTERED,
        StepKind.ELSEWHERE,
    ):
        said.append(Box(seen(step.text, _SAID, _LINES, keep="\n\t").text))
    return said
