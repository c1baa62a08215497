"""Draws what will run (hint, tool and every argument) within a limited space, and knows whether anything was cut.

If `blind` is true, Approve opens the full view first. It is true exactly when some part of what would run is not shown
completely: the hint while the call waits, the tool's name, an argument's name or value, or a whole argument. The code
that draws the pieces also computes this, so that both always agree.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.exact_values import spell_on_one_line, spell_value
from adk_confirm.blocks.readable import (
    BOXED,
    LONGEST_TITLE,
    Readable,
    in_title,
    readable,
    readable_name,
    scalar,
    words_of,
)
from adk_confirm.blocks.rich_text import (
    Box,
    Line,
    Link,
    Piece,
    Prose,
    Quote,
    Say,
    ShortLine,
    Supplied,
    TextSpan,
    User,
    When,
    code,
    join,
    name,
    say,
    spoken,
)
from adk_confirm.blocks.text import fit_visible, right_to_left, units, visible
from adk_confirm.bot.confirmation.model import OutcomeKind, State
from adk_confirm.bot.confirmation.shown import ABSENT, Absent, Argument, FieldDiff, Shown
from adk_confirm.bot.policy.model import Formats
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.titles import CURRENCIES, title_fields


@dataclass(frozen=True, slots=True)
class Space:
    """How much a place can hold: units of text, lines and arguments. In `exact` places values are JSON."""

    value: int
    lines: int
    total: int
    arguments: int
    name: int = 60
    hint: int = 130
    old: int = 60
    result: int = 260
    preview: int = 500
    preview_lines: int = 8
    exact: bool = False
    titled: bool = False
    """The headline stands above it. What that shows whole is not repeated."""

    @property
    def enough(self) -> int:
        """How much of a value to render: more than fits, but no more than any view could show."""
        return min(2 * max(self.value, self.result), _ANY_VIEW)


_ENDLESS = 10**9
_ANY_VIEW = 300_000
CARD = Space(value=130, lines=3, total=900, arguments=12)
LIST = Space(value=86, lines=2, total=400, arguments=6, hint=86, result=120, preview=86, preview_lines=2)
WHOLE = Space(
    *(_ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS),
    preview=_ENDLESS,
    preview_lines=_ENDLESS,
    exact=True,
)


@dataclass(slots=True)
class _Drawing:
    """The pieces so far, their units, and whether something was left out."""

    room: Space
    pieces: list[Piece] = field(default_factory=list)
    spent: int = 0
    blind: bool = False
    cut: bool = False

    def add(self, *pieces: Piece) -> None:
        self.pieces.extend(pieces)

    def fitted(self, text: str, limit: int, lines: int | None = None, *, runs: bool = True) -> str:
        """The text, cut if it does not fit. `runs`: it is part of what would run."""
        done = fit_visible(text, limit, lines, keep="\n\t" if lines else "")
        if not done.whole:
            self.left_out(runs=runs)
        self.spent += units(done.text)
        return done.text

    def left_out(self, *, runs: bool = True) -> None:
        self.cut = True
        self.blind = self.blind or runs

    @property
    def left(self) -> int:
        return self.room.total - self.spent


@dataclass(frozen=True, slots=True)
class DrawnCall:
    intro: tuple[Piece, ...]
    """Who asks, and why."""
    arguments: tuple[Piece, ...]
    blind: bool
    """Some part of what would run is missing: nobody may approve from here."""
    cut: bool
    """Anything at all is missing: "See everything" shows it."""


def content(view: Shown, room: Space) -> DrawnCall:
    drawing = _Drawing(room)
    _say_tool(view, drawing)
    if view.stage is State.WAITING:
        drawing.add(asked_by_line(view, exact=room.exact))
    # Once it is decided, the reason to ask is behind "See everything".
    wanted = room.exact or view.question or view.stage is State.WAITING
    if view.hint and wanted and not _says_nothing(view.hint, view.tool):
        drawing.add(Quote(drawing.fitted(view.hint, room.hint, room.lines)))
    if view.why and wanted:
        drawing.add(Line((Say("The agent says: "), Prose(drawing.fitted(view.why, room.hint, runs=False)))))
    intro = tuple(drawing.pieces)
    _say_arguments(view, drawing)
    if view.preview and view.preview.failed is None and (view.stage is State.WAITING or room.exact):
        _say_preview(view, view.preview, drawing)
    return DrawnCall(intro, tuple(drawing.pieces[len(intro) :]), drawing.blind, drawing.cut)


def reasons(view: Shown, room: Space) -> list[Piece]:
    """What the tool's author and the agent say it is for, without who asks."""
    return [piece for piece in content(view, room).intro if piece != asked_by_line(view)]


