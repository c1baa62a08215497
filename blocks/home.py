"""Draws the Home tab, and the list that `/approvals` shows.

An item is what one needs to pick a call on a phone: its title, who asks, how many approved, until when, and one button.
That opens a view with everything, in which people approve or deny.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.card import (
    approval_status,
    calls_like,
    outcome_buttons,
    revoke_button,
    title,
    warnings,
    withdraw_button,
)
from adk_confirm.blocks.click_ids import Action, Callback, block_id, checked_id
from adk_confirm.blocks.kit import JsonObject, Message, actions, button, header, message, section
from adk_confirm.blocks.mentions import people_names
from adk_confirm.blocks.rich_text import (
    Channel,
    Line,
    Link,
    Piece,
    Say,
    TextSpan,
    User,
    When,
    code,
    join,
    line,
    linked,
    part,
    rich,
    say,
    text,
)
from adk_confirm.blocks.shown import GrantView, OutcomeKind, Shown, State
from adk_confirm.blocks.text import MESSAGE_TEXT

WAITING, ASKED, DECIDED, _GRANTS = 20, 8, 5, 4  # how many of each are shown
_LISTED = 10
_MESSAGE_BYTES = 18_000
MANY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """A person's Home tab, or a channel's list: what this reader may decide and what they asked for."""

    version: int
    reader: str = ""
    now: int = 0
    waiting: tuple[Shown, ...] = ()
    asked: tuple[Shown, ...] = ()
    decided: tuple[Shown, ...] = ()
    """By the reader, newest first."""
    here: tuple[Shown, ...] = ()
    """`/approvals` only: what waits in this channel and is not the reader's to decide."""
    grants: tuple[GrantView, ...] = ()
    more_waiting: int = 0
    more_asked: int = 0
    more_here: int = 0
    paused: bool = False
    unsure: bool = False
    """Of some calls it could not be looked up whether they wait for the reader."""


def home_tab(view: HomeView) -> JsonObject:
    """The Home tab."""
    blocks: list[JsonObject] = []
    if view.paused:
        blocks.append(rich([line(words.PAUSED)], f"paused.{view.version}"))
    blocks += _section(words.HOME_WAITING, len(view.waiting) + view.more_waiting, "waiting", view)
    for item in view.waiting[:WAITING]:
        blocks += decidable(item, "w", view.version, view.now + _SOON)
    if view.unsure:
        blocks.append(rich([line(words.HOME_UNSURE)], f"unsure.{view.version}"))
    elif not view.waiting:
        empty = [line(words.HOME_EMPTY), line("Calls that need your approval appear here and in their threads.")]
        blocks.append(rich(empty, f"empty.{view.version}"))
    blocks += _more_block(view.more_waiting + len(view.waiting[WAITING:]), words.HOME_MORE, "waiting", view)
    if view.asked or view.more_asked:
        open_ = [item for item in view.asked if item.stage in _UNDER_WAY]
        over = [_line_item(item, "a", view.version) for item in view.asked[:ASKED] if item not in open_]
        blocks += _section("You asked for", 0, "asked", view)
        blocks += [
            section(_other(item), _block_id("a", item, view.version), withdraw_button(item))
            if item.stage is State.WAITING
            else _line_item(item, "a", view.version)
            for item in open_[:ASKED]
        ]
        blocks += _more_block(view.more_asked + len(open_[ASKED:]), words.HOME_MORE, "asked", view)
        blocks += over
    if view.decided:
        last = f"Your last {DECIDED} decisions" if len(view.decided) == DECIDED else "Decided by you"
        blocks += _section(last, 0, "decided", view)
        blocks += [_line_item(item, "d", view.version, view.reader) for item in view.decided]
    if view.grants:
        blocks += _section("Allowed by you", len(view.grants), "grants", view)
        blocks += [block for grant in view.grants[:_GRANTS] for block in _grant(grant, view)]
        blocks += _more_block(len(view.grants[_GRANTS:]), words.HOME_MORE, "grants", view)
    return part("home", callback_id=Callback.HOME.value, blocks=[*blocks])


def approvals(view: HomeView) -> Message:
    """What `/approvals` shows to one person: what waits for them, then what else waits in the channel."""
    blocks: list[JsonObject] = []
    pieces: list[Piece] = [line(words.PAUSED)] if view.paused else []
    pieces += [line(words.HOME_UNSURE)] if view.unsure else []
    if pieces:
        blocks.append(rich(pieces, f"paused.{view.version}"))
    elif not view.waiting and not view.here:
        pieces = [line(words.HOME_EMPTY)]
        blocks.append(rich(pieces, f"empty.{view.version}"))
    left = 0
    for heading, items, more, where, said in (
        (words.HOME_WAITING, view.waiting, view.more_waiting, "waiting", _waits),
        ("Waiting in this channel", view.here, view.more_here, "here", _other),
    ):
        found: list[JsonObject] = []
        shown = 0
        for item in items[:_LISTED]:
            other = [rich(_other(item), _block_id(where[0], item, view.version))]
            drawn = decidable(item, where[0], view.version, view.now + _SOON) if said is _waits else other
            if sum(len(json.dumps(block)) for block in (*blocks, *found, *drawn)) > _MESSAGE_BYTES:
                break
            found, shown = [*found, *drawn], shown + 1
        if shown:
            blocks += [*_section(heading, len(items) + more, where, view), *found]
            pieces += [Line((Say(heading, bold=True),)), *(piece for item in items[:shown] for piece in said(item))]
        left += len(items) + more - shown
    blocks += _more_block(left, words.LIST_MORE, "list", view)
    return Message(text([], pieces, _more_lines(left, words.LIST_MORE), MESSAGE_TEXT), tuple(blocks))


