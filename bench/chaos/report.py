"""The printed report: tables of faults and of what people did, the verdict, and what happened around each finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from bench.chaos.checks import PROMISES
from bench.chaos.history import Finding, History, Place
from bench.chaos.plan import Plan
from bench.chaos.replicas import Exit
from bench.chaos.story import Story, thread_of

_MOST_STORIES = 3


def table_of_faults(plan: Plan, met: Mapping[str, int], exits: Sequence[Exit]) -> list[str]:
    """Each kind of fault: how often it occurred, and how many of Slack's calls it affected."""
    struck = Counter(one.name for one in plan.breaks)
    lines = [f"{'what broke':40} {'times':>6} {'calls':>6}"]
    for name, times in sorted(struck.items()):
        lines.append(f"{name:40} {times:6} {met.get(name, ''):>6}")
    away = sum(not one.served for one in exits)
    lines += [f"{'a replica could not start meanwhile':40} {away:6}"] if away else []
    return lines


def table_of_work(history: History) -> list[str]:
    story = Story(history)
    kinds = Counter(entry.kind for entry in history.ledger)
    acked = sum(click.acked for click in history.clicked)
    heard = sum(said.heard for said in history.said)
    ended = sum(effect.phase == "ends" for effect in history.effects)
    slowest = max((new.card or 0.0) + (new.began or 0.0) for new in history.renewed) if history.renewed else 0.0
    rows = {
        "messages to the agent": f"{len(history.said)}, {heard} acknowledged",
        "clicks and forms": f"{len(history.clicked)}, {acked} acknowledged",
        "calls put to people": f"{len(story.confirmations)}, {kinds['call refused']} refused without asking",
        "decisions": ", ".join(f"{kinds[kind]} {kind}" for kind in ("approved", "denied", "expired", "withdrawn")),
        "tools": f"{len(history.effects) - ended} began, {ended} ended; {kinds['unknown']} times nobody knew",
        "the ledger": history.verified[1].strip(),
        "new work, from asking to running": f"{slowest:.1f} s at most",
    }
    return [f"{name:40} {value}" for name, value in rows.items()]


def verdict(plan: Plan, history: History, findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return [f"All {len(PROMISES)} promises held: seed {plan.seed}, {plan.seconds:g} seconds."]
    broken = Counter(finding.promise for finding in findings)
    lines = [f"{times:4} x broken: {promise}" for promise, times in broken.most_common()]
    for finding in _first_of_each(findings):
        lines += ["", f"BROKEN: {finding.promise}: {_subject(finding)}{finding.what}", *story_of(history, finding)]
    again = f"python -m bench.chaos --seconds {plan.seconds:g} --seed {plan.seed}"
    return [*lines, "", f"{len(findings)} findings. The same plan again: {again}"]


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    first = {finding.promise: finding for finding in reversed(findings)}
    return [first[promise] for promise in dict.fromkeys(finding.promise for finding in findings)][:_MOST_STORIES]


def _subject(finding: Finding) -> str:
    return f"{finding.ticket}: " if finding.ticket else ""


# The story of one thread


def story_of(history: History, finding: Finding) -> list[str]:
    """Everything that happened in the finding's thread, and the faults in that time, in order of time."""
    threads = {call.ticket: call.thread for call in history.asked}
    thread = finding.thread or threads.get(finding.ticket)
    if thread is None:
        return []
    moments = sorted(_moments(history, thread))
    if not moments:
        return []
    begins, ends = moments[0][0] - 5, moments[-1][0] + 1
    broke = [(one.at, f"    ~~ {one.what}, {one.seconds:.1f} s") for one in history.happened]
    moments = sorted([*moments, *(one for one in broke if begins <= one[0] <= ends)])
    now = [f"  at the end: {message.kind}: {message.text!r}" for message in history.messages if message.place == thread]
    return [*(f"  {_clock(at)} {what}" for at, what in moments), *now]


def _moments(history: History, thread: Place) -> Iterator[tuple[float, str]]:
    tickets = {call.ticket for call in history.asked if call.thread == thread}
    for said in history.said:
        if said.thread == thread:
            yield said.at, f"{said.who} says: {said.words}{_unless_acked(said.heard)}"
    for click in history.clicked:
        if click.ticket in tickets:
            what = f"{click.who}: {click.how} {click.ticket} at amount {click.amount}{_unless_acked(click.acked)}"
            yield click.at, f"{what} {click.answer}".rstrip()
    for effect in history.effects:
        if effect.ticket in tickets:
            yield effect.at, f"  >> {effect.tool} {effect.phase}: {effect.ticket}, amount {effect.amount}"
    for entry in history.ledger:
        if thread_of(entry.session) == thread:
            who = history.names.get(entry.who, "")
            what = f"  ## {entry.seq} {entry.kind} {entry.tool} {who} {entry.content.get('text') or ''}"
            yield datetime.fromisoformat(entry.at).timestamp(), what.rstrip()


def _unless_acked(acked: bool) -> str:
    return "" if acked else " (not acknowledged)"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3]


def lines(parts: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts)