# -- the headline

TOOL_IN_TITLE = 100
_FIRST = 3


def headline(view: Shown) -> str:
    """What the call will do, in one sentence: the title with its arguments, or the tool's name and the first ones.

    It may hold what an agent chose: draw it as plain text, or as `Prose`.
    """
    if view.question:
        return f"Question from {fit_visible(view.agent, 80).text}"
    answer = describe_answer(view.payload, view.arguments) if view.answered else None
    if answer is None or not answer.complete:
        return _policy_title(view) or _default_title(view)
    asked = _policy_title(view) or words_of(fit_visible(view.tool, TOOL_IN_TITLE).text)
    return f"{asked}: {''.join(map(spoken, answer.spans))}"


def _policy_title(view: Shown) -> str | None:
    given = {argument.name: argument for argument in view.arguments}
    text = ""
    try:
        parts = list(string.Formatter().parse(view.title or ""))
    except ValueError:
        return None
    for literal, path, _, _ in parts:
        text += literal
        if path is not None:
            part = _part(given, path)
            if part is None:
                return None
            signed = text[-1:] in CURRENCIES and part.removeprefix("-").startswith(text[-1])
            text = f"{text[:-1]}{part}" if signed else f"{text}{part}"
    text = visible(text.strip())
    return text if text and units(text) <= LONGEST_TITLE else None


def _part(given: Mapping[str, Argument], path: str) -> str | None:
    first, *rest = path.split(".")
    argument = given.get(first)
    if argument is None or argument.masked:
        return None
    value: JsonValue = argument.value
    for key in rest:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return in_title(value, dict(argument.formats).get(".".join(rest)), path.split(".")[-1])


def _default_title(view: Shown) -> str:
    """`Deploy (service checkout, env prod)`."""
    tool, parts = words_of(fit_visible(view.tool, TOOL_IN_TITLE).text), _first_values(view)
    return f"{tool} ({', '.join(parts.values())})" if parts else tool


def _first_values(view: Shown) -> dict[str, str]:
    tool = words_of(fit_visible(view.tool, TOOL_IN_TITLE).text)
    parts: dict[str, str] = {}
    for argument in [one for one in view.arguments if not one.is_default][:_FIRST]:
        kind = dict(argument.formats).get("")
        value = None if argument.masked else in_title(argument.value, kind, argument.name)
        if value is None or not argument.name.isidentifier():
            continue
        called = readable_name(argument.name)
        many = isinstance(argument.value, list) and value == f"{len(argument.value):,} {called.lower()}"  # named by it
        part = value if many else f"{called} {value}"
        if units(f"{tool} ({', '.join([*parts.values(), part])})") > LONGEST_TITLE:
            break
        parts[argument.name] = part
    return parts


def _in_headline(view: Shown) -> frozenset[str]:
    """The arguments that the headline shows whole, and so that it can be read in one way only: each is a word apart
    from the others. One of them may be a sentence, if the title says where it stands."""
    if view.answered:
        return frozenset()
    named = alone = {*_first_values(view)}
    if titled := _policy_title(view) is not None:
        try:
            in_words = [title_fields(word) for word in (view.title or "").split()]
        except ValueError:
            return frozenset()
        named = {field.split(".")[0] for fields in in_words for field in fields}
        alone = {fields[0] for fields in in_words if len(fields) == 1}
    long = {one.name for one in view.arguments if one.name in named and not _is_word(one.value)}
    sentence = {
        one.name
        for one in view.arguments
        if titled and isinstance(one.value, str) and _is_plain(one.value)
        if _ends_clearly(one.name, one.value, view.title or "")
    }
    known = {one.name for one in view.arguments}
    return frozenset(alone & known - (long - sentence if len(long) == 1 else long))


def _ends_clearly(name: str, value: str, title: str) -> bool:
    """Whether it is clear where a sentence in a title begins and ends. It is not in `Send {what} to {whom}` if the
    sentence is "the keys to ann": the keys may be for somebody else."""
    parts = [*string.Formatter().parse(title), ("", None, None, None)]
    return all(
        (not before or f"{before}{value}".rindex(before) == 0)
        and (not after or f"{value}{after}".index(after) == len(value))
        for (before, field, _, _), (after, *_) in pairwise(parts)
        if field == name
    )