def help_message(word: str) -> Message:
    """What people can do, or where to find the `word` that somebody wrote after the command."""
    rows = [tuple(Say(said, bold=at % 2 == 1) for at, said in enumerate(one.split("*")) if said) for one in words.HELP]
    pieces = [Line(rows[0]), *(Line(row, item=1) for row in rows[1:])]
    if word != "help":
        meant = word.split()[0].rstrip("s")
        where = next((said for names, said in words.HELP_WHERE.items() if meant in names), words.HELP_LISTS)
        pieces = [line("/approvals does not know {word}: {where}.", word=code(word), where=where)]
    return message(pieces, "help")


# -- the items


def decidable(view: Shown, part: str, version: int, soon: int = 0) -> list[JsonObject]:
    """One call of the list that the reader may decide."""
    review = button(Action.REVIEW, words.REVIEW, view.ref.encode(), about=view.tool)
    if view.stage is not OutcomeKind.UNKNOWN:
        return [section(_waits(view, soon), _block_id(part, view, version), review)]
    item = rich(_waits(view), _block_id(part, view, version))
    return [item, *actions(outcome_buttons(view, blind=True), _block_id(f"{part}.buttons", view, version))]


def _waits(view: Shown, soon: int = 0) -> list[Line]:
    """What the call is, from whom, how many approved, and until when."""
    until = When(
        view.expires_at,
        lead="⏰ until " if view.expires_at <= soon else "until ",
        clock=view.expires_at - view.asked_at < _DAY,
    )
    facts: list[Sequence[TextSpan]] = [(User(view.asked_by),)] if view.asked_by else []
    if view.stage is State.WAITING:
        facts += [say(f"{len(view.voted)} of {view.quorum} approved")] if view.quorum > 1 else []
        facts.append((until,))
    else:
        started = [say("started {when}", when=When(view.started_at))] if view.started_at else []
        facts = [(Say("Check first", bold=True),), *facts, *started]
    return [_asks(view), *([Line(join(facts, words.DOT))] if facts else []), *warnings(view)]


_SOON, _DAY = 15 * 60, 24 * 3600
_UNDER_WAY = (State.WAITING, State.APPROVED, OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)


def _headline(view: Shown) -> Line:
    return Line((linked(headline(view), view.card_link),))


def _other(view: Shown) -> list[Line]:
    """A call for others to decide."""
    facts = join([one.spans for one in approval_status(view)], words.DOT)
    return [_asks(view), Line(facts), *warnings(view)]


def _asks(view: Shown) -> Line:
    return _headline(view) if view.stage is State.WAITING and view.attempt == 1 else Line(title(view))


def _line_item(view: Shown, part: str, version: int, reader: str = "") -> JsonObject:
    """A call that no longer waits, on one line: what the reader did, what came of it, and a link to its card."""
    denied = view.stage is State.DENIED and reader in view.decided_by
    did, at = "you denied" if denied else "you approved", view.voted_at.get(reader)
    if view.said_at and reader in view.decided_by:
        did, at = "you said so", view.said_at
    mine = [say(f"{did} {{when}}", when=When(at, clock=at - view.asked_at < _DAY // 2))] if at else []
    became = [] if mine and denied else [say(words.STATES.get(view.became, view.became))]
    facts = join([*became, *mine], words.DOT)
    sign = "⏳" if view.stage is State.WAITING else words.TITLES[view.became].split()[0]
    line = Line((Say(f"{sign} "), *_headline(view).spans, Say(words.DOT), *facts))
    return rich([line], _block_id(part, view, version))


def _grant(grant: GrantView, view: HomeView) -> list[JsonObject]:
    thread = (Link(grant.thread, "a thread") if grant.thread else Say("a thread"),)
    place = (*thread, Say(" of "), Channel(grant.channel)) if grant.channel else thread
    others = [one for one in grant.by if one != view.reader]
    facts = [say("until {when} · in {place}", when=When(grant.until), place=place)]
    facts += [say("also by {others}", others=people_names(others))] if others else []
    facts += [say(used.lower())] if (used := words.uses(grant.uses, grant.used).strip(" .")) else []
    block = f"grant.{checked_id(grant.id)}.{view.version}"
    said = rich([Line(calls_like(grant)), Line(join(facts, words.DOT))], block)
    return [said, *actions([revoke_button(grant)], f"{block}.buttons")]


def _section(title: str, count: int, part: str, view: HomeView) -> list[JsonObject]:
    shown = f"{title} ({_number(count)})" if count else title
    return [header(shown, f"{part}.title.{view.version}")]


def _more_block(count: int, sentence: str, part: str, view: HomeView) -> list[JsonObject]:
    return [rich(_more_lines(count, sentence), f"{part}.more.{view.version}")] if count else []


def _more_lines(count: int, sentence: str) -> list[Line]:
    return [line(sentence, count=_number(count))] if count else []


def _number(count: int) -> str:
    """Large numbers are only counted up to a limit."""
    return str(count) if count < MANY else f"{MANY}+"


def _block_id(part: str, view: Shown, version: int) -> str:
    return block_id(part, view.ref, version)
