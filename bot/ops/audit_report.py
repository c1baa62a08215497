"""`adk-confirm audit report`: the ledger of a period as evidence for auditors: what agents asked for, who decided, how
fast, and what became of it.

It claims no more than the ledger proves: that somebody pressed a button is known, and when; what they thought is not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import chain
from pathlib import Path
from statistics import median
from string import Template
from textwrap import wrap
from typing import NamedTuple

import click

from adk_confirm.blocks import words
from adk_confirm.blocks.text import visible
from adk_confirm.bot.audit.ledger import LedgerLine, LineKind, stamp
from adk_confirm.bot.audit.verification import Integrity, Report
from adk_confirm.bot.confirmation.shown_lines import read_seconds, shown_line
from adk_confirm.bot.ops.audit_export import writing
from adk_confirm.bot.ops.audit_verify import ANCHOR, PUBLIC_KEY, verification_results, verified
from adk_confirm.bot.ops.command import (
    COLUMNS,
    DATES,
    CommandLine,
    format_time,
    in_columns,
    options,
    parse_time,
    read_stamp,
    tell,
    wrapped,
)
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.store.audit_log import Listener
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.ledger_rows import content_of
from adk_confirm.runtime.errors import Invalid, StoreError
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects
from adk_confirm.runtime.store.tables import SEALED_OTHERWISE, belongs_to

QUICK = 5.0
"""Seconds. The report counts the approvals that came within this time: nobody can have read the call."""

_VOTES = {LineKind.APPROVAL: "approvals", LineKind.EDITED: "edits", LineKind.DENIED: "denials"}
_DECIDED = (LineKind.APPROVED, LineKind.DENIED, LineKind.EXPIRED, LineKind.WITHDRAWN, LineKind.ELSEWHERE)
_ENDS = (LineKind.DONE, LineKind.FAILED, LineKind.REFUSED, LineKind.LAPSED, LineKind.UNKNOWN, LineKind.NOBODY_KNOWS)
_OTHER = (LineKind.ESCALATED, LineKind.REMINDED, LineKind.RUN_AGAIN, LineKind.STOPPED, LineKind.BEGUN_CHANGED)
_ALARMS = (LineKind.UNSEALED, LineKind.ALTERED)
_OPERATED = (LineKind.PAUSED, LineKind.RESUMED, LineKind.RETRIED, LineKind.REAPPLIED, LineKind.PURGED)


@click.command()
@click.option(
    "--from", "since", default="30d", show_default=True, metavar="DATE", help=f"Of what happened from then on: {DATES}."
)
@click.option("--to", "until", metavar="DATE", help="Before then; of a day, to its end.  [default: now]")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write it as a page to hand on.")
@ANCHOR
@PUBLIC_KEY
@options(json=True, names=True)
async def report(
    call: CommandLine,
    since: str,
    until: str | None,
    html: Path | None,
    anchor: str | None,
    public_keys: tuple[str, ...],
) -> int:
    """Report on a period as evidence for auditors.

    It says who decided what, how fast, and what came of it. Like `verify` it takes the secret, or the public key. The
    exit code is 1 if somebody changed the ledger.
    """
    at = call.now()
    start, end = parse_time(since, "--from", at), parse_time(until, "--to", at, end=True) if until else at
    if start >= end:
        raise Invalid(f"--from {since} is not before --to {until or 'now'}. Name an earlier time.")
    tallies = list[Tally]()

    def begin() -> Listener:
        tallies.append(Tally(start, end))
        return tallies[-1].hear

    async with call.reading() as database:
        found = await verified(call, database, anchor, public_keys, begin)
        if found.broken is not None and not public_keys and not await database.read(belongs_to, call.seal):
            raise StoreError(f"{SEALED_OTHERWISE} No report was made. `adk-confirm audit verify` says more.")
        names = await call.known_names(database)
    done = tallies[-1].result(found)
    if html is not None:
        with writing(html) as out:
            out.write(report_page(done, names))
        tell(f"The report is in {html}.")
    else:
        call.tell(done, "\n\n".join(report_text(done, names)))
    return 0 if found.broken is None else 1


@dataclass
class Tally:
    """Counts the proven lines of a period, chain by chain. It reads them in the snapshot in which they were proven,
    since the database may say something else later."""

    since: datetime
    until: datetime
    lines: int = 0
    unproven: int = 0
    purged: int = 0
    kinds: Counter[LineKind] = field(default_factory=Counter)
    tools: defaultdict[str, Counter[LineKind]] = field(default_factory=lambda: defaultdict(Counter))
    people: defaultdict[str, _Person] = field(default_factory=lambda: defaultdict(_Person))
    callers: Counter[str] = field(default_factory=Counter)
    free: Counter[str] = field(default_factory=Counter)  # calls of callers about which nobody is asked
    uncounted: Counter[str] = field(default_factory=Counter)
    denials: list[JsonObject] = field(default_factory=list)
    grants: dict[str, JsonObject] = field(default_factory=dict)
    operated: list[JsonObject] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)  # how each call ended, as it was known last

    def hear(self, line: LedgerLine, proven: bool) -> None:
        if not self.since <= line.at < self.until:
            return
        if proven:
            self._add(line, content_of(line))
        else:
            self.unproven += 1

    def _add(self, line: LedgerLine, content: JsonObject | None) -> None:
        self.lines += 1
        self.purged += content is None
        self.kinds[line.kind] += 1
        if line.tool is not None and line.kind is not LineKind.FREE_CALL:
            self.tools[line.tool][line.kind] += 1
        said, call = content or {}, line.confirmation or ""
        who = as_text(as_object(said.get("who")).get("user"))
        about: JsonObject = {"at": stamp(line.at), "tool": line.tool, "confirmation": line.confirmation, "who": who}
        if line.kind in _VOTES and who:
            self.people[who].voted(line.kind, read_seconds(said.get("seconds")), opened=said.get("way") == "form")
        match line.kind:
            case LineKind.ASKED | LineKind.RUN_AGAIN:
                if line.kind is LineKind.ASKED and (way := as_text(said.get("way"))):
                    self.callers[way.removeprefix("caller ")] += 1
                self.ends.pop(call, None)
            case kind if kind in _ENDS:
                self.ends[call] = str(kind)
            case LineKind.FREE_CALL:
                self.free[who.removeprefix("caller ")] += 1
            case LineKind.VOTE_REFUSED:
                self.uncounted[as_text(as_object(said.get("refusal")).get("reason")) or "purged"] += 1
            case LineKind.DENIED:
                self.denials.append({**about, "reason": as_text(said.get("reason"))})
            case LineKind.GRANTED:
                people = [one.get("user") for one in objects(said.get("people"))]
                given: JsonObject = {"given_by": people, "until": said.get("until"), "used": 0, "ended": ""}
                self.grants[call] = {**about, **given}
            case LineKind.GRANT_USED if grant := self.grants.get(as_text(said.get("grant"))):
                grant["used"] = int(str(grant["used"])) + 1
            case LineKind.GRANT_REVOKED if grant := self.grants.get(call):
                grant["ended"] = as_text(as_object(said.get("refusal")).get("reason")) or "revoked"
            case LineKind.SETTLED:
                self.ends[call] = "it happened" if said.get("yes") else "it did not"
            case _:
                pass
        if line.kind in _OPERATED or who.split(" ")[0] == OPERATOR.user:
            step = shown_line(line)
            reason = as_text(said.get("text")) if step is None else step.reason
            self.operated.append({**about, "kind": str(line.kind), "reason": reason or ""})

    def result(self, found: Report) -> JsonObject:
        times = [took for one in self.people.values() for took in one.approved_after]
        for grant in self.grants.values():
            if not grant["ended"] and (until := as_text(grant["until"])) and read_stamp(until) <= self.until:
                grant["ended"] = str(LineKind.EXPIRED)
        return {
            "since": stamp(self.since),
            "until": stamp(self.until),
            "ledger": {
                "intact": found.finding is not Integrity.BROKEN,
                "said": " ".join(f"{one[:1].upper()}{one[1:]}." for one in verification_results(found)),
                "anchored_checkpoint": found.anchored,
                "lines": self.lines,
                "purged": self.purged,
                "unproven": self.unproven,
            },
            "asked": self.kinds[LineKind.ASKED],
            "let_through_by_grants": self.kinds[LineKind.GRANT_USED],
            "refused_without_asking": self.kinds[LineKind.CALL_REFUSED],
            **({"callers": dict(sorted(self.callers.items()))} if self.callers else {}),
            **({"free_calls_of_callers": dict(sorted(self.free.items()))} if self.free else {}),
            "decisions": self._counts(_DECIDED),
            "ends": {kind: count for kind in words.STATES if (count := [*self.ends.values()].count(kind))},
            "other": self._counts(_OTHER),
            "approvals": _speed(times) | {"on_the_card": sum(one.pressed for one in self.people.values())},
            "tools": [
                {"tool": tool, "asked": of[LineKind.ASKED], **{str(kind): of[kind] for kind in _DECIDED}}
                for tool, of in sorted(self.tools.items())
            ],
            "people": [one.result(who) for who, one in sorted(self.people.items())],
            "votes_that_did_not_count": dict(sorted(self.uncounted.items())),
            "denials": _by_time(self.denials),
            "grants": _by_time(self.grants.values()),
            "operators": _by_time(self.operated),
            "alarms": self._counts(_ALARMS),
            "demands": [{"part": part, "demand": demand, "shows": shows} for part, demand, shows in DEMANDS],
        }

    def _counts(self, kinds: Iterable[LineKind]) -> JsonObject:
        return {str(kind): self.kinds[kind] for kind in kinds}


def _by_time(found: Iterable[JsonObject]) -> list[Json]:
    ordered: list[JsonObject] = sorted(found, key=lambda one: str(one["at"]))
    return [*ordered]


@dataclass
class _Person:
    votes: Counter[LineKind] = field(default_factory=Counter)
    pressed: int = 0  # approvals without opening the full view
    approved_after: list[float] = field(default_factory=list)

    def voted(self, kind: LineKind, took: float | None, *, opened: bool) -> None:
        self.votes[kind] += 1
        if kind is LineKind.APPROVAL:
            self.pressed += not opened
            self.approved_after += [] if took is None else [took]

    def result(self, who: str) -> JsonObject:
        votes: JsonObject = {name: self.votes[kind] for kind, name in _VOTES.items()}
        return {"who": who, **votes, "on_the_card": self.pressed, **_speed(self.approved_after)}


def _speed(times: list[float]) -> JsonObject:
    """How long people could see the call, at most, before they approved it."""
    quick = sum(took <= QUICK for took in times)
    return {"timed": len(times), "median_seconds": round(median(times), 1) if times else None, "within_5_s": quick}


DEMANDS = (
    ("Calls", "AI Act Art. 12(1), 12(2)", "How many were recorded in the period."),
    ("Ledger", "AI Act Art. 12(1); SOC 2 CC7.2", "Whether anybody changed later what the checkpoints cover."),
    ("Denials, People", "AI Act Art. 14(4)(d)", "Who stopped a call before it ran, and why."),
    ("Calls, Operators, Grants", "AI Act Art. 14(4)(e)", "What people ended: a request, an agent's run, a permission."),
    ("How fast", "AI Act Art. 14(4)(b)", "How long people could see a call at most. Not whether they read it."),
    ("People: edits", "AI Act Art. 14(4)(d)", "What people changed before it ran."),
    ("Calls: votes that did not count", "SOC 2 CC6.1, CC6.3", "Whose votes were refused, and why."),
    ("Calls, People", "SOC 2 CC8.1", "How many calls each person approved."),
    ("Grants", "SOC 2 CC6.3, CC8.1", "How often each grant was used, who gave it, until when."),
    ("Calls: alarms", "SOC 2 CC7.2, CC7.3", "Where the service noticed that something stored had been changed."),
    ("Calls: how they ended", "SOC 2 CC7.3", "What came of calls, as a machine or people said."),
    ("Operators", "SOC 2 CC7.2, CC8.1", "What operators did, under the names that they typed."),
)
"""Which part of the report bears on which demand. The sentence says all that it shows."""


# As text, and as a page


class Section(NamedTuple):
    title: str
    sentences: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()


def _sections(found: JsonObject, names: KnownNames) -> Iterator[Section]:
    ledger = as_object(found["ledger"])
    empty = [title.lower() for title, key in _TABLES if not found[key]]
    yield Section(
        "Ledger",
        (
            str(ledger["said"]),
            f"Lines in the period: {ledger['lines']}, of which {ledger['purged']} were purged.",
            *([f"Left out, because nothing proves them: {ledger['unproven']}."] if ledger["unproven"] else []),
        ),
    )
    yield Section(
        "Calls",
        (
            f"People were asked about: {found['asked']}. Let through by grants: {found['let_through_by_grants']}. "
            f"Refused without asking anybody: {found['refused_without_asking']}.",
            *([_counted("Of these, programs asked at the door", found["callers"])] if "callers" in found else []),
            *([_counted("Programs made free calls", free)] if (free := found.get("free_calls_of_callers")) else []),
            _counted("Decisions", found["decisions"]),
            _counted("How they ended", found["ends"]),
            *([_counted("Besides", other)] if any(as_object(other := found["other"]).values()) else []),
            _counted("Votes that did not count", found["votes_that_did_not_count"]),
            _counted("Alarms", found["alarms"]),
            *([f"None in the period: {', '.join(empty)}."] if empty else []),
        ),
    )
    yield Section("How fast", tuple(_how_fast(as_object(found["approvals"]))))
    for (title, key), columns in _TABLES.items():
        rows = objects(found[key])
        head = tuple(column.replace("_", " ").capitalize() for column in columns)
        cells = [tuple(_said(column, row[column], names) for column in columns) for row in rows]
        if rows:
            yield Section(title, (), (head, *cells))


def _how_fast(speed: JsonObject) -> Iterator[str]:
    timed, pressed = int(str(speed["timed"])), int(str(speed["on_the_card"]))
    if not timed:
        yield "Nobody approved anything in the period."
        return
    half = words.duration(float(str(speed["median_seconds"])))
    yield f"Half of the {timed} approvals came within {half}." if timed > 1 else f"The one approval came after {half}."
    ways = f"Pressed on the card: {pressed}; in a form: {timed - pressed}."
    yield f"Within {QUICK:g} s: {speed['within_5_s']}. {ways}"
    yield "The ledger does not know when Slack showed a card: if it was late, people had less time to read it."


def _counted(title: str, counts: Json) -> str:
    shown = Counter[str]()
    for name, count in as_object(counts).items():
        shown[_CALLED.get(name, name)] += int(str(count))
    return f"{title}: {', '.join(f'{name} {count}' for name, count in shown.items() if count) or 'none'}."


_CALLED = {**words.STATES, str(LineKind.ELSEWHERE): words.STATES["elsewhere"]}

_ON_THE_PAGE = "Which part answers what"
"""The table for auditors, which a terminal does not show."""

_TABLES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Tools", "tools"): ("tool", "asked", *map(str, _DECIDED)),
    ("People", "people"): ("who", *_VOTES.values(), "on_the_card", "median_seconds", "within_5_s"),
    ("Denials", "denials"): ("at", "tool", "confirmation", "who", "reason"),
    ("Grants", "grants"): ("at", "tool", "confirmation", "given_by", "until", "used", "ended"),
    ("Operators", "operators"): ("at", "kind", "tool", "who", "reason"),
    (_ON_THE_PAGE, "demands"): ("part", "demand", "shows"),
}


def _said(column: str, value: Json, names: KnownNames) -> str:
    match column, value:
        case (("at" | "until"), str()) if value:
            said = _time(value)
        case "confirmation", str():
            said = value[:8]
        case _, list():
            said = ", ".join(names.of(str(one)) for one in value)
        case "who", str():
            said = names.of(value)
        case _, bool():
            said = words.YES if value else words.NO
        case "reason", "":
            said = "none recorded"
        case _, None:
            said = ""
        case _:
            said = str(value)
    return visible(said)


def _time(value: Json) -> str:
    return format_time(read_stamp(str(value)))


def report_text(found: JsonObject, names: KnownNames) -> Iterator[str]:
    """The report for a terminal: paragraphs and tables."""
    yield f"Approvals of agents' calls, {_time(found['since'])} to {_time(found['until'])}"
    for title, sentences, table in _sections(found, names):
        if title != _ON_THE_PAGE:
            said = chain.from_iterable(wrapped(visible(sentence)) for sentence in sentences)
            yield "\n".join([title.upper(), *said, *in_columns([*_folded(table)])])


def _folded(table: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The table's rows, with the last column on as many lines as it needs."""
    before = sum(2 + max(map(len, column)) for column in [*zip(*table, strict=True)][:-1])
    for *cells, last in table:
        first, *more = wrap(last, max(COLUMNS - before, 20)) or [""]
        yield (*cells, first)
        yield from ((*("" for _ in cells), one) for one in more)


def report_page(found: JsonObject, names: KnownNames) -> str:
    """The report as one HTML page, which loads nothing and runs nothing."""
    page = Template((files(__package__) / "audit_report.html").read_text(encoding="utf-8"))
    ledger = as_object(found["ledger"])
    intact, verified = bool(ledger["intact"]), str(ledger["said"]).partition(":")[0].lower()
    since, until = _time(found["since"]), _time(found["until"])
    body = "".join(chain.from_iterable(_html(one) for one in _sections(found, names)))
    state, verdict = ("intact", f"The ledger is {verified}") if intact else ("broken", "Somebody changed the ledger")
    return page.substitute(since=escape(since), until=escape(until), verdict=verdict, state=state, body=body)


def _html(section: Section) -> Iterator[str]:
    yield f"<section><h2>{escape(section.title)}</h2>"
    yield from (f"<p>{escape(visible(one))}</p>" for one in section.sentences)
    if section.table:
        head, *rows = section.table
        yield f"<div><table><tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>"
        for row in rows:
            cells = [f'<td data-is="{escape(name)}">{escape(cell)}</td>' for name, cell in zip(head, row, strict=True)]
            yield f"<tr>{''.join(cells)}</tr>"
        yield "</table></div>"
    yield "</section>"
