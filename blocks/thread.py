"""Writes the lines of a session's thread, and the longer sentences of a history.

A thread gets one line for each decision, and the card shows the rest. A history shows every step of the ledger. The
table in `shown_lines.py` has the words for each kind of line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import LIST, default_title, describe_answer, first_values, listed, result
from adk_confirm.blocks.card import SAME_DAY, after_a_no, audit_line, calls_like, heading, votes_of
from adk_confirm.blocks.click_ids import Callback, LineMark, block_id
from adk_confirm.blocks.full_view import room_beside, split_pages
from adk_confirm.blocks.kit import JsonObject, Message, header, modal, small_print
from adk_confirm.blocks.ledger_kinds import LineKind
from adk_confirm.blocks.mentions import approver_names, people_names
from adk_confirm.blocks.rich_text import (
    Box,
    Channel,
    Line,
    Piece,
    Prose,
    Quote,
    Say,
    TextSpan,
    User,
    When,
    call_name,
    join,
    line,
    linked,
    markup,
    name,
    quoted,
    rich,
    say,
    text,
)
from adk_confirm.blocks.shown import ApproverKind, Shown
from adk_confirm.blocks.shown_lines import LINES, LineEntry, ShownLine, stopped_calls, words_for
from adk_confirm.blocks.text import MESSAGE_TEXT, fit_visible, units

_PAGE = 2500
_STEPS = 20
_SAID, _LINES = 480, 8
REMINDERS = (LineKind.REMINDED, LineKind.ESCALATED)
"""Once the call is decided, these lines say that they are past."""


def thread_messages(session: str, steps: Sequence[ShownLine]) -> tuple[Message, ...]:
    """The messages that show these lines in a thread, in order. The mark of each message names the last line that it
    shows. A message mentions the people of `notified_users`."""
    return tuple(_message(session, part) for part in _split(steps))


def _split(steps: Sequence[ShownLine]) -> list[list[ShownLine]]:
    parts: list[list[ShownLine]] = []
    spent = 0
    for step in steps:
        length = sum(units(markup(p.spans) if isinstance(p, Line) else p.text) for p in thread_line(step))
        if not parts or spent + length > _PAGE or len(parts[-1]) >= _STEPS:
            parts.append([])
            spent = 0
        parts[-1].append(step)
        spent += length
    return parts


def _message(session: str, steps: Sequence[ShownLine]) -> Message:
    pieces, last = [piece for step in steps for piece in thread_line(step)], steps[-1].seq
    return Message(
        text=text([], pieces, [], MESSAGE_TEXT),
        blocks=(rich(pieces, f"story.{steps[0].seq}.{last}"),),
        metadata=LineMark(session, steps[0].seq, last).metadata(),
    )


# The thread


def thread_line(step: ShownLine) -> tuple[Piece, ...]:
    """A line, with a person's own words about it. The call's name leads to its card for whoever has to act."""
    if step.question:
        return _about_question(step)
    if LINES[step.kind].end is not None:
        return (Line(_end(step, LINES[step.kind])), *_said(step))
    match step.kind:
        case LineKind.VOTE_REFUSED:
            return (Line(say(words.THREAD_TRIES, **_spans(step))),)
        case LineKind.VOTE_FELL if step.why is None and step.editor:
            template = words.THREAD_ASKED_AGAIN if step.notified else words.THREAD_NO_LONGER
            edited = "changed the answer to" if step.answer else "edited"
            return (Line(say(template, edited=edited, **_spans(step))),)
        case LineKind.REMINDED if step.past:
            who = approver_names(step.notified or step.approvers) or words.SOMEBODY.lower()
            return (Line(say(words.THREAD_REMINDED, **{**_spans(step), "who": who})),)
        case LineKind.ESCALATED if step.past:
            return (Line(say("⏫ Escalated {tool} to {approvers}, {at}.", **_spans(step))),)
        case LineKind.REMINDED if step.notified:
            return (*history_pieces(step), Line(say(words.NOTIFIED, approvers=approver_names(step.notified))))
    return history_pieces(step)


def _about_question(step: ShownLine) -> tuple[Piece, ...]:
    match _arguments(step):
        case (Line(answers),) if step.kind is LineKind.APPROVED:
            asks = "" if step.headline.endswith(("?", "!")) else ":"
            return (Line((*say(f"💬 {{people}} answered {{tool}}{asks} ", **_spans(step)), *answers)),)
    return history_pieces(step)


def notified_users(step: ShownLine) -> frozenset[str]:
    """The users whom a thread's line notifies: the asker at the end, and whoever has to decide, perhaps once more. All
    others are only named."""
    if LINES[step.kind].approvers:
        return frozenset(x.value for x in (*step.approvers, *step.notified) if x.kind is ApproverKind.USER)
    if step.drifted:
        return frozenset(step.people)
    return frozenset({step.asker} if step.asker and step.asker != step.who else ())


def _end(step: ShownLine, entry: LineEntry) -> tuple[TextSpan, ...]:
    """`✅ @ana, done. Approved by ben and chris.`: it begins with the person whom it is for."""
    spans, row = _spans(step), say(words_for(entry.sentence or "", step).partition(" ")[0] + " ")
    if step.drifted and step.people:
        return (*row, *say("{people}, the plan changed, so it did not start. Decide again: {tool}", **spans))
    if step.kind is LineKind.UNKNOWN:
        able = approver_names(step.notified or step.approvers)
        asks = "{able}, did this take effect? {tool}" if able else "Did this take effect? {tool}"
        return (*row, *say(asks, **(spans | {"able": able})))
    told = step.asker in notified_users(step)
    row += say("{asker}, ", **spans) if told else ()
    template = words_for(entry.end or "", step)
    what = say(": {tool}", **spans) if step.headline or step.tool else ()
    row += say(template if told else template[0].upper() + template[1:], **(spans | {"what": what}))
    if not (entry.approved and step.people):
        return row
    row += say(_with_answer(step), **spans)
    if len(step.notes) == 1:
        row = (*row[:-1], *quoted(fit_visible(step.notes[0][1], _NOTE).text))
    return (*row, *say(" Edited by {editor}.", **spans)) if step.editor else row


_NOTE = 200


def _with_answer(step: ShownLine) -> str:
    """What was approved, if an approver filled something in."""
    if (answer := describe_answer(step.answer, step.call)) is None:
        return " Approved by {people}."
    return " {people} approved {answer}." if answer.complete else " Approved by {people} with {answer}."


# The history

_SUBJECT = re.compile(r"^(\S+ )\{tool\} (?:is |was |has )?([a-z])")


def history_pieces(step: ShownLine, *, time: When | None = None) -> tuple[Piece, ...]:
    """A step: a sentence, with the words of an agent, a tool or a person. `time`: its own, below the call's title."""
    template = words_for(LINES[step.kind].sentence or "", step)
    if time and step.kind is LineKind.ASKED and step.who and not step.question:
        template = "⏳ Asked by {who} in {channel}." if step.channel else "⏳ Asked by {who}."
    elif time:  # `⌛ Expired with 1 of 2 approvals.`
        template = re.sub(r" (?:\{no\}|of \{tool\}(?= by))|(?<=: )\{tool\} has ", "", template)
        template = re.sub(_SUBJECT, lambda found: found[1] + found[2].upper(), template).replace("{tool}", "it")
    elif step.question and not step.headline:  # at the beginning of a sentence
        template = re.sub(r"^(\S+) \{tool\}", r"\1 The question of {name}", template)
    template = template.replace("{no}", after_a_no(step))
    row = say(template.replace(" ", " {time}  ", 1) if time else template, time=time or "", **_spans(step))
    changes = () if step.answer else listed((), step.changes, step.call)
    if step.said:
        row += (Say(" "), Prose(step.said))
    return (Line(row), *changes, *_arguments(step), *_said(step, exact=not time))


