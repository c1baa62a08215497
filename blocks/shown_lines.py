"""How each kind of ledger line is shown: one entry for each kind in one table, `LINES`.

Thread, history, audit and log use this table for what a kind means. To add a kind, add its name in `ledger_kinds.py`
and its entry here; `tests/blocks/test_thread.py` fails if the entry is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import describe_answer
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.blocks.mentions import approver_names
from adk_confirm.blocks.shown import Approver, Argument, FieldDiff, Formats, Free


@dataclass(frozen=True, kw_only=True)
class ShownLine:
    """A ledger line, as a thread, a history and an audit show it.

    `reason`, `text`, `changes` and `arguments` come from others, and may be hostile.
    """

    kind: LineKind
    seq: int = 0
    at: int = 0
    tool: str = ""
    question: bool = False
    operation: bool = False
    who: str | None = None
    people: tuple[str, ...] = ()
    revision: int = 1
    attempt: int = 1
    quorum: int = 1
    votes: int = 0
    approvers: tuple[Approver, ...] = ()
    said: str | None = None  # our sentence about it
    reason: str | None = None  # a person's words
    why: Reason | None = None
    changes: tuple[FieldDiff, ...] = ()  # what an edit changed
    arguments: tuple[Argument, ...] = ()
    text: str | None = None
    seconds: float | None = None
    until: int | None = None
    channel: str | None = None
    on: tuple[Argument, ...] = ()
    free: tuple[Free, ...] = ()
    yes: bool | None = None  # SETTLED: it took effect; ELSEWHERE: it was approved
    call: tuple[Argument, ...] = ()  # the arguments as they were first asked for
    formats: Formats = ()  # of what a result calls by the names of arguments
    answer: tuple[Argument, ...] = ()  # what an approver filled in, where the agent asked for it

    # In a thread
    asker: str | None = None  # who is notified that the call has ended
    editor: str | None = None  # whose edit is what was decided on
    headline: str = ""  # what the call would do, as its card says it
    card_link: str | None = None  # where people are asked to decide
    notified: tuple[Approver, ...] = ()  # who is asked in place of the approvers, or to vote again
    past: bool = False  # a reminder of a call that is decided now
    carded: bool = False  # the card is in the same thread, so the line does not repeat what it shows
    notes: tuple[tuple[str, str], ...] = ()  # what approvers wrote
    drifted: bool = False  # it did not start, because what it would do has changed


Words = str | Callable[[ShownLine], str]
"""A text with fields, or a function that chooses one for a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineEntry:
    sentence: Words | None = None
    """The text in histories and audits. None if no thread and no history shows the line: it concerns the installation,
    or only says that the agent received a message."""
    end: Words | None = None
    """If this kind decides or ends a call: the thread's sentence to whoever asked, after the sign of `sentence`."""
    approved: bool = False
    """After `end`, the thread names who approved."""
    card: bool = False
    """The thread leaves this line out, since the card shows it."""
    approvers: bool = False
    """The thread's line notifies approvers."""
    result: bool = False
    """`text` is what the tool returned, or how it failed. It is shown in a box."""
    arguments: bool = False
    """The arguments of the call are shown, because no card shows them."""
    text: bool = False
    """`text` is our own sentence about it."""
    reason: bool = False
    """`reason` is what a person gave as their reason."""
    of_question: bool = True
    of_operation: bool = True
    """False if it says nothing of its own about a question that was answered, or an operation that goes on."""
    alarm: str | None = None
    """What it means for the operator, in the log at level ERROR."""


def words_for(chosen: Words, step: ShownLine) -> str:
    return chosen if isinstance(chosen, str) else chosen(step)


def _if_nobody(without: str, with_person: str) -> Words:
    """Chooses by whether the step names a person."""
    return lambda step: without if step.who is None else with_person


def _by_ask(question: str, call: str, operation: str | None = None) -> Words:
    """Chooses by what people are asked for: an answer, whether a call may run, or how an operation ends."""
    return lambda step: question if step.question else operation or call if step.operation else call


def _asked_words(step: ShownLine) -> str:
    if step.channel:
        return "💬 {name} asks a question in {channel}." if step.question else "⏳ {tool} needs approval in {channel}."
    if step.question:
        return "💬 {name} asks a question."
    return "⏳ {tool} has started, and needs a decision to continue." if step.operation else "⏳ {tool} needs approval."


def _by_attempt(again: str, first: str) -> Words:
    return lambda step: again if step.attempt > 1 else first


