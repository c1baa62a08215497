"""`adk-confirm audit list` and `show`: the ledger as text for operators, a line for each step and, if wanted,
everything in it.

Text from a tool, an agent or a person is shown with every character visible: nothing in it can move the cursor, hide,
or look like a line of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import click

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.exact_values import spell_on_one_line
from adk_confirm.blocks.plan import plan_of
from adk_confirm.blocks.rich_text import Box, Line, Piece, Quote, spoken
from adk_confirm.blocks.shown import ABSENT, Absent
from adk_confirm.blocks.shown_lines import ShownLine
from adk_confirm.blocks.text import fit, visible
from adk_confirm.blocks.thread import history_pieces
from adk_confirm.bot.audit.ledger import LedgerLine as LedgerLine
from adk_confirm.bot.audit.ledger import LineKind, stamp
from adk_confirm.bot.confirmation.confirmation import Confirmation, OutcomeKind, State
from adk_confirm.bot.confirmation.shown import shown_of, stage_of
from adk_confirm.bot.confirmation.shown_lines import About, shown_line
from adk_confirm.bot.ops.audit_export import export_object, filters_given
from adk_confirm.bot.ops.command import (
    DATES,
    TOOLS,
    CommandLine,
    Completes,
    completed_from_store,
    format_time,
    in_columns,
    options,
    parse_time,
    read_stamp,
)
from adk_confirm.bot.store.audit_log import AuditRecord, latest_beginning_with, read_recent, read_record
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.ledger_rows import content_of
from adk_confirm.bot.store.repository import moment
from adk_confirm.runtime.errors import Invalid, NotFound
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, same, texts
from adk_confirm.runtime.store.database import Tx

INDENT = "    "
_SHORT = 200
STATES = [*dict.fromkeys(words.STATES.values())]
"""As they are shown."""


def calls_in(*stages: str) -> Completes:
    """Completes an id with the latest calls in these states, or in any."""
    return completed_from_store(
        lambda tx: ((row.id[:8], headline(shown_of(row))) for row in read_recent(tx, None, stages, None, 100))
    )


@click.command("list")
@click.option("--tool", metavar="NAME", help="Calls of one tool.", shell_complete=TOOLS)
@click.option(
    "--state",
    metavar="STATE",
    help="Calls that are so now: waiting, approved, denied, failed, unknown …",
    shell_complete=lambda *typed: [state for state in STATES if state.startswith(typed[-1])],
)
@click.option("--since", metavar="DATE", help=f"Calls that were asked about from then on: {DATES}.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many, at most.")
@options(json=True, names=True)
async def list_(call: CommandLine, tool: str | None, state: str | None, since: str | None, limit: int) -> None:
    """List the calls that needed an approval, the newest first; *allowed* are those that a grant let through."""
    stages = stages_called(state) if state else []
    start = parse_time(since, "--since", call.now()) if since else None
    async with call.reading() as database:
        rows, names = await database.read(read_recent, tool, stages, start, limit), await call.known_names(database)
    calls = [list_object(row) for row in rows]
    filters = filters_given({"--tool": tool, "--state": state, "--since": since})
    nobody = f"No call matches{filters}." if filters else "Nobody was asked about a call yet."
    call.tell({"calls": [*calls]}, *list_lines(calls, names) if calls else [nobody])


@click.command()
@click.argument("id", shell_complete=calls_in())
@click.option("--full", is_flag=True, help="With everything that each line holds.")
@options(json=True, names=True)
async def show(call: CommandLine, id: str, full: bool) -> None:  # noqa: A002  (the argument's name)
    """Show what happened to a call or in a session, step by step.

    ID is a confirmation's, or the beginning of it, or a session's. `adk-confirm audit list` lists them.
    """
    async with call.reading() as database:
        record, names = await database.read(_record, id), await call.known_names(database)
    if call.json:
        lines = [export_object(line, names) for line in record.lines]
        call.tell({"title": record.title, "calls": [*map(list_object, record.rows.values())], "lines": [*lines]})
    else:
        call.tell({}, *record_text(record, names, full=full))


def _record(tx: Tx, id_: str) -> AuditRecord:
    try:
        return read_record(tx, id_)
    except NotFound:
        count, row = latest_beginning_with(tx, id_)
        if row is None:
            raise
        which = headline(shown_of(row)) if count == 1 else f"the latest, {headline(shown_of(row))}"
        many = f"{count} calls begin" if count > 1 else "1 call begins"
        raise Invalid(visible(f"{many} with {id_}. Type `adk-confirm audit show {row.id[:8]}` for {which}.")) from None


def record_text(record: AuditRecord, names: KnownNames, *, full: bool) -> Iterator[str]:
    """A record, line by line. `full`: with all arguments and texts of each step, and how people acted."""
    yield visible(record.title)
    for row in record.rows.values():
        yield from _heading(row, names, f"; confirmation {row.id}" if row.id not in record.title else "")
    yield ""
    if not record.lines:
        yield "The ledger has no lines about it yet."
    calls = {name: About(row, shown_of(row)) for name, row in record.rows.items()}
    for line in record.lines:
        try:
            yield from list(_lines_of(line, calls.get(line.confirmation or ""), names, full=full))
        except ValueError:  # somebody changed it
            said = "this can't be read; run `adk-confirm audit verify` to check it"
            yield f"{format_time(line.at)}  {line.kind}: {said}"


def list_object(row: Confirmation) -> JsonObject:
    asked, shown = row.asked, shown_of(row)
    return {
        "id": row.id,
        "tool": asked.tool,
        "title": headline(shown),
        "state": str(row.state),
        "outcome": None if row.outcome is None else str(row.outcome.kind),
        "asked_by": asked.asked_by.user,
        "caller": asked.agent if asked.by_caller else None,
        "decided_by": [*shown.decided_by],
        "votes": len(shown.voted),
        "quorum": shown.quorum,
        "by_grant": row.by_grant,
        "asked_at": stamp(row.asked_at),
        "channel": asked.channel,
        "session": asked.session.id,
    }


def list_lines(calls: Sequence[JsonObject], names: KnownNames) -> Iterator[str]:
    """The list of calls as a table."""
    zone = f"{read_stamp(calls[0]['asked_at']).astimezone():%Z}"
    rows: list[tuple[str, ...]] = [("id", f"asked ({zone})", "state", "asked by", "decided by", "in", "call")]
    for one in calls:
        at = f"{read_stamp(one['asked_at']).astimezone():%Y-%m-%d %H:%M}"
        who = (", ".join(map(names.short, people)) for people in ([str(one["asked_by"])], texts(one["decided_by"])))
        where = names.short(str(one["channel"])) if one["channel"] else ""
        rows.append((str(one["id"])[:8], at, _state(one), *who, where, str(one["title"])))
    yield from in_columns([tuple(map(visible, row)) for row in rows])


def stages_called(state: str) -> list[str]:
    """The states and outcomes that are shown like this, or are called so in the store."""
    called = {shown for stage, shown in words.STATES.items() if state in (stage, shown)}
    found = [stage for stage, shown in words.STATES.items() if shown in called]
    if not found:
        raise Invalid(f"There is no state {state!r}. There are: {', '.join(STATES)}.")
    return found


def _state(one: JsonObject) -> str:
    """The decision and the outcome: `approved, done`; `allowed, done` if a grant let it through."""
    state, outcome = State(str(one["state"])), OutcomeKind(str(one["outcome"])) if one["outcome"] else None
    votes = [f"{one['votes']} of {one['quorum']}"] if state is State.WAITING else []
    decided = "allowed" if one["by_grant"] else words.STATES[state]
    return ", ".join(dict.fromkeys([decided, words.STATES[stage_of(state, outcome)] if outcome else decided, *votes]))


def _heading(row: Confirmation, names: KnownNames, which: str) -> Iterator[str]:
    """The confirmation's state now, what runs, and its plan."""
    one, call = list_object(row), shown_of(row)
    edits = sum(before.arguments != after.arguments for before, after in pairwise(row.revisions))
    edited = f"; edited version {edits + 1}" if edits else ""
    yield visible(f"{one['title']}: {_state(one)}{edited}{which}")
    where = f" in {names.of(row.asked.channel)}" if row.asked.channel else ""
    who = names.of(row.asked.asked_by.user)
    if row.asked.by_caller and row.asked.asked_by.team:
        who += f" through the caller {row.asked.agent}"
    yield visible(f"{INDENT}asked for by {who}{where}; session {row.asked.session.id}")
    shown, _ = row.redactor.mask_call(row.revision.arguments)
    yield from (f"{INDENT}{argument}" for argument in _values(shown))
    if call.why:
        yield f"{INDENT}the agent says: “{visible(call.why)}”"
    if call.preview is not None and call.preview.failed is None:
        approved = row.state is State.APPROVED and row.by_grant is None
        yield f"{INDENT}approved plan:" if approved else f"{INDENT}plan:"
        yield from (f"{INDENT}{INDENT}{visible(one)}" for one in plan_of(call.preview).lines)


