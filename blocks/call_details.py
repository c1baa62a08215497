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

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.exact_values import ON_ONE_LINE, spell_value
from adk_confirm.blocks.mentions import people_names
from adk_confirm.blocks.plan import Plan, plan_of
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
    Supplied,
    TextSpan,
    User,
    When,
    code,
    join_list,
    line,
    name,
    say,
    spoken,
)
from adk_confirm.blocks.shown import ABSENT, Absent, Argument, FieldDiff, Formats, OutcomeKind, Shown, State
from adk_confirm.blocks.text import fit_visible, plain, right_to_left, units, visible
from adk_confirm.runtime.jsontypes import same
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
    preview: int = 800
    preview_lines: int = 12
    exact: bool = False
    small: bool = False
    """Short values that the headline shows, and all of a call that is over, are small print."""

    @property
    def enough(self) -> int:
        """How much of a value to render: more than fits, but no more than any view could show."""
        return min(2 * max(self.value, self.result), _ANY_VIEW)


_ENDLESS = 10**9
_ANY_VIEW = 300_000
CARD = Space(value=130, lines=3, total=900, arguments=12, small=True)
LIST = Space(value=86, lines=2, total=400, arguments=6, hint=86, result=120, preview=86, preview_lines=2)
WHOLE = Space(
    *(_ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS, _ENDLESS),
    preview=_ENDLESS,
    preview_lines=_ENDLESS,
    exact=True,
)


_SMALL = 70


@dataclass(slots=True)
class Drawing:
    """What a place shows so far, and whether something was left out."""

    room: Space
    over: bool = False
    """The call is decided, and so short values are small print."""
    below: str | None = None
    """What stands below the arguments. An argument with the same value refers to it."""
    runs: list[Piece] = field(default_factory=list)
    """What would run or ran: what was changed, the arguments, the plan."""
    words: list[Piece] = field(default_factory=list)
    """What the tool and the agent say about it."""
    small: list[tuple[TextSpan, ...]] = field(default_factory=list)
    """The rest of the arguments, for small print."""
    spent: int = 0
    blind: bool = False
    """Some part of what would run is missing: nobody may approve from here."""
    cut: bool = False
    """Anything at all is missing: "All details" shows it."""

    def add(self, *pieces: Piece) -> None:
        self.runs.extend(pieces)

    def say_short(self, spans: tuple[TextSpan, ...], *, small: bool) -> None:
        """Adds a line that is complete in itself, or small print."""
        if small and self.room.small and sum(units(spoken(span)) for span in spans) <= _SMALL:
            self.small.append(spans)
        else:
            self.add(Line(spans))

    def fitted(self, text: str, limit: int, lines: int | None = None, *, runs: bool = True) -> str:
        """The text, cut if it does not fit. `runs`: it is part of what would run."""
        done = fit_visible(text, limit, lines, keep="\n\t" if lines else "")
        if not done.whole:
            self.left_out(runs=runs)
        self.spent += units(done.text)
        return done.text

    def box(self, plan: Plan, limit: int, lines: int, *, runs: bool = True) -> None:
        """Lines in a box, with the number of those that do not fit."""
        head, tail = plan.cut(lines, limit)
        self.add(Box(self.fitted(head, limit, lines, runs=runs) + tail))
        if tail:
            self.left_out(runs=runs)

    def left_out(self, *, runs: bool = True) -> None:
        self.cut = True
        self.blind = self.blind or runs

    @property
    def left(self) -> int:
        return self.room.total - self.spent


def content(view: Shown, room: Space) -> Drawing:
    whole = view.preview.text.strip() if view.preview and view.preview.failed is None else None
    drawing = Drawing(room, below=whole, over=view.stage not in (State.WAITING, OutcomeKind.UNKNOWN))
    if not fit_visible(view.tool, TOOL_IN_TITLE).whole:  # too long for the line about who asked
        drawing.add(Box(drawing.fitted(view.tool, max(room.hint, 400))))
    plan = plan_of(view.preview) if view.preview and view.preview.failed is None else None
    if plan is not None and view.approved_preview is not None:
        _say_drift(view, plan.since(plan_of(view.approved_preview)), drawing)
    _say_arguments(view, drawing)
    if plan is not None:
        _say_preview(view, plan, drawing)
    asked = question(view)
    in_title = asked is not None and (not room.exact or plain(asked, _QUESTION) == view.hint)
    if view.hint and not in_title and not _says_nothing(view.hint, view.tool):
        by = "the agent" if view.question else "the tool"
        drawing.words.append(Quote(drawing.fitted(view.hint, room.hint, room.lines), (Say(by),)))
    if view.why:
        why = drawing.fitted(view.why, room.hint, room.lines, runs=False)
        drawing.words.append(Quote(why, (Say("the agent"),)))
    return drawing