def _spans(step: ShownLine) -> dict[str, TextSpan | tuple[TextSpan, ...] | str]:
    """All the fields that a template can use."""
    named = name(step.tool)
    asked = say("the question of {name}", name=call_name("", step.tool, step.card_link))
    asked = (linked(step.headline, step.card_link),) if step.headline else asked
    called = default_title(step.tool, step.arguments) if step.kind is LineKind.CALL_REFUSED else step.headline
    return {
        "tool": asked if step.question else call_name(called, step.tool, step.card_link),
        "name": named,
        "who": User(step.who) if step.who else words.SOMEBODY.lower(),
        "people": people_names(step.people),
        "approvers": approver_names(step.approvers) or words.SOMEBODY.lower(),
        "votes": votes_of(step, step.votes),
        "attempt": str(step.attempt),
        "channel": Channel(step.channel or ""),
        "at": When(step.at),
        "when": When(step.until or 0),
        "calls": calls_like(step),
        "asker": User(step.asker) if step.asker else words.SOMEBODY.lower(),
        "editor": User(step.editor) if step.editor else words.SOMEBODY.lower(),
        "why": step.why.short if step.why else "the policy",
        "took": f" in {words.duration(step.seconds)}" if step.seconds and step.seconds >= 0.1 else "",
        "runs": join([name(tool) for tool in stopped_calls(step, "runs")]),
        "waits": join([name(tool) for tool in stopped_calls(step, "waits")]),
        "answer": answer.spans if (answer := describe_answer(step.answer, step.call)) else (),
    }