def _is_word(value: JsonValue) -> bool:
    if isinstance(value, str):
        return " " not in value and _is_plain(value)
    return not isinstance(value, dict | list)


def _is_plain(value: str) -> bool:
    """Whether it reads the same with quotes and without them."""
    return " ".join(value.split()) == value == spell_on_one_line(value)


def _say_tool(view: Shown, drawing: _Drawing) -> None:
    """Draws the tool's name in a box of its own if it is too long for the line about who asked."""
    if not fit_visible(view.tool, TOOL_IN_TITLE).whole:
        drawing.add(Box(drawing.fitted(view.tool, max(drawing.room.hint, 400))))


def asked_by_line(view: Shown, *, exact: bool = False) -> Line:
    agent, alone = name(view.agent, 80), view.only_agent and not exact
    through = "Asked by {asker}" if alone else "Asked by {asker} through {agent}"
    template = through if view.asked_by else "Asked by {agent}"
    row = say(template, agent=agent, asker=User(view.asked_by or ""))
    if view.stage not in (State.WAITING, OutcomeKind.UNKNOWN):  # an unknown call says when it started
        row += say(", {when}", when=When(view.asked_at))
    if not view.question:
        row += (Say(words.DOT), code(view.tool, TOOL_IN_TITLE))
    if view.session_link:
        row += (Say(words.DOT), Link(view.session_link, "Conversation"))
    return Line(row)


def _says_nothing(hint: str, tool: str) -> bool:
    """Whether there is no useful hint: none, or only "Approve this …?". The headline is better then."""
    adk = f"Please approve or reject the tool call {tool}()"
    if hint == f"{adk}." or hint.startswith(f"{adk} by responding with a FunctionResponse"):
        return True
    return re.fullmatch(_NO_MORE, hint.strip(), re.IGNORECASE) is not None


_NO_MORE = r"(?:please )?(?:approve|confirm)(?: execution of)?(?: (?:this|the|tool))+(?: [\w-]{1,40}){0,2} ?[?.!]?"


# -- arguments


def _say_arguments(view: Shown, drawing: _Drawing) -> None:
    changed = {change.path: change for change in view.diff}
    answer = view.payload if view.answered else ()
    if not view.arguments and not view.question:
        drawing.add(ShortLine((Say("No arguments"),)))
    if view.arguments and view.question:
        drawing.add(Line((Say("About"),)))
    titled = _in_headline(view) if drawing.room.titled else frozenset[str]()
    _say_values(view.arguments, {} if view.wants_payload else changed, drawing, titled)
    if answer:
        drawing.add(Line((Say("The answer" if view.question else "With this answer"),)))
        _say_values(answer, changed, drawing)
    own = {argument.name for argument in (answer if view.wants_payload else view.arguments)}
    _say_changes([change for change in view.diff if change.path not in own], view.arguments, drawing)


def _say_values(
    arguments: Sequence[Argument],
    changed: Mapping[str, FieldDiff],
    drawing: _Drawing,
    titled: frozenset[str] = frozenset(),
) -> None:
    """The values that somebody chose, then the defaults. Those `titled` stand in the headline, unless they changed."""
    there = titled - changed.keys()
    arguments = sorted((one for one in arguments if one.name not in there), key=lambda argument: argument.is_default)
    for index, argument in enumerate(arguments):
        if argument.is_default and (not index or not arguments[index - 1].is_default):
            drawing.add((ShortLine if titled else Line)((Say("Not given, so by default"),)))
        if index >= drawing.room.arguments or drawing.left < _LEAST:
            drawing.add(Line((Say(words.more_arguments(len(arguments) - index)),)))
            drawing.left_out()
            return
        if argument.masked:
            name = _say_name(argument.name, drawing)
            drawing.add(ShortLine((*name, Say(words.HIDDEN_VALUE))))
        else:
            _say_value(argument, argument.value, changed.get(argument.name), drawing)


_LEAST = 80  # with less room than this, too little of a value would be left
_NAME_ON_A_LINE = 120