# -- the headline

TOOL_IN_TITLE = 100
_FIRST = 3
_QUESTION = 140


def headline(view: Shown) -> str:
    """What the call will do, in one sentence: the title with its arguments, or the tool's name and the first arguments.

    The sentence may hold what an agent chose: draw it as plain text, or as `Prose`.
    """
    if view.question:
        return question(view) or f"Question from {fit_visible(view.agent, 80).text}"
    answer = describe_answer(view.payload, view.arguments) if view.answered else None
    if answer is None or not answer.complete:
        return _policy_title(view) or default_title(view.tool, view.arguments)
    asked = _policy_title(view) or words_of(fit_visible(view.tool, TOOL_IN_TITLE).text)
    return f"{asked}: {''.join(map(spoken, answer.spans))}"


def question(view: Shown) -> str | None:
    """What an agent asks, if a title can hold it."""
    asked = fit_visible(view.hint or "", _QUESTION)
    return asked.text if view.question and view.hint and asked.whole else None


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


def default_title(tool: str, arguments: Sequence[Argument]) -> str:
    """`Configure checkout`, `Request time off: 3 days`, `Order laptop: 16 inch, memory 16`."""
    called, parts = words_of(fit_visible(tool, TOOL_IN_TITLE).text), first_values(tool, arguments)
    alone = len(parts) == 1 and all(isinstance(one.value, str) for one in arguments if one.name in parts)
    return f"{called}{' ' if alone else ': '}{', '.join(parts.values())}" if parts else called


def first_values(tool: str, arguments: Sequence[Argument]) -> dict[str, str]:
    """What a title without a title says of a call, by the arguments' names."""
    called = words_of(fit_visible(tool, TOOL_IN_TITLE).text)
    parts: dict[str, str] = {}
    for argument in [one for one in arguments if not one.is_default][:_FIRST]:
        kind = dict(argument.formats).get("")
        value = None if argument.masked else in_title(argument.value, kind, argument.name)
        if value is None or not argument.name.isidentifier():
            continue
        noun, number = readable_name(argument.name), isinstance(argument.value, int) and kind is None
        if isinstance(argument.value, list) and len(argument.value) > 1:
            part = words.counted(len(argument.value), argument.name)
        elif isinstance(argument.value, str | list):
            part = value  # texts need no name
        else:
            plural = number and argument.value != 1 and noun.endswith("s") and not noun.endswith("ss")
            part = f"{value} {noun}" if plural and not isinstance(argument.value, bool) else f"{noun} {value}"
        if units(f"{called}: {', '.join([*parts.values(), part])}") > LONGEST_TITLE:
            break
        parts[argument.name] = part
    return parts


def _in_headline(view: Shown) -> frozenset[str]:
    """The arguments that the headline names. A card says them once more in small print, each with its name."""
    if view.answered or view.question:
        return frozenset()
    if _policy_title(view) is None:
        return frozenset(first_values(view.tool, view.arguments))
    return frozenset(field.split(".")[0] for field in title_fields(view.title or ""))


def asked_by_line(view: Shown, *, exact: bool = False) -> Line:
    agent, alone = name(view.agent, 80), view.only_agent and not exact
    if view.question:
        template = "{agent} asks, for {asker}" if view.asked_by else "{agent} asks"
    elif view.asked_by:
        template = "Asked by {asker}" if alone else "Asked by {asker} through {agent}"
    else:
        template = "Asked by {agent}"
    row = say(template, agent=agent, asker=User(view.asked_by or ""))
    if view.stage not in (State.WAITING, OutcomeKind.UNKNOWN):  # an unknown call says when it started
        row += say(", {when}", when=When(view.asked_at))
    if exact and not view.question:
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