def _arguments(step: ShownLine) -> tuple[Piece, ...]:
    """The call if no card shows it, or the answer to a question."""
    shown = step.kind is LineKind.APPROVED if step.question else LINES[step.kind].arguments
    titled = first_values(step.tool, step.arguments) if step.kind is LineKind.CALL_REFUSED else {}
    drawn = listed([one for one in step.arguments if one.name not in titled]) if shown else ()
    rows = [piece.spans for piece in drawn if isinstance(piece, Line)]
    return (Line(join(rows, words.DOT)),) if rows and len(rows) == len(drawn) else drawn


def _said(step: ShownLine, *, exact: bool = False) -> list[Piece]:
    """A person's reason, and what the tool returned or why it failed: as an audit wants it, or if no card shows it."""
    said: list[Piece] = []
    if step.reason:
        said.append(Quote(fit_visible(step.reason, _SAID, _LINES, keep="\n").text))
    if step.carded and not exact and step.kind is not LineKind.WITHDRAWN:
        return []  # the card says it
    if not step.text or not LINES[step.kind].result:
        return said
    try:
        value: JsonValue = json.loads("" if exact else step.text)
    except (ValueError, RecursionError):
        return [*said, Box(fit_visible(step.text, _SAID, _LINES, keep="\n\t").text)]
    return [*said, *result(value, LIST, step.formats, step.call)[0]]


def history(call: Shown, lines: Sequence[ShownLine]) -> JsonObject:
    """The steps of one confirmation, each with its time."""
    name = block_id("step", call.ref, call.version)
    title = header(heading(call), f"title.{name}")
    found = small_print([audit_line(call)], f"audit.{name}")
    return modal(Callback.SHOW, "History", [title, *_steps(lines, name, call), *found], metadata=call.ref.encode())


def _steps(steps: Sequence[ShownLine], name: str, call: Shown) -> list[JsonObject]:
    """All steps in order. If there are too many: the latest, and a line that says so."""
    ended = {step.attempt for step in steps if step.kind in (LineKind.DONE, LineKind.FAILED)}
    over = (LineKind.APPROVED, LineKind.BEGUN)  # the votes before say who, and the end says that it started
    steps = [step for step in steps if step.question or step.kind not in over or step.attempt not in ended]
    left_out: list[Piece] = []
    while True:
        pieces = [*left_out, *(piece for step in steps for piece in _step_pieces(step, steps[0]))]
        pages = split_pages(pieces or [line(words.NO_STEPS, what=words.NOUN[call.question])], name, *room_beside())
        if pages.whole:
            return list(pages.blocks)
        steps = steps[len(steps) // 2 :]
        left_out = [line("Earlier steps are left out here; the audit has them all.")]


def _step_pieces(step: ShownLine, first: ShownLine) -> list[Piece]:
    """A line with its time. Soon after the `first` one the clock says enough."""
    when = When(step.at, clock=step is not first and step.at - first.at < SAME_DAY)
    said, *rest = history_pieces(step, time=when)
    return [said, *(replace(one, item=1) if isinstance(one, Line) else one for one in rest)]