def _edit_words(step: ShownLine) -> str:
    """Text for an edit, for an answer that was filled in, or for one that changed somebody else's answer."""
    if not step.answer and not step.votes:
        return "✏️ {who} edited {tool}. Earlier approvals no longer count."
    if not step.answer:
        return "✏️ {who} edited and approved {tool}. Earlier approvals no longer count."
    answer, first = describe_answer(step.answer, step.call), step.revision <= 2
    if answer is None:
        return words.LINE_APPROVAL
    if answer.complete:
        return "👍 {who} approved {answer} for {tool}: {votes}." if first else words.LINE_ANSWER_CHANGED
    return "👍 {who} approved {tool} with {answer}: {votes}." if first else words.LINE_ANSWER_CHANGED_WITH


def _revocation_words(step: ShownLine) -> str:
    if step.who is not None:
        return "🔒 {who} stopped allowing more like {tool}. Calls ask again."
    if step.people:
        return "🔒 Calls of {tool} ask again, because {people} could not approve such a call any more ({why})."
    return "🔒 Calls of {tool} ask again, because {why}." if step.why else words.LINE_GRANT_ENDED


def stopped_calls(step: ShownLine, part: str) -> list[str]:
    """The tools of calls that a stop did not end. With `part` "runs", those that still run; with "waits", those that
    still wait for people."""
    try:
        stopped = json.loads(step.text or "{}") if step.kind is LineKind.STOPPED else {}
    except ValueError:
        return []  # not written by this app
    tools = stopped.get(part) if isinstance(stopped, dict) else None
    return [str(tool) for tool in tools] if isinstance(tools, list) else []


def _stop_words(step: ShownLine) -> str:
    """Who stopped the agent, and which calls go on."""
    runs, waits = (min(len(stopped_calls(step, part)), 2) for part in ("runs", "waits"))
    one = " {runs} was approved and still runs; its result follows."
    goes_on = ("", one, " {runs} were approved and still run; their results follow.")[runs]
    waiting = ("", " {waits} still waits for a decision.", " {waits} still wait for decisions.")[waits]
    return "⏹️ {who} stopped the agent." + goes_on + waiting


def _fell_why(step: ShownLine) -> str:
    return ": they are no longer an approver" if step.why is Reason.NOT_APPROVER else ": {why}" if step.why else ""


def _expiry_words(step: ShownLine) -> str:
    return "expired with {votes}{what}." if step.votes else "nobody decided in time{what}."


HANDED = '"handed to"'
"""In the result of a program that got a call and does not report how that ended."""
_RAN = _by_attempt("done in a second run{what}.", "done{what}.")
_DENIED = _if_nobody("denied by the policy{what}.", "denied by {who}{what}.")

