"""Checks every promise against a history. Each finding is a broken promise. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from adk_confirm.blocks import words
from adk_confirm.blocks.card import ASKED_AGAIN
from adk_confirm.blocks.readable import words_of
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State
from adk_confirm.bot.store.cast_vote import TRIES
from bench.chaos.history import ClickRecord, Entry, Finding, History, Place
from bench.chaos.plan import TOOLS
from bench.chaos.story import Story, thread_of
from bench.chaos.threads import threads_tell_it_once, words_stand_once

_T = TypeVar("_T")
DECISIONS = ("approved", "denied", "expired", "withdrawn", "answered elsewhere")
WORDS_OF_PEOPLE = ("approval", "edited", "denied", "withdrawn", "settled", "run again vote", "vote refused")
NEW_CARD_WITHIN, NEW_RUN_WITHIN = 10.0, 10.0
_QUORUM = {tool.name: tool.quorum for tool in TOOLS}
_IDEMPOTENT = {tool.name for tool in TOOLS if tool.idempotent}


def check(history: History) -> list[Finding]:
    story = Story(history)
    return [finding for promise in PROMISES.values() for finding in promise(story)]


# What was acknowledged


def heard(story: Story) -> Iterator[Finding]:
    """Every acknowledged message is answered once."""
    said = [(one.place, one.text) for one in story.history.messages if one.kind == "said"]
    for one in story.history.said:
        if not one.answer:
            continue
        times = sum(text.count(one.answer) for place, text in said if place == one.thread)
        if times > 1 or (one.heard and times == 0):
            what = f"“{one.words}” was answered {times} times"
            yield Finding("acknowledged words are answered once", what, thread=one.thread)


def asked(story: Story) -> Iterator[Finding]:
    """Every call that somebody requested from the agent becomes one confirmation."""
    put: Counter[tuple[Place | None, str]] = Counter(
        (thread_of(entry.session), entry.tool)
        for entry in story.history.ledger
        if entry.kind in ("asked", "call refused")
    )
    acked = {one.thread: one.heard for one in reversed(story.history.said)}
    for call in story.history.asked:
        times = put[call.thread, call.tool]
        if times > 1 or (times == 0 and acked.get(call.thread)):
            yield Finding("a call is put to people once", f"{call.tool} was put {times} times", call.ticket)


def asked_by(story: Story) -> Iterator[Finding]:
    """Each confirmation names the person who requested the call."""
    wanted = {call.ticket: call for call in story.history.asked}
    for confirmation, entry in story.confirmations.items():
        call, name = wanted.get(story.ticket(confirmation)), story.history.names.get(entry.who)
        if call is not None and name != call.asker:
            what = f"{call.asker} asked, the ledger says {name}"
            yield Finding("a call is asked in its asker's name", what, call.ticket)


def counted(story: Story) -> Iterator[Finding]:
    """The ledger has every vote from acknowledged clicks, and no vote without a click. Pressing a button again while
    the first press waits to be counted adds no vote, and whoever was refused often enough has no more lines."""
    ids = {name: id_ for id_, name in story.history.names.items()}
    for confirmation in {*story.clicks, *story.confirmations}:
        said_so = [entry for entry in story.lines[confirmation] if entry.kind in WORDS_OF_PEOPLE]
        lines = Counter(entry.who for entry in said_so)
        refused = Counter(entry.who for entry in said_so if entry.kind == "vote refused")
        clicks = _grouped_by_voter(story.clicks[confirmation], ids)
        for who in {*lines, *clicks}:
            said = {_vote_of(click) for click in clicks[who] if click.acked}
            made = {click.same for click in clicks[who]}
            least = lines[who] if refused[who] >= TRIES else len(said)
            if not least <= lines[who] <= len(made):
                name = story.history.names.get(who, who)
                what = f"{name} clicked {len(made)} times, {len(said)} acknowledged; the ledger has {lines[who]}"
                yield Finding("acknowledged clicks are counted", what, story.ticket(confirmation))


def _grouped_by_voter(clicks: Sequence[ClickRecord], ids: Mapping[str, str]) -> dict[str, list[ClickRecord]]:
    found: dict[str, list[ClickRecord]] = defaultdict(list)
    for click in clicks:
        found[ids.get(click.who, click.who)].append(click)
    return found


def _vote_of(click: ClickRecord) -> str:
    return click.same if click.form else f"{click.how} {click.amount}"


def answered(story: Story) -> Iterator[Finding]:
    """Everybody whose vote is refused is told why. Of several votes on one confirmation, only the newest counts
    here."""
    whispers = Counter(one.who for one in story.history.whispers)
    owed: dict[str, set[str]] = defaultdict(set)
    for entry in story.history.ledger:
        if entry.kind == "vote refused" and entry.content.get("way") == "button":
            owed[entry.who].add(entry.confirmation)
    for who, about in owed.items():
        if whispers[who] < len(about):
            what = f"{story.history.names.get(who, who)} was refused on {len(about)} confirmations"
            yield Finding("whoever is refused is told why", f"{what} and told {whispers[who]} times")


# What runs


def decided_once(story: Story) -> Iterator[Finding]:
    for confirmation in story.confirmations:
        made = [kind for kind in story.kinds(confirmation) if kind in DECISIONS]
        if len(made) != 1:
            yield Finding("one decision each", f"decided {made or 'never'}", story.ticket(confirmation))


def ran_once(story: Story) -> Iterator[Finding]:
    """An approved call ran once for each attempt, or its outcome is unknown and the card asks about it."""
    for confirmation, entry in story.confirmations.items():
        kinds, (began, ended) = story.kinds(confirmation), story.ran(confirmation)
        ticket = story.ticket(confirmation)
        if "approved" not in kinds:
            if began:
                yield Finding("nothing runs that was not approved", f"{kinds[-1]}, and began {began} times", ticket)
            continue
        attempts = 1 + kinds.count("run again")
        if began > attempts and entry.tool not in _IDEMPOTENT:
            yield Finding("an approved call runs once", f"began {began} times in {attempts} attempts", ticket)
        if "unknown" not in kinds and "lapsed" not in kinds and ended == 0:
            yield Finding("an approved call runs once", f"approved, and never ended: {kinds}", ticket)
        elif story.face(confirmation) in (State.APPROVED, OutcomeKind.RUNNING):
            yield Finding("an approved call runs once", f"it came to no end: {kinds}", ticket)
        if "lapsed" in kinds and began and "unknown" not in kinds:
            yield Finding("nothing runs that was not approved", f"lapsed, and began {began} times", ticket)
    known = {story.ticket(confirmation) for confirmation in story.confirmations}
    for ticket in story.effects.keys() - known:
        if story.effects[ticket]:
            yield Finding("nothing runs that was not approved", "it ran, and the ledger does not know of it", ticket)


def ran_as_approved(story: Story) -> Iterator[Finding]:
    """A call ran with the amount of the ledger's last revision, which enough approvers saw or typed when they
    clicked."""
    for confirmation, entry in story.confirmations.items():
        ticket = story.ticket(confirmation)
        amounts = {effect.amount for effect in story.effects[ticket]}
        last = _amount_after_edits(story.lines[confirmation])
        if amounts - {last}:
            what = f"ran with {sorted(amounts)}, approved with {last}"
            yield Finding("what ran is what was approved", what, ticket)
        for amount in amounts:
            saw = {
                click.who
                for click in story.clicks[confirmation]
                if click.how in ("Approve", "Edit") and click.amount == amount
            }
            if len(saw) < _QUORUM.get(entry.tool, 1):
                what = f"ran with {amount}, which only {sorted(saw) or 'nobody'} approved"
                yield Finding("what ran is what was approved", what, ticket)


def _amount_after_edits(lines: Sequence[Entry]) -> object:
    amount: object = None
    for line in lines:
        arguments, after = line.content.get("arguments"), line.content.get("after")
        if line.kind == "asked" and isinstance(arguments, dict):
            amount = arguments.get("amount")
        if line.kind == "edited" and isinstance(after, dict):
            amount = after.get("amount", amount)
    return amount


# What people see


def one_card_a_place(story: Story) -> Iterator[Finding]:
    for confirmation in story.confirmations:
        places = Counter(card.place if card.place[0] != "C0DESK" else "desk" for card in story.cards[confirmation])
        if not places:
            yield Finding("one card in each place", "there is no card", story.ticket(confirmation))
        for place, times in places.items():
            if times > 1:
                yield Finding("one card in each place", f"{times} cards in {place}", story.ticket(confirmation))


def cards_show_the_end(story: Story) -> Iterator[Finding]:
    for confirmation, entry in story.confirmations.items():
        face = story.face(confirmation)
        stages = (OutcomeKind.HAPPENED, OutcomeKind.DID_NOT) if face is OutcomeKind.HAPPENED else (face,)
        titles = [words.TITLES[stage] for stage in stages]
        wanted = tuple(title.replace("{what}?", "{what}").format(what=words_of(entry.tool)) for title in titles)
        for card in story.cards[confirmation]:
            shown = card.text.splitlines()[0] if card.text else ""
            if not shown.startswith(wanted):
                yield Finding(
                    "cards show the end", f"“{shown}” instead of “{' or '.join(wanted)}”", story.ticket(confirmation)
                )
            elif (
                not card.buttons
                if face in (State.WAITING, OutcomeKind.UNKNOWN)
                else {*card.buttons} - {"Ask again" if face in ASKED_AGAIN else ""}
            ):
                what = f"“{shown}” has the buttons {list(card.buttons)}"
                yield Finding("cards show the end", what, story.ticket(confirmation))


# The ledger


def ledger_verifies(story: Story) -> Iterator[Finding]:
    code, text = story.history.verified
    if code != 0:
        yield Finding("the ledger verifies", text.strip())


def ledger_tells_the_log(story: Story) -> Iterator[Finding]:
    """Every call that ended is done or unknown in the ledger, and every call that is done has ended. None failed,
    because no tool fails."""
    for confirmation in story.confirmations:
        kinds, (began, ended) = story.kinds(confirmation), story.ran(confirmation)
        ticket = story.ticket(confirmation)
        if "done" in kinds and ended == 0:
            yield Finding("the ledger tells the tools' log", "done, and it never ended", ticket)
        if ended and not {"done", "unknown"} & set(kinds):
            yield Finding("the ledger tells the tools' log", f"it ended, and the ledger says {kinds}", ticket)
        if began and not {"begun", "done", "unknown"} & set(kinds):
            yield Finding("the ledger tells the tools' log", f"it began, and the ledger says {kinds}", ticket)
        if wrong := {"failed", "refused"} & set(kinds):
            yield Finding("the ledger tells the tools' log", f"{sorted(wrong)}, and no tool fails", ticket)


# Afterwards


def nothing_is_owed(story: Story) -> Iterator[Finding]:
    for row in story.history.owed:
        yield Finding("everything heals", row)


def replicas_go_on(story: Story) -> Iterator[Finding]:
    """A replica that loses its database or Slack for a while continues without a restart."""
    for one in story.history.gave_up:
        yield Finding("replicas go on", one)


def new_work_is_done(story: Story) -> Iterator[Finding]:
    for new in story.history.renewed:
        if new.card is None or new.card > NEW_CARD_WITHIN:
            yield Finding("new Done: Work at once", f"its card came after {new.card} s", new.ticket)
        elif new.began is None or new.began > NEW_RUN_WITHIN:
            yield Finding("new Done: Work at once", f"it began {new.began} s after the click", new.ticket)


PROMISES: Mapping[str, Callable[[Story], Iterator[Finding]]] = {
    promise.__name__: promise
    for promise in (
        heard,
        asked,
        asked_by,
        counted,
        answered,
        decided_once,
        ran_once,
        ran_as_approved,
        one_card_a_place,
        cards_show_the_end,
        threads_tell_it_once,
        words_stand_once,
        ledger_verifies,
        ledger_tells_the_log,
        nothing_is_owed,
        replicas_go_on,
        new_work_is_done,
    )
}
