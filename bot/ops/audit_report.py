"""`adk-confirm audit report`: the ledger of a period as evidence for auditors: what agents asked for, who decided, how
fast, and what became of it.

It claims no more than the ledger proves: that somebody pressed a button is known, and when; what they thought is not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import chain, compress, zip_longest
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
from adk_confirm.bot.ops.audit_verify import ANCHOR, NOT_SEALED, PUBLIC_KEY, SET_IT, verification_results, verified
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
from adk_confirm.runtime.store.tables import belongs_to

QUICK = 5.0
"""Seconds. The report counts the votes to approve that came within this time: nobody can have read the call."""

_VOTES = {LineKind.APPROVAL: "approvals", LineKind.EDITED: "edits", LineKind.DENIED: "denials"}
_DECIDED = [*map(LineKind, ("approved", "denied", "expired", "withdrawn", "asked anew", "answered elsewhere"))]
_ENDS = (LineKind.DONE, LineKind.FAILED, LineKind.REFUSED, LineKind.LAPSED, LineKind.UNKNOWN, LineKind.NOBODY_KNOWS)
_LOOK_AT = ("failed", "lapsed", "unknown", "nobody knows")
_OTHER = (LineKind.ESCALATED, LineKind.REMINDED, LineKind.RUN_AGAIN, LineKind.STOPPED, LineKind.BEGUN_CHANGED)
_AFTER = "answered outside after a decision"
_ALARMS = (LineKind.UNSEALED, LineKind.ALTERED, LineKind.ELSEWHERE, _AFTER)
_OPERATED = [*map(LineKind, ("paused", "resumed", "retried", "reapplied", "purged", "sealed anew"))]


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
            raise StoreError(f"No report was made: {NOT_SEALED}. {SET_IT}")
        names = await call.known_names(database)
    made: JsonObject = {"made": stamp(at), "store": database.url, "version": version("adk-confirm")}
    done = made | tallies[-1].result(found)
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
    tools: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    waiting: dict[str, bool] = field(default_factory=dict)  # by call: whether it was asked about in the period
    people: defaultdict[str, _Person] = field(default_factory=lambda: defaultdict(_Person))  # "": everybody
    callers: Counter[str] = field(default_factory=Counter)
    free: Counter[str] = field(default_factory=Counter)  # calls of callers about which nobody is asked
    uncounted: Counter[str] = field(default_factory=Counter)
    denials: list[JsonObject] = field(default_factory=list)
    grants: dict[str, JsonObject] = field(default_factory=dict)
    operated: list[JsonObject] = field(default_factory=list)
    ends: dict[str, JsonObject] = field(default_factory=dict)  # how each call ended, as it was known last

    def hear(self, line: LedgerLine, proven: bool) -> None:
        here, call, of_tool = self.since <= line.at < self.until, line.confirmation or "", self.tools[line.tool or ""]
        if not proven or line.at >= self.until:
            self.unproven += here
            return
        waited = self.waiting.pop(call, None) if line.kind in _DECIDED else None
        if line.kind is LineKind.ASKED:
            self.waiting[call] = here
        if here:
            of_tool[line.kind if waited is not None or line.kind not in _DECIDED else _AFTER] += 1
            of_tool["open"] += (line.kind is LineKind.ASKED) - bool(waited)
            of_tool["asked before"] += waited is False
            self._add(line, content_of(line))

    def _add(self, line: LedgerLine, content: JsonObject | None) -> None:
        self.lines += 1
        self.purged += content is None
        said, call = content or {}, line.confirmation or ""
        who = as_text(as_object(said.get("who")).get("user"))
        why = as_text(as_object(said.get("refusal")).get("reason"))
        about: JsonObject = {"at": stamp(line.at), "tool": line.tool, "confirmation": line.confirmation, "who": who}
        if line.kind in _VOTES and who:
            for one in (self.people[who], self.people[""]):
                one.voted(line.kind, read_seconds(said.get("seconds")), opened=said.get("way") == "form")
        match line.kind:
            case LineKind.ASKED if way := as_text(said.get("way")):
                self.callers[way.removeprefix("caller ")] += 1
            case LineKind.RUN_AGAIN:
                self.ends.pop(call, None)
            case kind if kind in _ENDS:
                self.ends[call] = {**about, "ended": str(kind)}
            case LineKind.FREE_CALL:
                self.free[who.removeprefix("caller ")] += 1
            case LineKind.VOTE_REFUSED:
                self.uncounted[why or "purged"] += 1
            case LineKind.DENIED:
                self.denials.append({**about, "reason": as_text(said.get("reason"))})
            case LineKind.GRANTED:
                people = [one.get("user") for one in objects(said.get("people"))]
                given: JsonObject = {"given_by": people, "until": said.get("until"), "used": 0, "ended": ""}
                self.grants[call] = {**about, **given}
            case LineKind.GRANT_USED if grant := self.grants.get(as_text(said.get("grant"))):
                grant["used"] = int(str(grant["used"])) + 1
            case LineKind.GRANT_REVOKED if grant := self.grants.get(call):
                grant |= {"ended": why or "revoked", "ended_by": who}
            case LineKind.SETTLED if "yes" in said:
                self.ends[call] = {**about, "ended": "it happened" if said["yes"] else "it did not"}
            case _:
                pass
        if line.kind in _OPERATED or who.split(" ")[0] == OPERATOR.user:
            step = shown_line(line)
            reason = as_text(said.get("text")) if step is None else step.reason
            self.operated.append({**about, "kind": str(line.kind), "reason": reason or ""})

    def result(self, found: Report) -> JsonObject:
        total = sum(self.tools.values(), Counter[str]())
        for grant in self.grants.values():
            if not grant["ended"] and (until := as_text(grant["until"])) and read_stamp(until) <= self.until:
                grant["ended"] = str(LineKind.EXPIRED)
        withdrew = sum(one["kind"] == LineKind.WITHDRAWN for one in self.operated)
        ended = Counter(one["ended"] for one in self.ends.values())
        people: list[JsonObject] = [{"who": who, **one.result()} for who, one in sorted(self.people.items()) if who]
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
            "asked": total[LineKind.ASKED],
            "still_open": total["open"],
            "decided_but_asked_before": total["asked before"],
            "let_through_by_grants": total[LineKind.GRANT_USED],
            "refused_without_asking": total[LineKind.CALL_REFUSED],
            **({"callers": dict(sorted(self.callers.items()))} if self.callers else {}),
            **({"free_calls_of_callers": dict(sorted(self.free.items()))} if self.free else {}),
            "decisions": {str(kind): total[kind] for kind in _DECIDED},
            "ends": {state: ended[state] for state in words.STATES if ended[state]},
            "to_look_at": _by_time(one for one in self.ends.values() if one["ended"] in _LOOK_AT),
            "other": {"withdrawn by operators": withdrew, **{str(kind): total[kind] for kind in _OTHER}},
            "approvals": self.people[""].result(),
            "tools": [
                {"tool": tool, **{column: of[column] for column in _TABLES["Tools", "tools"][1:]}}
                for tool, of in sorted(self.tools.items())
                if any(of[column] for column in _TABLES["Tools", "tools"][1:])
            ],
            "people": [*sorted(people, key=lambda one: -int(str(one["within_5_s"])))],
            "votes_that_did_not_count": dict(sorted(self.uncounted.items())),
            "denials": _by_time(self.denials),
            "grants": _by_time(self.grants.values()),
            "operators": _by_time(self.operated),
            "alarms": {str(kind): total[kind] for kind in _ALARMS},
            "demands": [{"part": part, "demand": demand, "shows": shows} for part, demand, shows in DEMANDS],
        }


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

    def result(self) -> JsonObject:
        """Also how long people could see the call, at most, before they approved it."""
        times, votes = self.approved_after, {name: self.votes[kind] for kind, name in _VOTES.items()}
        quick = sum(round(took, 1) <= QUICK for took in times)  # as the median is shown
        speed = {"median_seconds": round(median(times), 1) if times else None, "within_5_s": quick}
        return {**votes, "on_the_card": self.pressed, "timed": len(times), **speed}


DEMANDS = (
    ("Calls, Tools", "AI Act Art. 12(1), 12(2)", "How many were recorded in the period."),
    ("Ledger", "AI Act Art. 12(1); SOC 2 CC7.2", "Whether these lines fit their seals."),
    ("How fast", "AI Act Art. 14(4)(b)", "How long people had a call before them, at most. Not whether they read it."),
    ("Denials, People", "AI Act Art. 14(4)(d)", "Who denied a call, and why, if they gave a reason."),
    ("People: edits", "AI Act Art. 14(4)(d)", "How often each person changed a call, or filled in an answer."),
    ("Calls, Operators, Grants", "AI Act Art. 14(4)(e)", "How many were withdrawn. Who paused runs, or ended a grant."),
    ("Calls: refused votes", "SOC 2 CC6.1, CC6.3", "How many votes were recorded as refused, by reason."),
    ("Grants", "SOC 2 CC6.3, CC8.1", "Of each grant of the period: who gave it, until when, how often it was used."),
    ("Alarms", "SOC 2 CC7.2, CC7.3", "How often something stored was changed, or a call answered elsewhere."),
    ("Operators", "SOC 2 CC7.2, CC8.1", "What operators did, under the name that they gave or their account has."),
    ("Calls, Calls to look at", "SOC 2 CC7.3", "How calls ended, as a machine or people said."),
    ("Calls, People", "SOC 2 CC8.1", "How many calls were approved. How often each person voted to approve."),
)
"""Which part of the report bears on which demand. The sentence says all that it shows."""


# As text, and as a page


class Section(NamedTuple):
    title: str
    sentences: Sequence[str]
    table: Sequence[tuple[str, ...]] = ()
    numbers: Collection[str] = ()  # the heads of columns of numbers


def _sections(found: JsonObject, names: KnownNames) -> Iterator[Section]:
    ledger, (look, *tables) = as_object(found["ledger"]), _tables(found, names)
    purged = f", of which {ledger['purged']} were purged" if ledger["purged"] else ""
    unproven = [f"Left out, because nothing proves them: {ledger['unproven']}."] if ledger["unproven"] else []
    yield Section("Ledger", (str(ledger["said"]), f"Lines in the period: {ledger['lines']}{purged}.", *unproven))
    calls, speed = [*_calls(found)], [*_how_fast(as_object(found["approvals"]))]
    if ledger["lines"]:
        parts = (Section("Calls", calls), look, Section("How fast", speed), *tables[:-1])
        yield from (one for one in parts if one.table or one.sentences)
    alarms, *others = any(as_object(found["alarms"]).values()), *((one.title, one.table) for one in tables[2:])
    empty = [("Calls", calls), ("Refused votes", found["votes_that_did_not_count"]), ("Alarms", alarms), *others]
    if titles := [title.lower() for title, there in empty if not there]:
        yield Section("", (f"None in the period: {', '.join(titles)}.",))
    if ledger["lines"]:
        yield tables[-1]


def _calls(found: JsonObject) -> Iterator[str]:
    keys = ("asked", "still_open", "decided_but_asked_before", "let_through_by_grants", "refused_without_asking")
    yield from _counted("In the period", {key.replace("_", " "): found[key] for key in keys})
    yield from _counted("Of these, programs asked at the door", found.get("callers"))
    yield from _counted("Programs made free calls", found.get("free_calls_of_callers"))
    yield from _counted("Decided", found["decisions"])
    yield from (f"{name.capitalize()}: {count}." for name, count in as_object(found["other"]).items() if count)
    yield from _counted("Outcomes", found["ends"])
    yield from _counted("Refused votes", found["votes_that_did_not_count"])
    yield from _counted("Alarms", found["alarms"])


def _how_fast(speed: JsonObject) -> Iterator[str]:
    votes, timed, pressed = (int(str(speed[name])) for name in ("approvals", "timed", "on_the_card"))
    if not timed:
        return
    half, them = words.duration(float(str(speed["median_seconds"]))), f"{timed} of them" if timed < votes else "them"
    came = f"Half of {them} came within {half} of the ask." if timed > 1 else f"One came {half} after the ask."
    yield f"Votes to approve: {votes}. {came}"
    yield f"Within {QUICK:g} s: {speed['within_5_s']}. Pressed on the card: {pressed}; in a form: {votes - pressed}."
    yield "The ledger does not know when Slack showed a card: if it was late, people had less time to read it."


def _counted(title: str, counts: Json) -> list[str]:
    shown = Counter[str]()
    for name, count in as_object(counts).items():
        shown[_CALLED.get(name, name)] += int(str(count))
    said = ", ".join(f"{name} {count}" for name, count in shown.items() if count)
    return [f"{title}: {said}."] if said else []


_CALLED = {
    **{**words.STATES, "answered elsewhere": words.STATES["elsewhere"], "asked for it": "by the requester"},
    **{"it happened": "people said it took effect", "it did not": "people said it had no effect"},
}

_ON_THE_PAGE = "Which part answers what"
"""The table for auditors, which a terminal does not show."""

_TABLES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Calls to look at", "to_look_at"): ("at", "tool", "confirmation", "ended"),
    ("Tools", "tools"): ("tool", "asked", "asked before", *_DECIDED, "open", "grant used", "call refused"),
    ("People", "people"): ("who", "approvals", "on_the_card", "median_seconds", "within_5_s", "edits", "denials"),
    ("Denials", "denials"): ("at", "tool", "confirmation", "who", "reason"),
    ("Grants", "grants"): ("at", "tool", "confirmation", "given_by", "until", "used", "ended"),
    ("Operators", "operators"): ("at", "kind", "tool", "confirmation", "who", "reason"),
    (_ON_THE_PAGE, "demands"): ("part", "demand", "shows"),
}
_HEADS = {
    **{"at": "At ({})", "until": "Until ({})", "kind": "What", "approvals": "Votes to approve"},
    **{"median_seconds": "Median", "answered elsewhere": "Elsewhere"},
    **{"grant used": "By grant", "call refused": "Refused"},
}


def _tables(found: JsonObject, names: KnownNames) -> Iterator[Section]:
    for (title, key), columns in _TABLES.items():
        rows = objects(found[key])
        times = [row[name] for row in rows for name in ("at", "until") if row.get(name)]
        zone = "/".join(dict.fromkeys(_time(one).rpartition(" ")[2] for one in times))
        shown = [name for name in columns if rows and (title != "Tools" or any(row[name] for row in rows))]
        cells = [tuple(_said(name, row, names) for name in shown) for row in rows]
        heads = tuple(_HEADS.get(name, name.replace("_", " ").capitalize()).format(zone) for name in shown)
        counts = (any(isinstance(row[name], int | float) for row in rows) for name in shown)
        numbers = [*compress(heads, counts)]
        yield Section(title, (), [heads, *cells] if rows else (), numbers)


def _said(column: str, row: JsonObject, names: KnownNames) -> str:
    match column, row[column]:
        case (("at" | "until"), str() as value) if value:
            said = _time(value).rpartition(" ")[0]
        case "confirmation", str() as value:
            said = value[:8]
        case _, list() as people:
            said = ", ".join(names.of(str(one)) for one in people)
        case "who", str() as value:
            said = names.of(value)
        case "ended", str() as value:
            by = as_text(row.get("ended_by"))
            said = f"{value} by {names.of(by)}" if by else words.STATES.get(value, value)
        case "median_seconds", float() as value:
            said = words.duration(value)
        case "reason", "":
            said = "none recorded"
        case _, None:
            said = ""
        case _, value:
            said = str(value)
    return visible(said)


def _time(value: Json) -> str:
    return format_time(read_stamp(str(value)))


def report_text(found: JsonObject, names: KnownNames) -> Iterator[str]:
    """The report for a terminal: paragraphs and tables."""
    title = f"Approvals of agents' calls, {_time(found['since'])} to {_time(found['until'])}"
    yield "\n".join([title, *wrapped(_source(found))])
    for title, sentences, table, _ in _sections(found, names):
        if title != _ON_THE_PAGE:
            said = chain.from_iterable(wrapped(visible(sentence)) for sentence in sentences)
            yield "\n".join([*([title.upper()] if title else []), *said, *in_columns([*_folded(table)])])


def _source(found: JsonObject) -> str:
    return visible(f"Made {_time(found['made'])} from {found['store']} by adk-confirm {found['version']}")


def _folded(table: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The table's rows, on as many lines as they need to fit a terminal. Short words and times are kept
    whole if possible."""
    columns = [*zip(*table, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    parts = [[len(one) for cell in column for one in re.findall(r"[\d-]+ [\d:]+|\S+", cell)] for column in columns]
    whole = [max(one for one in found if one <= COLUMNS // 3) for found in parts]
    while sum(widths) + 2 * len(widths) - 2 > COLUMNS:
        widths[max(range(len(widths)), key=lambda at: (widths[at] > whole[at], widths[at]))] -= 1
    for row in table:
        cells = (wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True))
        yield from zip_longest(*cells, fillvalue="")


def report_page(found: JsonObject, names: KnownNames) -> str:
    """The report as one HTML page, which loads nothing and runs nothing."""
    page = Template((files(__package__) / "audit_report.html").read_text(encoding="utf-8"))
    verified = str(as_object(found["ledger"])["said"]).partition(":")[0].lower()
    verdict = "Somebody changed the ledger" if verified == "broken" else f"The ledger is {verified}"
    since, until, source = map(escape, (_time(found["since"]), _time(found["until"]), _source(found)))
    body = "".join(chain.from_iterable(map(_html, _sections(found, names))))
    return page.substitute(since=since, until=until, source=source, verdict=verdict, state=verified, body=body)


_COUNT, _TIED = r" (?=[0-9]+[,.;])", "\N{NO-BREAK SPACE}"
"""A number stays on the line of its word."""


def _html(section: Section) -> Iterator[str]:
    yield f"<section><h2>{escape(section.title)}</h2>" if section.title else "<section>"
    yield from (f"<p>{re.sub(_COUNT, _TIED, escape(visible(one)))}</p>" for one in section.sentences)
    yield "<div><table>" if section.table else ""
    for row in section.table:
        yield "<tr>"
        for name, cell in zip(section.table[0], row, strict=True):
            tag = "th" if row is section.table[0] else "td"
            kind = "number" if name in section.numbers else "short" if len(cell) <= COLUMNS // 3 else "long"
            yield f'<{tag} class="{kind}" data-is="{escape(name)}">{escape(cell)}</{tag}>'
        yield "</tr>"
    yield "</table></div></section>" if section.table else "</section>"