def _say_arguments(view: Shown, drawing: Drawing) -> None:
    """What was changed, then the rest: the values that somebody chose, then the defaults."""
    answer = view.payload if view.answered else ()
    of = answer if view.wants_payload else view.arguments
    if view.diff and of:
        who = say(" by {who}", who=User(view.edited_by)) if view.edited_by else ()
        drawing.add(Line((Say("✏️ "), Say("Changed", bold=True), *who)))
    whole = _say_changes(view.diff, of, drawing)
    if not view.arguments and not view.question:
        drawing.say_short((Say("No arguments"),), small=True)
    titled = _in_headline(view)
    if view.question and view.arguments and not drawing.room.small:
        drawing.add(Line((Say("About:"),)))
    _say_values([one for one in view.arguments if one.name not in whole], drawing, titled, small=view.question or None)
    if answer and not drawing.over:
        drawing.add(Line((Say("The answer:" if view.question else "With this answer:"),)))
    if view.wants_payload and view.stage is State.WAITING and drawing.room.small and not (answer or view.question):
        asked = [*dict.fromkeys(map(readable_name, (*(one.name for one in view.payload), *view.editable)))]
        drawing.add(Line((Say("To fill in: "), *join_list([*map(name, asked)], _FIELDS))))
    _say_values([one for one in answer if one.name not in whole], drawing, small=False if view.question else None)


def _say_values(
    arguments: Sequence[Argument], drawing: Drawing, titled: frozenset[str] = frozenset(), *, small: bool | None = None
) -> None:
    """Says the values of arguments. Those in `titled` stand in the headline, and so are small print on a card; `small`:
    all are, or none."""
    arguments = sorted(arguments, key=lambda argument: argument.is_default)
    said_so = False
    for index, argument in enumerate(arguments):
        tiny = (drawing.over or argument.name in titled or bool(small)) if small is not False else False
        tiny = tiny and (drawing.over or not argument.is_default)
        if argument.is_default and not tiny and not said_so:
            drawing.add(Line((Say("The tool's defaults:"),)))
            said_so = True
        if index >= drawing.room.arguments or drawing.left < _LEAST:
            more = len(arguments) - index
            drawing.add(Line((Say(f"… and {more} more argument{'s' if more > 1 else ''}"),)))
            drawing.left_out()
            return
        if argument.masked:
            drawing.say_short((*_say_name(argument.name, drawing), Say(words.HIDDEN_VALUE)), small=tiny)
        elif isinstance(argument.value, str) and argument.value.strip() == drawing.below:
            if not drawing.over:
                drawing.say_short((*_say_name(argument.name, drawing), Say("as below")), small=tiny)
        else:
            _say_value(argument, argument.value, None, drawing, small=tiny)


_LEAST = 80  # with less room than this, too little of a value would be left
_NAME_ON_A_LINE = 120


def _say_name(name: str, drawing: Drawing, *, runs: bool = True) -> tuple[TextSpan, ...]:
    """The spans that begin a line. None for a name that needs a box above the line."""
    name = (name if drawing.room.exact else readable_name(name)) or '""'
    if drawing.room.name > _NAME_ON_A_LINE and not fit_visible(name, _NAME_ON_A_LINE).whole:
        drawing.add(Line((Say("Name"),)), Box(drawing.fitted(name, drawing.room.name)))
        return ()
    return (Supplied(drawing.fitted(name, drawing.room.name, runs=runs), bold=True), Say(" "))


def _say_value(
    argument: Argument,
    value: JsonValue | Absent,
    change: FieldDiff | None,
    drawing: Drawing,
    *,
    runs: bool = True,
    small: bool = False,
) -> None:
    """`name value`, or `name old → new`. What does not fit on a line gets boxes below the name."""
    room, begin, item = drawing.room, _say_name(argument.name, drawing, runs=runs), int(change is not None)
    limit = min(room.value, max(drawing.left, _LEAST))
    now = _written(argument, value, room, limit)
    was = _written(argument, change.old, room, room.old) if change else None
    if now.box or (was and was.box) or right_to_left(argument.name):  # such a name could change places with the value
        if named := (*begin[:1], *_of_text(value)):
            drawing.add(Line(named, item))
        drawing.box(_exactly(value, room), limit if runs else room.old, room.lines, runs=runs)
        if change:
            drawing.add(Line((Say("was"),)))
            drawing.box(_exactly(change.old, room), room.old, room.lines, runs=False)
        return
    if not now.whole:
        drawing.left_out(runs=runs)
    if was and not (was.whole and not was.below):
        drawing.left_out(runs=False)
    said = [*now.beside, *(span for one in now.below for span in one.spans)]
    drawing.spent += sum(units(spoken(span)) for span in said)
    if was is None and not now.below:
        drawing.say_short((*begin, *now.beside), small=small)
        return
    before = (*was.beside, Say(words.ARROW)) if was else ()
    new = tuple(replace(span, bold=True) if was and isinstance(span, Say) else span for span in now.beside)
    drawing.add(Line((*begin, *before, *new), item), *now.below)