def _lines_of(line: LedgerLine, about: About | None, names: KnownNames, *, full: bool) -> Iterator[str]:
    """`full`: with arguments and texts in full. The thread may shorten them, but an audit must not."""
    content = content_of(line)
    begin = f"{format_time(line.at)}  "
    if content is None:
        tool = f" ({visible(line.tool)})" if line.tool else ""
        yield f"{begin}{line.kind}{tool}: its content was purged"
        return
    step = shown_line(line, about)
    if step is None:  # no thread shows it: it is about the installation, or only says that the agent got a message
        who, said = as_text(as_object(content.get("who")).get("user")), as_text(content.get("text"))
        until = as_text(content.get("until"))
        parts = [f"by {visible(names.of(who))}" if who else "", f"before {visible(until)}" if until else ""]
        yield begin + " ".join(filter(None, (line.kind, *parts))) + (f": {visible(said)}" if said else "")
        return
    sentence, *more = history_pieces(step)
    spans = sentence.spans if isinstance(sentence, Line) else ()
    said = "".join(visible(spoken(span, names.of, lambda when: format_time(moment(when.at)))) for span in spans)
    reason = visible(step.reason or as_text(content.get("reason")))  # a person's own words
    if full:
        yield begin + said
        yield from (f"{INDENT}{part}" for part in _in_full(step, content, names, reason, more))
        return
    ended = step.kind in (LineKind.REFUSED, LineKind.FAILED, LineKind.ALTERED)
    why = fit(reason or (visible(step.text or "") if ended else ""), _SHORT).text
    yield begin + " ".join(filter(None, (said, f"“{why}”" if why else "")))
    yield from (f"{INDENT}{change}" for change in _changes(content) if not step.answer)