def _say_name(name: str, drawing: _Drawing, *, runs: bool = True) -> tuple[TextSpan, ...]:
    """The spans that begin a line. None for a name that needs a box above the line."""
    name = (name if drawing.room.exact else readable_name(name)) or '""'
    if drawing.room.name > _NAME_ON_A_LINE and not fit_visible(name, _NAME_ON_A_LINE).whole:
        drawing.add(Line((Say("Name"),)), Box(drawing.fitted(name, drawing.room.name)))
        return ()
    return (Supplied(drawing.fitted(name, drawing.room.name, runs=runs), bold=True), Say(" "))


def _say_value(
    argument: Argument, value: JsonValue | Absent, change: FieldDiff | None, drawing: _Drawing, *, runs: bool = True
) -> None:
    """`name value`, or `name old → new`. What does not fit on a line gets boxes below the name."""
    room, begin = drawing.room, _say_name(argument.name, drawing, runs=runs)
    limit = min(room.value, max(drawing.left, _LEAST))
    now = _written(argument, value, room, limit)
    was = _written(argument, change.old, room, room.old) if change else None
    if now.box or (was and was.box) or right_to_left(argument.name):  # such a name could change places with the value
        if named := (*begin[:1], *_of_text(value)):
            drawing.add(Line(named))
        drawing.add(Box(drawing.fitted(_exactly(value, room), limit if runs else room.old, room.lines, runs=runs)))
        if change:
            old = drawing.fitted(_exactly(change.old, room), room.old, room.lines, runs=False)
            drawing.add(Line((Say("was"),)), Box(old))
        return
    if not now.whole:
        drawing.left_out(runs=runs)
    if was and not (was.whole and not was.below):
        drawing.left_out(runs=False)
    said = [*now.beside, *(span for one in now.below for span in one.spans)]
    drawing.spent += sum(units(spoken(span)) for span in said)
    before = (*was.beside, Say(words.ARROW)) if was else ()
    drawing.add((Line if now.below else ShortLine)((*begin, *before, *now.beside)), *now.below)


def _of_text(value: JsonValue | Absent) -> tuple[TextSpan, ...]:
    """A text in a box that reads like a list, an object or a number is none of them, as a tool that takes anything can
    tell."""
    return (Say(" as text"),) if isinstance(value, str) and _LIKE_ANOTHER.match(value) else ()


_LIKE_ANOTHER = re.compile(r"\s*(?:[\[{]|-?[0-9][0-9.e+-]*\s*\Z|-?0x[0-9a-f]+\s*\Z)")


def _written(argument: Argument, value: JsonValue | Absent, room: Space, limit: int) -> Readable:
    """The value as this place shows it: exactly, or as people read it."""
    if value is ABSENT:
        return Readable((Say(words.NOTHING),))
    if not room.exact:
        return readable(value, argument.name, dict(argument.formats), limit, room.lines)
    exact = spell_value(value, room.enough)
    return BOXED if exact.boxed else Readable((Supplied(exact.text),))


def _exactly(value: JsonValue | Absent, room: Space) -> str:
    return "" if value is ABSENT else spell_value(value, room.enough).text


_CHANGES = 10


def _say_changes(changes: Sequence[FieldDiff], of: Sequence[Argument], drawing: _Drawing) -> None:
    """The differences inside an argument. The value above is what runs; these show what is new in it."""
    if not changes:
        return
    drawing.add(Line((Say("Changed"),)))
    most = len(changes) if drawing.room.exact else _CHANGES
    for change in changes[:most]:
        formats = next((one.formats for one in of if one.name == change.path), ())
        _say_value(Argument(change.path, None, formats=formats), change.new, change, drawing, runs=False)
    if changes[most:]:
        drawing.add(Line((Say(words.more(len(changes) - most)),)))
        drawing.cut = True


# -- what the tool says that it would do


def _say_preview(view: Shown, preview: Preview, drawing: _Drawing) -> None:
    room, written = drawing.room, preview.text
    if view.approved_preview:
        changed, diffs = preview.changes_from(view.approved_preview), (written, view.approved_preview.text)
        drawing.add(Line((Say("⚠️ What it would do has changed since it was approved", bold=True),)))
        if not changed:
            drawing.add(Line((Say("The difference is in a hidden value, or in how the same is written."),)))
        elif not all(map(_HUNK.search, diffs)):  # nobody reads the difference of two diffs: the new one follows
            drawing.add(Box(drawing.fitted("\n".join(changed), room.preview, room.preview_lines)))
    by_edit = ", changed by the edit" if view.changed_by_edit else ""
    drawing.add(Line((Say(f"What it would do{by_edit}", bold=True), *_size_of_diff(written))))
    drawing.add(Box(drawing.fitted(written, room.preview, room.preview_lines)))
    if view.preview_is_masked:
        drawing.add(Line((Say("The policy hides some of it."),)))
        drawing.blind = True
    if view.preview_is_older:
        drawing.add(Line((Say("That was made before the edit. If the new one differs, you are asked again."),)))


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_FILE = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ -)", re.MULTILINE)