def _of_text(value: JsonValue | Absent) -> tuple[TextSpan, ...]:
    """Says of a text in a box that it is one, if it reads like a list, an object, a number or a text in quotes: a tool
    that takes any value can tell these apart."""
    return (Say(" as text"),) if isinstance(value, str) and _LIKE_ANOTHER.match(value) else ()


_LIKE_ANOTHER = re.compile(r"\s*(?:[\"\[{]|-?[0-9][0-9.e+-]*\s*\Z|-?0x[0-9a-f]+\s*\Z)")


def _written(argument: Argument, value: JsonValue | Absent, room: Space, limit: int) -> Readable:
    """The value as this place shows it: exactly, or as people read it."""
    if value is ABSENT:
        return Readable((Say(words.NOTHING),))
    if not room.exact:
        return readable(value, argument.name, dict(argument.formats), limit, room.lines)
    exact, kind = spell_value(value, ON_ONE_LINE + 1), dict(argument.formats).get("")
    if exact.boxed:
        return BOXED
    said = scalar(value, kind, argument.name) if kind and isinstance(value, int | float) else None
    if said is None or spoken(said) == exact.text:
        return Readable((Supplied(exact.text),))
    return Readable((said, Say(" ("), Supplied(exact.text), Say(")")))


def _exactly(value: JsonValue | Absent, room: Space) -> Plan:
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return Plan(tuple(value.split("\n")))
    text = "" if value is ABSENT else spell_value(value, room.enough).text
    return Plan(tuple(text.split("\n")) if len(text) <= room.enough else (text,))  # nobody counts the rest of it


_CHANGES = 12


def _say_changes(changes: Sequence[FieldDiff], of: Sequence[Argument], drawing: Drawing) -> set[str]:
    """One change a line, as a list of its own. Returns the arguments of which that shows all.
    Of lists and objects it shows what differs, and what runs is among the other arguments."""
    arguments, whole, room = {one.name: one for one in of}, set[str](), drawing.room
    lines = [(change, leaf) for change in changes for leaf in _leaves(readable_name(change.path), change)]
    for change, leaf in lines if room.exact else lines[:_CHANGES]:
        argument = arguments.get(change.path)
        if argument is not None and leaf is change:
            whole.add(argument.name)
            _say_value(argument, change.new, change, drawing)
        elif isinstance(leaf, FieldDiff):
            whole |= {change.path} if drawing.over and not room.exact else set()
            formats = dict(argument.formats if argument else ()).get(leaf.path.rpartition(": ")[2].replace(" ", "_"))
            part = Argument(leaf.path, None, formats=(("", formats),) if formats else ())
            _say_value(part, leaf.new, leaf, drawing, runs=False)
        else:
            drawing.add(Line((*_say_name(change.path, drawing, runs=False), *leaf), item=1))
    if lines[_CHANGES:] and not room.exact:
        drawing.add(Line((Say(f"{len(lines) - _CHANGES} more"),)))
        drawing.left_out(runs=False)
    return whole


def _leaves(called: str, change: FieldDiff) -> list[FieldDiff | tuple[TextSpan, ...]]:
    """`owner: email`, not all of the owner; of a list of plain values what came and what went."""
    old, new = change.old, change.new
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in dict.fromkeys((*old, *new))]
    elif isinstance(old, list) and isinstance(new, list) and (old or new):
        if not any(isinstance(item, dict | list) for item in (*old, *new)):
            gone, come = ([a for a in one if a not in other] for one, other in ((old, new), (new, old)))
            marked = [span for mark, some in (("− ", gone), ("+ ", come)) for a in some for span in (mark, a)]
            shown = [Say(f" {a}") if at % 2 == 0 else scalar(a, None, "") for at, a in enumerate(marked)]
            few = len(marked) <= _CHANGES and sum(units(spoken(span)) for span in shown) <= _LEAST
            return [tuple(shown)] if marked and few else [change]
        if len(old) != len(new):
            return [change]
        parts = [(str(at + 1), *both) for at, both in enumerate(zip(old, new, strict=True))]
    else:
        return [change]
    differ = [(key, was, now) for key, was, now in parts if was is ABSENT or now is ABSENT or not same(was, now)]
    named = [(f"{called}: {readable_name(key)}", was, now) for key, was, now in differ]
    return [leaf for name, was, now in named for leaf in _leaves(name, FieldDiff(name, was, now))]


# -- what the tool says that it would do