LINES: Mapping[LineKind, LineEntry] = {
    LineKind.ASKED: LineEntry(sentence=_asked_words, card=True),
    LineKind.CALL_REFUSED: LineEntry(sentence=words.LINE_CALL_REFUSED, arguments=True, text=True),
    LineKind.REMINDED: LineEntry(
        # By whether it is known who may decide until when.
        sentence=lambda step: (
            words.LINE_REMINDED_WHO if step.until and approver_names(step.approvers) else words.LINE_REMINDED
        ),
        approvers=True,
    ),
    LineKind.ESCALATED: LineEntry(
        sentence="⏫ {tool} is escalated to {approvers}, who may decide as well.", approvers=True
    ),
    LineKind.APPROVAL: LineEntry(sentence=words.LINE_APPROVAL, card=True, of_question=False, reason=True),
    LineKind.EDITED: LineEntry(sentence=_edit_words, card=True, of_question=False, reason=True),
    LineKind.VOTE_REFUSED: LineEntry(sentence="✋ {who} tried to decide on {tool}, but the vote did not count: {why}."),
    LineKind.VOTE_FELL: LineEntry(
        sentence=lambda step: f"↘️ The approval of {{tool}} by {{who}} no longer counts{_fell_why(step)}.",
        approvers=True,
    ),
    LineKind.REAPPLIED: LineEntry(
        sentence=_if_nobody(
            "📋 The policy changed, and {tool} is now under the new one.",
            "📋 {who} put {tool} under the policy as it is in the file now.",
        ),
        text=True,
        reason=True,
    ),
    LineKind.APPROVED: LineEntry(
        sentence=_by_ask("💬 {people} answered {tool}.", "👍 {tool} is approved by {people}."),
        end="it can start{what}.",
        approved=True,
    ),
    LineKind.DENIED: LineEntry(sentence="🚫 {who} denied {tool}.", end=_DENIED, reason=True),
    LineKind.EXPIRED: LineEntry(sentence="⌛ {tool} has expired with {votes}. {no}", end=_expiry_words),
    LineKind.WITHDRAWN: LineEntry(sentence="↩️ {who} withdrew {tool}. {no}", end="withdrawn by {who}{what}.", text=True),
    LineKind.ASKED_ANEW: LineEntry(sentence="↩️ The agent asks about {tool} again. Use the newer card."),
    LineKind.ELSEWHERE: LineEntry(sentence=lambda step: f"🚨 {{tool}} was {words.OUTSIDE[step.yes]} outside this app."),
    LineKind.LAPSED: LineEntry(
        sentence=_by_ask(
            words.LINE_NOT_SENT, "⌛ {tool} was approved, but did not start in time.", words.LINE_NOT_SENT
        ),
        end="not started in time{what}.",
        approved=True,
    ),
    LineKind.PREVIEWED: LineEntry(sentence="👁️ The edited call's plan is on the card.", card=True),
    LineKind.BEGUN_CHANGED: LineEntry(
        sentence="⚠️ {tool} started, though its plan has changed since it was approved. The policy allows that.",
        result=True,
    ),
    LineKind.BEGUN: LineEntry(
        sentence=_by_attempt("▶️ {tool} started, attempt {attempt}.", "▶️ {tool} started."),
        card=True,
        text=True,
        of_question=False,
        of_operation=False,
    ),
    LineKind.DONE: LineEntry(
        sentence=lambda step: (
            "📤 {tool} is handed over."
            if HANDED in (step.text or "")
            else "✅ {who} reports that {tool} ran{took}."
            if step.who
            else "✅ {tool} ran{took}."
        ),
        end=lambda step: "handed over{what}." if HANDED in (step.text or "") else words_for(_RAN, step),
        approved=True,
        result=True,
        of_question=False,
        of_operation=False,
    ),
    LineKind.FAILED: LineEntry(
        sentence=_if_nobody("❌ {tool} failed{took}.", "❌ {who} reports that {tool} failed{took}."),
        end="failed{what}.",
        approved=True,
        result=True,
    ),
    LineKind.REFUSED: LineEntry(
        sentence=_by_ask("⛔ The agent did not accept the answer to {tool}.", "⛔ {tool} did not run."),
        end="did not run{what}.",
        approved=True,
        result=True,
    ),
    LineKind.UNSEALED: LineEntry(
        sentence=lambda step: words.LINE_UNSEALED.get(step.text or "", words.LINE_UNSEALED["row"]),
        alarm="somebody changed the database",
    ),
    LineKind.ALTERED: LineEntry(
        sentence=words.LINE_ALTERED, result=True, alarm="somebody changed the database, so the call did not run"
    ),
    LineKind.UNKNOWN: LineEntry(
        sentence=lambda step: (
            "⚠️ {tool} was started, and nobody knows how it ended. {approvers} can say on the card what happened."
            if step.approvers
            else "⚠️ {tool} was started, and nobody knows how it ended. The card asks what to do."
        ),
        end="",
        approvers=True,
    ),
    LineKind.SETTLED: LineEntry(sentence=lambda step: words.LINE_SETTLED[step.yes]),
    LineKind.RUN_AGAIN_VOTE: LineEntry(sentence="👍 {who} wants {tool} to run again: {votes}.", card=True),
    LineKind.RUN_AGAIN: LineEntry(sentence="🔁 {tool} runs again, attempt {attempt}, decided by {people}.", card=True),
    LineKind.NOBODY_KNOWS: LineEntry(sentence=words.LINE_NOBODY_KNOWS),
    LineKind.GRANTED: LineEntry(sentence="🔓 {people} allowed more until {when}: {calls}."),
    LineKind.GRANT_USED: LineEntry(
        sentence="🔓 {tool} runs without asking, because {people} allowed it.", arguments=True
    ),
    LineKind.GRANT_REVOKED: LineEntry(sentence=_revocation_words, text=True),
    LineKind.STOPPED: LineEntry(sentence=_stop_words),
    LineKind.PAUSED: LineEntry(
        sentence=_if_nobody(words.PAUSED, "⏸️ {who} paused runs. Approved calls start once they are resumed."), text=True
    ),
    LineKind.RESUMED: LineEntry(sentence=_if_nobody("▶️ Runs are resumed.", "▶️ {who} resumed runs."), text=True),
    LineKind.HEARD: LineEntry(),
    LineKind.FREE_CALL: LineEntry(),
    LineKind.RETRIED: LineEntry(),
    LineKind.PURGED: LineEntry(),
    LineKind.CHECKPOINT: LineEntry(),
    LineKind.SEALED_ANEW: LineEntry(),
}

TOLD = frozenset(kind for kind, entry in LINES.items() if entry.sentence is not None and not entry.card)
TOLD_WITH_REASON = frozenset(kind for kind, entry in LINES.items() if entry.card and entry.reason)
"""What a thread may show: all of `TOLD`, and of these, which a card shows too, those with somebody's reason."""