def _size_of_diff(written: str) -> tuple[TextSpan, ...]:
    """`: 3 files, +12 −4`, if the text is a unified diff."""
    if not _HUNK.search(written):
        return ()
    changed, files = _FILE.subn("", written)  # a line that was `-- x` is `--- x` where it is taken out
    more, fewer = (sum(line.startswith(mark) for line in changed.split("\n")) for mark in "+-")
    where = f"{words.counted(files, 'files') if files > 1 else '1 file'}, "
    return (Say(f": {where}+{more:,}\u00a0−{fewer:,}"),)


def differences(changes: Sequence[FieldDiff], of: Sequence[Argument]) -> tuple[Piece, ...]:
    """A diff without a card, for the thread."""
    drawing = _Drawing(LIST)
    _say_changes(changes, of, drawing)
    return tuple(drawing.pieces[1:])


def values(arguments: Sequence[Argument], room: Space) -> tuple[Piece, ...]:
    """Arguments without a card, for the thread."""
    drawing = _Drawing(room)
    _say_values(arguments, {}, drawing)
    return tuple(drawing.pieces)


def result(value: JsonValue, room: Space, formats: Formats = ()) -> tuple[list[Piece], bool]:
    """What a tool returned, and whether some of it had to be cut."""
    drawing = _Drawing(replace(room, value=room.result))
    if room.exact:
        drawing.add(Box(spell_value(value, room.enough).text))
    elif isinstance(value, dict) and all(isinstance(inner, str | int | float | None) for inner in value.values()):
        found = readable(value, words.RESULT, dict(formats), room.result, room.lines)
        if found.box:
            drawing.add(Box(drawing.fitted(spell_value(value, room.enough).text, room.result, room.lines)))
        else:
            drawing.add(Line(found.beside))
    else:
        _say_value(Argument(words.RESULT, value, formats=formats), value, None, drawing)
    return drawing.pieces, drawing.cut


# -- an answer in words

_FIELDS = 3
_LONG = 80


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer in words. `complete`: it says by itself what was approved."""

    spans: tuple[TextSpan, ...]
    complete: bool


def describe_answer(answer: Sequence[Argument], call: Sequence[Argument]) -> AnswerText | None:
    """Describes what was filled in. None if every field was left empty.

    The answer is complete if it is one number that belongs to an argument of the call by name: `approved_days` belongs
    to `days`, and `rejected_days` does not. Empty fields are left out.
    """
    given = [one for one in answer if one.masked or one.value is not None]
    if len(given) == 1 and (whole := _original_of(given[0], call)) is not None:
        return AnswerText(_part_of(given[0], whole), complete=True)
    parts = [(name(readable_name(field.name), _LONG), Say(" "), _value(field)) for field in given[:_FIELDS]]
    more = [Say(words.more(len(given) - _FIELDS))] if len(given) > _FIELDS else []
    return AnswerText(join([*parts, *more]), complete=False) if parts else None


def _original_of(field: Argument, call: Sequence[Argument]) -> Argument | None:
    named = (one for one in call if f"approved_{one.name}" == field.name and _is_number(one))
    return next(named, None) if _is_number(field) else None


def _is_number(one: Argument) -> bool:
    return not one.masked and isinstance(one.value, int | float) and not isinstance(one.value, bool)


def _part_of(field: Argument, whole: Argument) -> tuple[TextSpan, ...]:
    formats = field.formats or whole.formats
    called = readable_name(whole.name)
    unit = () if formats else (Say(" "), Prose(called) if whole.name.isidentifier() else name(called, _LONG))
    return (_value(field, whole), Say(" of "), _value(whole, field), *unit)


def _value(one: Argument, like: Argument | None = None) -> TextSpan:
    if one.masked:
        return Say(words.HIDDEN_VALUE)
    formats = one.formats or (like.formats if like else ())
    span = scalar(one.value, dict(formats).get(""), one.name)
    fitted = fit_visible(spoken(span), _LONG)
    return span if fitted.whole else Supplied(fitted.text)