def _say_drift(view: Shown, changed: tuple[str, ...], drawing: Drawing) -> None:
    """How what it would do differs from what was approved: before anything else."""
    who, lost = people_names(view.approved_then) or words.SOMEBODY, Say("Those votes no longer count.", bold=True)
    drawing.add(line("{who} approved an older plan. {lost}" + " What changed:" * bool(changed), who=who, lost=lost))
    if changed:
        drawing.box(Plan(changed), drawing.room.preview, drawing.room.preview_lines, runs=False)
    else:
        drawing.add(Line((Say("The difference is in a hidden value, or in how the same is written."),)))


def _say_preview(view: Shown, plan: Plan, drawing: Drawing) -> None:
    room = drawing.room
    facts: list[TextSpan] = [code(plan.files[0], 80)] if len(plan.files) == 1 and plan.files[0] else []
    facts += [Say(plan.size)] if plan.size else []
    decided = view.stage is not State.WAITING and (view.approved_by or isinstance(view.stage, OutcomeKind))
    title = "Approved plan" if decided else "Plan"
    title += ", changed by the edit" if view.changed_by_edit and not drawing.over else ""
    drawing.add(Line((Say(title, bold=True), *(span for one in facts for span in (Say(words.DOT), one)))))
    if (
        drawing.over and not room.exact and plan.files and len(plan.lines) > _SHORT_PLAN
    ):  # the size alone: a finished card is short
        drawing.left_out()
    else:
        most = min(room.preview_lines, _SHORT_PLAN) if drawing.over and not room.exact else room.preview_lines
        drawing.box(plan, room.preview, most)
    if view.preview_is_masked:
        drawing.add(Line((Say("The policy hides some of it."),)))
        drawing.blind = True
    if view.preview_is_older and not drawing.over:
        drawing.add(Line((Say("That was made before the edit. If the new one differs, you are asked again."),)))


_SHORT_PLAN = 8


def listed(
    arguments: Sequence[Argument], changes: Sequence[FieldDiff] = (), of: Sequence[Argument] = ()
) -> tuple[Piece, ...]:
    """The arguments of a call without a card, or an edit's changes of it, for the thread."""
    drawing = Drawing(LIST)
    _say_changes(changes, of, drawing)
    _say_values(arguments, drawing)
    return tuple(drawing.runs)


def result(
    value: JsonValue, room: Space, formats: Formats = (), given: Sequence[Argument] = ()
) -> tuple[list[Piece], bool]:
    """What a tool returned, and whether some of it had to be cut. `given`: what was shown of the call and the answer.
    A result that repeats it does so only where values are exact."""
    drawing = Drawing(replace(room, value=room.result))
    if isinstance(value, dict) and value and not room.exact:
        known = {one.name: one.value for one in given if not one.masked}
        value = {name: one for name, one in value.items() if name not in known or not same(one, known[name])}
        if not value:
            return [], False
    if room.exact and isinstance(value, dict) and value:
        drawing.add(Line((Say(f"\n{words.RESULT}", bold=True),)))
        of = {path: (("", kind),) for path, kind in formats}
        _say_values([Argument(path, inner, formats=of.get(path, ())) for path, inner in value.items()], drawing)
    elif room.exact:
        drawing.add(Line((Say(f"\n{words.RESULT}", bold=True),)), Box(spell_value(value, room.enough).text))
    elif isinstance(value, dict) and all(isinstance(inner, str | int | float | None) for inner in value.values()):
        found = readable(value, words.RESULT, dict(formats), room.result, room.lines)
        if found.box:
            drawing.box(_exactly(value, room), room.result, room.lines)
        else:
            drawing.add(Line((Say(words.RESULT), Say(" "), *found.beside)))
    else:
        _say_value(Argument(words.RESULT, value, formats=formats), value, None, drawing)
    return drawing.runs, drawing.cut


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
    return AnswerText(join_list([*map(named_value, given)], _FIELDS), complete=False) if given else None


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


def named_value(one: Argument) -> tuple[TextSpan, ...]:
    """`service checkout`, in a sentence."""
    return name(readable_name(one.name), _LONG), Say(" "), _value(one)


def _value(one: Argument, like: Argument | None = None) -> TextSpan:
    if one.masked:
        return Say(words.HIDDEN_VALUE)
    formats = one.formats or (like.formats if like else ())
    span = scalar(one.value, dict(formats).get(""), one.name)
    fitted = fit_visible(spoken(span), _LONG)
    return span if fitted.whole else Supplied(fitted.text)
