"""The ledger as an operator reads it: what the thread tells, line by line, and what only an audit asks for. Pure.

What a tool, an agent or a person wrote is shown with every character visible: nothing in it moves the cursor, hides,
or passes for a line of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from blocks.rich import Box, Channel, Group, Line, Link, Piece, Prose, Quote, Say, Span, Supplied, User, When
from blocks.step_views import StepKind, StepView
from blocks.text import visible
from blocks.thread import told
from blocks.values import quick
from bot.audit.ledger import LedgerLine as LedgerLine
from bot.audit.ledger import LineKind
from bot.cards.ledger_presenter import step_view
from bot.confirmation.model import Confirmation
from bot.operations.operator_times import spelled
from bot.slack.answers import obj, objects, text, texts
from bot.store.audit_log import Story
from bot.store.repository import content_of, moment
from runtime.jsontypes import Json, JsonObject

INDENT = "    "


def story_text(story: Story) -> Iterator[str]:
    """All of it, a line of text each."""
    yield visible(story.title)
    for row in story.rows.values():
        yield from _heading(row)
    yield ""
    if not story.lines:
        yield "The ledger tells nothing of it yet."
    for line in story.lines:
        yield from _read(line, story.rows.get(line.confirmation or ""))


def _heading(row: Confirmation) -> Iterator[str]:
    """Where it stands now, which the lines below led to."""
    outcome = f", {row.outcome.kind}" if row.outcome else ""
    tool = visible(row.redactor.mask_text(row.asked.tool))
    yield f"{tool}: {row.state}{outcome}; revision {row.revision.number}; confirmation {row.id}"
    yield visible(f"{INDENT}in session {row.asked.session.id}")
    shown, _ = row.redactor.mask_object(row.revision.arguments)
    yield from (f"{INDENT}{argument}" for argument in _values(shown))


def _read(line: LedgerLine, row: Confirmation | None) -> list[str]:
    try:
        return list(_told(line, row))
    except ValueError:  # a newer version wrote it, or somebody wrote over it
        return [
            f"{spelled(line.at)}  {line.kind}: this can't be read; `adk-confirm audit verify` tells whether it stands"
        ]


def _told(line: LedgerLine, row: Confirmation | None) -> Iterator[str]:
    content = content_of(line)
    begin = f"{spelled(line.at)}  "
    if content is None:
        tool = f" ({visible(line.tool)})" if line.tool else ""
        yield f"{begin}{line.kind}{tool}: what it told was purged"
        return
    step = step_view(line, row)
    if step is None:
        yield f"{begin}{_ours(line.kind, content)}"
        return
    sentence, *more = told(step)
    yield begin + "".join(_pieces(sentence))
    yield from (f"{INDENT}{part}" for part in (*_details(step, content), *_whole(step, content, more)))


def _ours(kind: LineKind, content: JsonObject) -> str:
    """What no thread tells: it concerns the installation, and not a session."""
    who, said = text(obj(content.get("who")).get("user")), text(content.get("text"))
    until = text(content.get("until"))
    parts = [str(kind), f"by {visible(who)}" if who else "", f"before {visible(until)}" if until else ""]
    return " ".join(filter(None, parts)) + (f": {visible(said)}" if said else "")


def _details(step: StepView, content: JsonObject) -> Iterator[str]:
    """As whom somebody was heard, and by which way in."""
    entries, way = texts(content.get("entries")), text(content.get("way"))
    heard = [f"as {', '.join(entries)}" if entries and step.told is not StepKind.ESCALATED else ""]
    heard.append(f"by {way}" if way else "")
    heard.append(f"on revision {step.revision}" if step.revision > 1 or step.told is StepKind.VOTE_REFUSED else "")
    if any(heard):
        yield visible(", ".join(filter(None, heard)))
    if step.told is StepKind.ASKED:
        yield f"for {visible(step.who or 'nobody')}; {step.quorum} to approve; until {_until(step)}"


def _until(step: StepView) -> str:
    return spelled(moment(step.until)) if step.until is not None else "it is decided"


def _whole(step: StepView, content: JsonObject, more: Iterable[Piece]) -> Iterator[str]:
    """Arguments, differences and texts in full: the thread may cut them, an audit may not."""
    if step.told is StepKind.ASKED and (hint := text(content.get("text"))):
        yield f"“{visible(hint)}”"
    yield from _values(obj(content.get("arguments")))
    for change in objects(content.get("diff")):
        before = "nothing" if change.get("added") else quick(change.get("before"))
        yield f"{visible(text(change.get('name')))}: {before} → {quick(change.get('after'))}"
    if (reason := text(content.get("reason"))) and step.told is not StepKind.REAPPLIED:
        yield f"“{visible(reason)}”"
    if any(isinstance(piece, Quote | Box) for piece in more) and step.text:
        yield from visible(step.text, keep="\n").split("\n")
    elif step.reason and step.told is not StepKind.DENIED:
        yield f"“{visible(step.reason)}”"
    hidden = content.get("hidden")
    if isinstance(hidden, int) and hidden:
        yield f"({hidden} value{'s' if hidden > 1 else ''} hidden by the policy)"


def _values(arguments: Mapping[str, Json]) -> Iterator[str]:
    for name, value in arguments.items():
        yield f"{visible(name) or quick(name)}: {quick(value)}"


def _pieces(piece: Piece) -> Iterator[str]:
    match piece:
        case Line(spans):
            yield from map(_plain, spans)
        case Quote(said) | Box(said):
            yield visible(said)
        case other:
            assert_never(other)


def _plain(span: Span) -> str:
    match span:
        case Say(said) | Supplied(said) | Prose(said):
            return visible(said)
        case User(id) | Group(id) | Channel(id):
            return visible(id)
        case When(at):
            return spelled(moment(at))
        case Link(_, label):
            return visible(label)
        case other:
            assert_never(other)