def _changes(content: JsonObject) -> Iterator[str]:
    """One a line: `owner: email: a@acme.example → b@acme.example`."""
    before = as_object(content.get("before"))
    for name, value in as_object(content.get("after")).items():
        yield from _leaves(visible(name), before.get(name, ABSENT), value)


def _leaves(name: str, old: Json | Absent, new: Json | Absent) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new or not same(old[key], new[key]):
                yield from _leaves(f"{name}: {visible(key)}", old.get(key, ABSENT), new.get(key, ABSENT))
        return
    was, now = (words.NOTHING if one is ABSENT else spell_on_one_line(one) for one in (old, new))
    yield f"{name}: {was} → {now}"


def _in_full(
    step: ShownLine, content: JsonObject, names: KnownNames, reason: str, more: Iterable[Piece]
) -> Iterator[str]:
    """In which capacity somebody acted, and how; arguments, changes and texts."""
    entries, way = texts(content.get("entries")), as_text(content.get("way"))
    heard = [f"as {', '.join(map(names.of, entries))}" if entries and step.kind is not LineKind.ESCALATED else ""]
    heard.append(f"by {way}" if way else "")
    heard.append(f"on version {step.revision}" if step.revision > 1 or step.kind is LineKind.VOTE_REFUSED else "")
    if any(heard):
        yield visible(", ".join(filter(None, heard)))
    if step.kind is LineKind.ASKED:
        asker = visible(names.of(step.who)) if step.who else "nobody"
        until = "it is decided" if step.until is None else format_time(moment(step.until))
        yield f"for {asker}; {step.quorum} to approve; until {until}"
        if hint := as_text(content.get("text")):
            yield f"“{visible(hint)}”"
    yield from _values(as_object(content.get("arguments")))
    yield from _changes(content)
    if reason:
        yield f"“{reason}”"
    if any(isinstance(piece, Quote | Box) for piece in more) and step.text:
        yield from visible(step.text, keep="\n").split("\n")
    hidden = content.get("hidden")
    if isinstance(hidden, int) and hidden:
        yield f"({hidden} value{'s' if hidden > 1 else ''} hidden by the policy)"


def _values(arguments: Mapping[str, Json]) -> Iterator[str]:
    for name, value in arguments.items():
        yield f"{visible(name) or spell_on_one_line(name)}: {spell_on_one_line(value)}"
