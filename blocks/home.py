"""Draws the Home tab, and the list that `/approvals` shows. They have the same buttons as a card.

An item is what one needs to pick a call on a phone: its title, why, who asks, how long is left; then its first button
and a menu. Where the title does not show everything that would run, what is missing stands below it if that is one
line; otherwise Approve opens the full view first. Why it can't be approved now stands there too, as on its card.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import Space, content, headline, reasons
from adk_confirm.blocks.card import (
    approval_status,
    grant_text,
    list_buttons,
    outcome,
    preview_notices,
    revoke_button,
    votes_of,
    withdraw_button,
)
from adk_confirm.blocks.click_ids import Ref, block_id, checked_id
from adk_confirm.blocks.kit import (
    JsonObject,
    Message,
    actions,
    header,
    home,
    message,
)
from adk_confirm.blocks.mentions import people_names
from adk_confirm.blocks.rich_text import (
    Line,
    Link,
    Piece,
    Prose,
    Say,
    ShortLine,
    TextSpan,
    User,
    When,
    beside_each_other,
    join,
    line,
    rich,
    say,
    text,
)
from adk_confirm.blocks.text import MESSAGE_TEXT
from adk_confirm.bot.confirmation.model import OutcomeKind, State
from adk_confirm.bot.confirmation.shown import GrantView, Shown
from adk_confirm.bot.confirmation.states import SAID_BY_PEOPLE

WAITING, ASKED, DECIDED, _GRANTS = 20, 8, 5, 4  # how many of each are shown
_ITEM = Space(value=60, lines=1, total=200, arguments=6, hint=86, result=120, titled=True)
_LISTED = 10
_MESSAGE_BYTES = 18_000
MANY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """A person's Home tab, or a channel's list: what this reader may decide and what they asked for."""

    version: int
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


def home_tab(view: HomeView) -> JsonObject:
    """The Home tab."""
    blocks: list[JsonObject] = []
    if view.paused:
        blocks.append(rich([line(words.PAUSED)], f"paused.{view.version}"))
    blocks += _section(words.HOME_WAITING, len(view.waiting) + view.more_waiting, "waiting", view)
    for item in view.waiting[:WAITING]:
        blocks += decidable(item, "w", view.version)
    if not view.waiting:
        blocks.append(
            rich(
                [line(words.HOME_EMPTY), line("When an agent needs your approval, it appears here and in its thread.")],
                f"empty.{view.version}",
            )
        )
    blocks += _more_block(view.more_waiting + len(view.waiting[WAITING:]), words.HOME_MORE, "waiting", view)
    if view.asked or view.more_asked:
        blocks += _section("You asked for", len(view.asked) + view.more_asked, "asked", view)
        blocks += [block for item in view.asked[:ASKED] for block in _request_item(item, view.version)]
        blocks += _more_block(view.more_asked + len(view.asked[ASKED:]), words.HOME_MORE, "asked", view)
    if view.decided:
        blocks += _section(words.HOME_DECIDED, 0, "decided", view)
        blocks += [_line_item(item, "d", view.version) for item in view.decided]
    if view.grants:
        blocks += _section("Your grants", len(view.grants), "grants", view)
        blocks += [block for grant in view.grants[:_GRANTS] for block in _grant(grant, view.version)]
        blocks += _more_block(len(view.grants[_GRANTS:]), words.HOME_MORE, "grants", view)
    return home(blocks)


def approvals(view: HomeView) -> Message:
    """What `/approvals` shows to one person: what waits for them, then what else waits in the channel."""
    blocks: list[JsonObject] = []
    pieces: list[Piece] = [line(words.PAUSED)] if view.paused else []
    if pieces:
        blocks.append(rich(pieces, f"paused.{view.version}"))
    elif not view.waiting and not view.here:
        pieces = [line(words.HOME_EMPTY)]
        blocks.append(rich(pieces, f"empty.{view.version}"))
    left = 0
    for title, items, more, part, draw, said in (
        (words.HOME_WAITING, view.waiting, view.more_waiting, "waiting", decidable, _summary),
        ("Waiting in this channel", view.here, view.more_here, "here", _other_item, _other),
    ):
        found: list[JsonObject] = []
        shown = 0
        for item in items[:_LISTED]:
            drawn = draw(item, part[0], view.version)
            if _size([*blocks, *found, *drawn]) > _MESSAGE_BYTES:
                break
            found, shown = [*found, *drawn], shown + 1
        if shown:
            blocks += [*_section(title, len(items) + more, part, view), *found]
            pieces += [Line((Say(title, bold=True),)), *(piece for item in items[:shown] for piece in said(item))]
        left += len(items) + more - shown
    blocks += _more_block(left, words.LIST_MORE, "list", view)
    return Message(text([], pieces, _more_lines(left, words.LIST_MORE), MESSAGE_TEXT), tuple(blocks))


def help_message() -> Message:
    pieces = [line(sentence) for sentence in words.HELP]
    return message(pieces, rich(pieces, "help"))


# -- the items


def decidable(view: Shown, part: str, version: int) -> list[JsonObject]:
    """A call that the reader may decide."""
    _, blind = _values(view)
    item = rich(_summary(view), _block_id(part, view, version))
    return [item, *actions(list_buttons(view, blind=blind), _block_id(f"{part}.buttons", view, version))]


def _values(view: Shown) -> tuple[list[Piece], bool]:
    """What the title leaves out, if it fits on one line; and whether something of what would run is not shown."""
    what = content(view, _ITEM)
    blind = what.blind or not all(isinstance(piece, ShortLine) for piece in what.arguments)
    return [] if blind else beside_each_other(what.arguments, words.DOT), blind


def _summary(view: Shown) -> list[Piece]:
    """What the call is, why, from whom, until when, and where its card is."""
    values, _ = _values(view)
    became, _ = outcome(view, _ITEM)
    facts: list[Sequence[TextSpan]] = [say("From {asker}", asker=User(view.asked_by))] if view.asked_by else []
    if view.stage is State.WAITING and view.quorum > 1:
        facts.append(say(votes_of(view, len(view.voted))))
    if view.stage is State.WAITING:
        facts.append(say(words.UNTIL, when=When(view.expires_at)))
    return [
        _headline(view),
        *became,
        *reasons(view, _ITEM),
        *values,
        *preview_notices(view, _ITEM.hint),
        Line(join([*facts, *_card_link(view)], words.DOT)),
    ]


def _headline(view: Shown, *after: TextSpan) -> Line:
    return Line((Prose(headline(view), bold=True), *after))


def _card_link(view: Shown) -> list[Sequence[TextSpan]]:
    return [(Link(view.card_link, words.CARD),)] if view.card_link else []


def _other_item(view: Shown, part: str, version: int) -> list[JsonObject]:
    """A call for others to decide."""
    return [rich(_other(view), _block_id(part, view, version))]


def _other(view: Shown) -> list[Piece]:
    facts = [*(one.spans for one in approval_status(view)), *_card_link(view)]
    first = _headline(view, *(Say(words.DOT),) * bool(facts), *join(facts, words.DOT))
    return [first, *preview_notices(view, _ITEM.hint)]


def _line_item(view: Shown, part: str, version: int) -> JsonObject:
    """A call in one line: its state, and a link to its card."""
    state: Sequence[TextSpan] = (Say(words.STATES[view.stage]),)
    if isinstance(view.stage, OutcomeKind) and view.stage in SAID_BY_PEOPLE and view.decided_by:
        state = say(f"{words.STATES[view.stage]}, says {{who}}", who=people_names(view.decided_by))
    facts = join([state, say("asked {when}", when=When(view.asked_at)), *_card_link(view)], words.DOT)
    return rich([_headline(view, Say(words.DOT), *facts)], _block_id(part, view, version))


def _request_item(view: Shown, version: int) -> list[JsonObject]:
    """One of the reader's own requests, and a button to withdraw it while it waits."""
    if view.stage is not State.WAITING:
        return [_line_item(view, "a", version)]
    item = rich(_other(view), _block_id("a", view, version))
    return [item, *actions([withdraw_button(view)], _block_id("a.buttons", view, version))]


def _grant(grant: GrantView, version: int) -> list[JsonObject]:
    block = f"grant.{checked_id(grant.id)}.{version}"
    row = [revoke_button(grant)]
    return [rich([grant_text(grant, listed=True)], block), *actions(row, f"{block}.buttons")]


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
    return block_id(part, Ref(view.id, view.revision), version)


def _size(blocks: Iterable[JsonObject]) -> int:
    return sum(len(json.dumps(block)) for block in blocks)
