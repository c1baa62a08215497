"""What will run: hint, tool and every argument, within the room that a place has, and whether anything had to be cut.

`blind` is the rule by which Approve opens the whole first. It is true exactly when some part of what would run is not
shown to the last character: the hint, the tool's name, an argument's name or value, or an argument altogether. The
same run that draws the pieces finds it out, so what is drawn and what is claimed can't differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from blocks import words
from blocks.rich import Box, Line, Link, Piece, Quote, Say, Span, Supplied, User, When, line, name
from blocks.text import right_to_left, seen, units
from blocks.values import Shown, shown
from blocks.view import ABSENT, Absent, Argument, CardView, Face, FieldDiff


@dataclass(frozen=True, slots=True)
class Room:
    """How much a place can hold, in units, lines and arguments."""

    value: int
    lines: int
    total: int
    arguments: int
    name: int = 60
    hint: int = 400
    old: int = 200
    result: int = 600

    @property
    def enough(self) -> int:
        """How much of a value is worth writing out: more than fits, and no more than any view could show."""
        return min(2 * max(self.value, self.result), _ANY_VIEW)


_ENDLESS = 10**9
_ANY_VIEW = 300_000
CARD = Room(value=600, lines=10, total=2000, arguments=20)
LIST = Room(value=120, lines=2, total=400, arguments=6, hint=120, old=80, result=120)
WHOLE = Room(*[_ENDLESS] * 8)


@dataclass(slots=True)
class _Drawing:
    """The pieces so far, the units that they took, and what had to go."""

    room: Room
    pieces: list[Piece] = field(default_factory=list)
    spent: int = 0
    blind: bool = False
    cut: bool = False

    def add(self, *pieces: Piece) -> None:
        self.pieces.extend(pieces)

    def fitted(self, text: str, limit: int, lines: int | None = None, *, runs: bool = True) -> str:
        """The text as far as it fits; `runs` says that it is part of what would run."""
        done = seen(text, limit, lines, keep="\n\t" if lines else "")
        if not done.whole:
            self.cut = True
            self.blind = self.blind or runs
        self.spent += units(done.text)
        return done.text

    @property
    def left(self) -> int:
        return self.room.total - self.spent


@dataclass(frozen=True, slots=True)
class Content:
    intro: tuple[Piece, ...]
    """Who asks, and why."""
    arguments: tuple[Piece, ...]
    blind: bool
    """Some part of what would run is missing: nobody may approve from here."""
    cut: bool
    """Anything at all is missing: "See everything" shows it."""


def content(view: CardView, room: Room) -> Content:
    drawing = _Drawing(room)
    _say_tool(view, drawing)
    if view.face is Face.WAITING:
        drawing.add(asked(view))
    if view.hint and not _says_nothing(view.hint, view.tool):
        drawing.add(Quote(drawing.fitted(view.hint, room.hint, room.lines)))
    intro = tuple(drawing.pieces)
    _say_arguments(view, drawing)
    return Content(intro, tuple(drawing.pieces[len(intro) :]), drawing.blind, drawing.cut)


TOOL_IN_TITLE = 100


def _say_tool(view: CardView, drawing: _Drawing) -> None:
    """The title names the tool; a name too long for it is cut there, and whole where there is room."""
    if not seen(view.tool, TOOL_IN_TITLE).whole:
        drawing.add(Box(drawing.fitted(view.tool, drawing.room.hint)))


def asked(view: CardView) -> Line:
    agent = name(view.agent, 80)
    if view.face is Face.WAITING:
        row = line(words.ASKS_FOR if view.asked_by else words.ASKS, agent=agent, asker=_asker(view))
    else:
        when = When(view.asked_at)
        row = line(words.ASKED_FOR if view.asked_by else words.ASKED, agent=agent, asker=_asker(view), when=when)
    if view.session_link:
        return Line((*row.spans, Say(words.DOT), Link(view.session_link, words.CONVERSATION)))
    return row


def _asker(view: CardView) -> Span:
    return User(view.asked_by or "")


def _says_nothing(hint: str, tool: str) -> bool:
    """The hints that stand there when nobody wrote one: the title says as much, in words for people."""
    ours = f"Approve execution of tool {tool}?"
    adk = f"Please approve or reject the tool call {tool}()"
    return hint in (ours, f"{adk}.") or hint.startswith(f"{adk} by responding with a FunctionResponse")


def _say_arguments(view: CardView, drawing: _Drawing) -> None:
    changed = {change.path: change for change in view.diff}
    answer = view.payload if view.answered else ()
    if not view.arguments and not view.question:
        drawing.add(Line((Say(words.NO_ARGUMENTS),)))
    if view.arguments and view.question:
        drawing.add(Line((Say(words.ASKS_ABOUT),)))
    _say_values(view.arguments, {} if view.wants_payload else changed, drawing)
    if answer:
        drawing.add(Line((Say(words.THE_ANSWER if view.question else words.ANSWER),)))
        _say_values(answer, changed, drawing)
    own = {argument.name for argument in (answer if view.wants_payload else view.arguments)}
    _say_changes([change for change in view.diff if change.path not in own], drawing)


def _say_values(arguments: Sequence[Argument], changed: Mapping[str, FieldDiff], drawing: _Drawing) -> None:
    for index, argument in enumerate(arguments):
        if index >= drawing.room.arguments or drawing.left < _LEAST:
            drawing.add(Line((Say(words.more_arguments(len(arguments) - index)),)))
            drawing.blind = drawing.cut = True
            return
        if argument.masked:
            name = _say_name(argument.name, drawing)
            drawing.add(Line((*name, Say(words.HIDDEN_VALUE))))
        else:
            _say_value(argument.name, argument.value, changed.get(argument.name), drawing)


_LEAST = 80  # with less room than this a value would only be a stump
_NAME_ON_A_LINE = 120


def _say_name(name: str, drawing: _Drawing, *, runs: bool = True) -> tuple[Span, ...]:
    """The spans that a line begins with: none for a name that has to stand in a box above it."""
    name = name or '""'
    if drawing.room.name > _NAME_ON_A_LINE and not seen(name, _NAME_ON_A_LINE).whole:
        drawing.add(Line((Say(words.NAME),)), Box(drawing.fitted(name, drawing.room.name)))
        return ()
    return (Supplied(drawing.fitted(name, drawing.room.name, runs=runs), bold=True), Say(" "))


def _say_value(
    name: str, value: JsonValue | Absent, change: FieldDiff | None, drawing: _Drawing, *, runs: bool = True
) -> None:
    """`name value`, or `name old → new`; on lines of its own what does not go on one."""
    room, begin = drawing.room, _say_name(name, drawing, runs=runs)
    now, was = _shown(value, room), _shown(change.old, room) if change else None
    if not (now.boxed or (was and was.boxed) or right_to_left(name)):
        drawing.spent += units(now.text)
        drawing.add(Line((*begin, *((_code(was), Say(words.ARROW)) if was else ()), _code(now))))
        return
    if begin:
        drawing.add(Line(begin[:1]))
    limit = min(room.value, max(drawing.left, _LEAST)) if runs else room.old
    drawing.add(Box(drawing.fitted(now.text, limit, room.lines, runs=runs)))
    if was:
        drawing.add(Line((Say(words.WAS),)), Box(drawing.fitted(was.text, room.old, room.lines, runs=False)))


def _shown(value: JsonValue | Absent, room: Room) -> Shown:
    return Shown("", boxed=False) if value is ABSENT else shown(value, room.enough)


def _code(value: Shown) -> Span:
    return Supplied(value.text) if value.text else Say(words.NOTHING)


_CHANGES = 10


def _say_changes(changes: Sequence[FieldDiff], drawing: _Drawing) -> None:
    """Differences deeper inside an argument: the value above is what runs, these say what is new about it."""
    if not changes:
        return
    drawing.add(Line((Say(words.CHANGED),)))
    most = len(changes) if drawing.room is WHOLE else _CHANGES
    for change in changes[:most]:
        _say_value(change.path, change.new, change, drawing, runs=False)
    if changes[most:]:
        drawing.add(Line((Say(words.more(len(changes) - most)),)))
        drawing.cut = True


def differences(changes: Sequence[FieldDiff]) -> tuple[Piece, ...]:
    """A diff by itself, for the thread."""
    drawing = _Drawing(LIST)
    _say_changes(changes, drawing)
    return tuple(drawing.pieces[1:])


def values(arguments: Sequence[Argument], room: Room) -> tuple[Piece, ...]:
    """Arguments by themselves, for the thread."""
    drawing = _Drawing(room)
    _say_values(arguments, {}, drawing)
    return tuple(drawing.pieces)
