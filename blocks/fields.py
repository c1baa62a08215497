"""One input of a form: which kind of input can show a value exactly, and how to read what somebody wrote into it.

What is entered is compared with what was drawn, and only a difference is a change. So a value that nobody touched stays
exactly the same, even if a text box can't represent it. JSON that people write by hand is read strictly: anything that
another reader could understand differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, auto

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.exact_values import json_text, spell_on_one_line
from adk_confirm.blocks.json_schema import Shape
from adk_confirm.blocks.kit import input_block, option, plain_text
from adk_confirm.blocks.readable import scalar
from adk_confirm.blocks.rich_text import JsonObject, part, spoken
from adk_confirm.blocks.shown import ABSENT, Absent
from adk_confirm.blocks.text import INPUT, OPTION, PLACEHOLDER, fit, plain, units, visible
from adk_confirm.runtime.jsontypes import NotJson, read_json, same

ACTION = Action.FIELD.value
Value = JsonValue | Absent
Path = tuple[str | int, ...]

_LABEL, _HINT, _EXAMPLE = 150, 200, 30
_MULTILINE = 60
_MENU, _CHECKBOXES = 100, 10

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_PLAIN_DIGITS = 15  # a client that uses doubles would change a larger number

_SECONDS = range(1_000_000_020, 10**10, 60)
"""The moments that Slack's input can show: whole minutes, as seconds of ten digits."""
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d)((?::00(?:\.0+)?)?)(Z|[+-]\d\d:?\d\d)", re.ASCII)
_NO_MOMENT = "2001-09-10T00:00:00Z"
"""Spells a moment that is chosen where there was none."""

_DATES = {
    "date": (r"\d{4}-\d\d-\d\d", "Write a date as year-month-day, such as 2026-01-31."),
    "date-time": (r"\d{4}-\d\d-\d\dT\d\d:\d\d.*", "Write a date and a time as in 2026-01-31T09:30:00+01:00."),
}
"""The formats of a JSON schema that a form checks, as ISO dates."""


class Wrong(Exception):
    """What is wrong with an entry, as a sentence for its field."""


class Kind(Enum):
    TEXT = auto()  # exactly as typed; also a date that a calendar can't show, without the spaces around it
    LINES = auto()  # a list of texts
    DAY = auto()
    MOMENT = auto()  # a day and a time, with an offset
    NUMBER = auto()
    YES_NO = auto()
    MENU = auto()  # one of a few values, read by its index, so its label may be shortened
    SEVERAL = auto()  # some of a few values, in a list
    REMOVE = auto()  # a box to tick below the fields of an item, to take it out
    ONE_OF = auto()  # one of more values than a menu can hold, typed
    JSON = auto()  # any other value


@dataclass(frozen=True, slots=True)
class Field:
    """A value that can be edited, in a block of its own. The path leads to it: the argument's name, and where in it."""

    path: Path
    label: str
    block_id: str
    current: Value
    shape: Shape
    kind: Kind
    drawn: str = ""
    """What a text box shows at first."""
    options: tuple[JsonValue, ...] = ()
    note: str = ""

    @property
    def chooses(self) -> bool:
        return self.kind in (Kind.YES_NO, Kind.MENU, Kind.SEVERAL, Kind.REMOVE)

    # Drawing

    def block(self) -> JsonObject:
        hints = [words.NOW.format(value=self.note)] if self.note else []
        hints += [plain(self.shape.description, _HINT)] if self.shape.description.strip() else []
        now = self.current
        such = f" Change only values, such as {_first(now)}." if isinstance(now, dict | list) and now else ""
        hints += [words.HINTS[self.kind.name].format(such=such)] if self.kind.name in words.HINTS else []
        hints += ["Leave it empty for no value."] if self.shape.nullable and not self.chooses else []
        element = self._choices() if self.chooses else self._box()
        shown, hint = plain_text(plain(self.label, _LABEL)), words.DOT.join(hints).replace(f".{words.DOT}", words.DOT)
        return input_block(shown, element, self.block_id, optional=self._optional, hint=hint)

    @property
    def _optional(self) -> bool:
        if self.current is ABSENT:
            return not self.shape.required
        unshown = self.kind is Kind.MENU and not any(map(self.is_now, self.options))
        may_be_empty = self.shape.nullable or self.current in (None, "") or self.kind in (Kind.LINES, Kind.SEVERAL)
        return may_be_empty or unshown

    def _box(self) -> JsonObject:
        if self.kind is Kind.NUMBER:
            limits = [None if one is None else _digits(one) for one in (self.shape.minimum, self.shape.maximum)]
            if max(len(one or "") for one in (self.drawn, *limits)) <= _PLAIN_DIGITS:
                return self._number_box(*limits)
        if self.kind is Kind.DAY:
            return part("datepicker", action_id=ACTION, initial_date=self.drawn or None)
        if self.kind is Kind.MOMENT:
            now = int(self.drawn) if self.drawn else None
            return part("datetimepicker", action_id=ACTION, initial_date_time=now)
        multiline = self.kind is Kind.TEXT and ("\n" in self.drawn or units(self.drawn) > _MULTILINE)
        return part(
            "plain_text_input",
            action_id=ACTION,
            initial_value=fit(self.drawn, INPUT).text or None,
            multiline=multiline or self.kind in (Kind.JSON, Kind.LINES) or None,
            max_length=INPUT,
        )

    def _number_box(self, least: str | None, most: str | None) -> JsonObject:
        """Slack's own input can't show a value that is out of its bounds."""
        now = Decimal(self.drawn) if self.drawn else None
        inside = now is None or ((not least or now >= Decimal(least)) and (not most or now <= Decimal(most)))
        return part(
            "number_input",
            action_id=ACTION,
            is_decimal_allowed=not self._whole,
            initial_value=self.drawn or None,
            min_value=least if inside else None,
            max_value=most if inside else None,
        )

    def _choices(self) -> JsonObject:
        yes_no = {True: words.YES, False: words.NO, None: words.NONE} if self.kind is Kind.YES_NO else {}
        labels = [yes_no[one] if one in yes_no else spell_on_one_line(one) for one in self.options]  # type: ignore[index]  # yes, no or null
        options = [option(str(index), plain(text, OPTION)) for index, text in enumerate(labels)]
        if self.kind in (Kind.SEVERAL, Kind.REMOVE):
            ticked: list[JsonValue] = [
                shown for shown, one in zip(options, self.options, strict=True) if self._holds(one)
            ]
            element = "checkboxes" if len(options) <= _CHECKBOXES else "multi_static_select"
            return part(element, action_id=ACTION, options=[*options], initial_options=ticked or None)
        initial = next((shown for shown, one in zip(options, self.options, strict=True) if self.is_now(one)), None)
        if yes_no:
            return part("radio_buttons", action_id=ACTION, options=[*options], initial_option=initial)
        pick = "Choose" if initial or self.current is ABSENT else words.NOW.format(value=self.drawn)
        placeholder = plain_text(plain(pick, PLACEHOLDER))
        return part(
            "static_select", action_id=ACTION, options=[*options], initial_option=initial, placeholder=placeholder
        )

    # Reading

    def read(self, values: Mapping[str, object]) -> Value:
        """The value that was entered. If nobody changed it, it is the same object as before. It is not checked
        against the schema yet. Raises `Wrong`."""
        if self.block_id not in values:
            found = self.current
        else:
            entry = entry_in(values, self.block_id)
            if entry is None:
                raise Wrong(words.FIELD_UNREADABLE)
            found = self._chosen(entry) if self.chooses else self._typed(self._text_of(entry))
        if found is ABSENT and self.shape.required:
            raise Wrong("Choose one." if self.chooses else self._wanted)
        return self.current if found is not ABSENT and self.is_now(found) else found

    def is_now(self, value: JsonValue) -> bool:
        return self.current is not ABSENT and same(value, self.current)

    def _holds(self, value: JsonValue) -> bool:
        return isinstance(self.current, list) and any(same(value, one) for one in self.current)

    def _chosen(self, entry: Mapping[str, object]) -> Value:
        if self.kind not in (Kind.SEVERAL, Kind.REMOVE):
            chosen = entry.get("selected_option")
            return self.current if chosen is None else self.options[self._index(chosen)]
        chosen = entry.get("selected_options")
        if not isinstance(chosen, list):
            raise Wrong(words.FIELD_UNREADABLE)
        picked = [self.options[index] for index in sorted({*map(self._index, chosen)})]
        if not isinstance(self.current, list):
            return picked or self.current
        # Those that stay keep their order.
        stay = [one for one in self.current if any(same(one, each) for each in picked)]
        return stay + [one for one in picked if not self._holds(one)]

    def _index(self, chosen: object) -> int:
        index = chosen.get("value") if isinstance(chosen, Mapping) else None
        if not isinstance(index, str) or not re.fullmatch("[0-9]{1,2}", index) or int(index) >= len(self.options):
            raise Wrong(words.FIELD_UNREADABLE)
        return int(index)

    def _text_of(self, entry: Mapping[str, object]) -> str:
        name = {Kind.DAY: "selected_date", Kind.MOMENT: "selected_date_time"}.get(self.kind, "value")
        entered = entry.get(name)
        fits = type(entered) is int and entered in _SECONDS if self.kind is Kind.MOMENT else isinstance(entered, str)
        if entered is not None and not fits:
            raise Wrong(words.FIELD_UNREADABLE)
        return "" if entered is None else str(entered)

    def _typed(self, text: str) -> Value:
        if as_lines(text).strip() == as_lines(self.drawn).strip():  # spaces around it are not the person's doing
            return self.current
        if self.kind is Kind.ONE_OF:
            for one in self.options:
                if text.strip() in (spell_on_one_line(one), one):
                    return one
            raise Wrong(f"Write one of the {len(self.options)} values that the tool takes, exactly.")
        if self.kind is Kind.TEXT:
            return self._string(text)
        if not text.strip():
            if self.shape.nullable or self.current is None:
                return None
            if self.kind is Kind.LINES:
                return []
            raise Wrong(words.FIELD_REQUIRED)
        match self.kind:
            case Kind.NUMBER:
                return self._number(text.strip())
            case Kind.LINES:
                return [one.strip() for one in as_lines(text).split("\n") if one.strip()]
            case Kind.DAY:
                return self._string(text)
            case Kind.MOMENT:
                return self._moment(int(text))
        return parse_json(text)

    def _moment(self, seconds: int) -> str:
        """The moment that was chosen, with the offset of the value before, spelled as that was."""
        _, between, _, end, offset = self._spelling.groups()
        there = datetime.fromtimestamp(seconds, datetime.fromisoformat(_NO_MOMENT[:16] + offset).tzinfo)
        return f"{there:%Y-%m-%d}{between}{there:%H:%M}{end}{offset}"

    @property
    def _spelling(self) -> re.Match[str]:
        spelled = _MOMENT.fullmatch(self.current if isinstance(self.current, str) else "")
        return spelled or _MOMENT.match(_NO_MOMENT)  # type: ignore[return-value]  # it is one

    def _string(self, text: str) -> JsonValue:
        if isinstance(self.current, str) and "\r\n" in self.current:
            text = as_lines(text).replace("\n", "\r\n")
        if not text and self.shape.nullable:
            return None
        if self.shape.format not in _DATES:
            return text
        pattern, sentence = _DATES[self.shape.format]
        text = text.strip()
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise Wrong(sentence) from None
        if not re.fullmatch(pattern, text, re.ASCII):
            raise Wrong(sentence)
        return text

    def _number(self, text: str) -> Value:
        """A number keeps its type: `1.0` stays `1.0` if left alone, and a float that is changed stays a float."""
        if not (_WHOLE if self._whole else _NUMBER).fullmatch(text):
            raise Wrong(self._wanted)
        if isinstance(self.current, int | float) and Decimal(text) == Decimal(repr(self.current)):
            return self.current
        if self._whole or (_WHOLE.fullmatch(text) and not isinstance(self.current, float)):
            return int(text)
        value = float(text)
        if abs(value) == float("inf"):
            raise Wrong("This number is too large.")
        return value

    @property
    def _whole(self) -> bool:
        return self.shape.kinds == ["integer"]

    @property
    def _wanted(self) -> str:
        number = "Write a whole number, such as 3." if self._whole else words.FIELD_NUMBER
        return number if self.kind is Kind.NUMBER else words.FIELD_REQUIRED


def field_for(
    path: Path, called: str, block_id: str, current: Value, shape: Shape, kind: str = "", *, chosen: bool = True
) -> Field | None:
    """A field of the best kind that can show the current value exactly. None if it is too long for any. `kind`: how the
    card writes it, so a number says `Now: €1,200.50`. `chosen`: somebody chose the value. Otherwise the field
    does not begin with a zero, a no or nothing: people enter that themselves."""
    note = spoken(scalar(current, kind, "")) if kind and isinstance(current, int | float) else ""
    if not chosen and current is not ABSENT and (current is not None or not shape.nullable):
        known = shape.options is None or any(same(one, current) for one in shape.options)
        if not known or not (current or isinstance(current, str | list | dict)):
            note, current, shape = "", ABSENT, replace(shape, kinds=shape.kinds or [*_kinds_of(current)], required=True)

    def made(kind: Kind, drawn: str = "", options: tuple[JsonValue, ...] = ()) -> Field:
        return Field(path, called, block_id, current, shape, kind, drawn, options, note)

    unset, null = current is None or current is ABSENT, (None,) if shape.nullable else ()
    if shape.options is not None:
        options = (*shape.options, *null)
        drawn = "" if current is ABSENT else spell_on_one_line(current)
        return made(Kind.MENU if _fits_menu(options) else Kind.ONE_OF, drawn, options)
    kinds = {*shape.kinds} or _kinds_of(current)
    if kinds == {"boolean"} and (unset or isinstance(current, bool)):
        return made(Kind.YES_NO, options=(True, False, *null))
    if kinds and kinds <= {"integer", "number"}:
        number = "" if unset else _exact_digits(current, whole=kinds == {"integer"})
        if number is not None:
            return made(Kind.NUMBER, number)
    if kinds == {"string"} and (unset or isinstance(current, str)):
        text = as_lines(current if isinstance(current, str) else "")
        if shape.format == "date" and (not text or _is_day(text)):
            return made(Kind.DAY, text)
        moment = _seconds_of(text) if text else ""
        if shape.format == "date-time" and moment is not None:
            return made(Kind.MOMENT, moment)
        if _is_typable(text, current):
            return made(Kind.TEXT, text)
    items = current if isinstance(current, list) else []
    if kinds == {"array"} and (unset or isinstance(current, list)):
        each = shape.each or Shape(kinds=["string"] if items else [])
        if each.options and not each.nullable and _fits_menu(each.options) and _are_some(items, each.options):
            return made(Kind.SEVERAL, options=(*each.options,))
        if each.options is None and each.kinds == ["string"]:
            lines = [one for one in items if isinstance(one, str) and one and [one.strip()] == one.splitlines()]
            if len(lines) == len(items) and _is_typable("\n".join(lines), None):
                return made(Kind.LINES, "\n".join(lines))
    written = "" if current is ABSENT else json_text(current, indented=True)
    if units(written) > INPUT:
        written = json_text(current) if current is not ABSENT else ""
    return made(Kind.JSON, written) if units(written) <= INPUT else None


def _first(value: JsonValue) -> str:
    """The first value inside a value, as an example."""
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values() if isinstance(value, dict) else value))
    return plain(spell_on_one_line(value), _EXAMPLE)


def _kinds_of(current: Value) -> set[str]:
    """Without a schema: the kind of the value itself."""
    if isinstance(current, bool):
        return {"boolean"}
    if isinstance(current, list):
        return {"array"}
    return {"string"} if isinstance(current, str) else {"number"} if isinstance(current, int | float) else set()


def _fits_menu(options: Sequence[JsonValue]) -> bool:
    return len(options) <= _MENU and len({plain(spell_on_one_line(one), OPTION) for one in options}) == len(options)


def _are_some(items: list[JsonValue], options: list[JsonValue]) -> bool:
    """Whether boxes beside the options can show a list."""
    return (
        len(items) <= len(options)
        and all([same(one, each) for each in options].count(True) == 1 for one in items)
        and not any(same(one, other) for number, one in enumerate(items) for other in items[:number])
    )


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _seconds_of(text: str) -> str | None:
    """A moment's seconds, or None if Slack's input can't show it."""
    if (spelled := _MOMENT.fullmatch(text)) is None:
        return None
    try:
        seconds = int(datetime.fromisoformat(f"{spelled[1]}T{spelled[3]}{spelled[5]}").timestamp())
    except ValueError:
        return None
    return str(seconds) if seconds in _SECONDS else None


def _exact_digits(current: Value, *, whole: bool) -> str | None:
    """A number's digits, or None if its input can't show them."""
    if isinstance(current, bool) or not isinstance(current, int | float):
        return None
    if isinstance(current, int):
        return _digits(current) if current.bit_length() <= 10_000 else None
    if abs(current) == float("inf") or current != current or (whole and not current.is_integer()):
        return None
    return _digits(current).split(".")[0] if whole else _digits(current)


def _digits(value: int | float) -> str:
    """Digits and at most one point, however Python would write the float."""
    return format(Decimal(repr(value)), "f")


def _is_typable(text: str, current: Value) -> bool:
    """Whether people can see and type all of a text. Other strings are shown as JSON, with escapes."""
    mixed = isinstance(current, str) and text != current and text.count("\n") != current.count("\r\n")
    return visible(text, keep="\n\t") == text and units(text) <= INPUT and not mixed


# -- what Slack sends


def entry_in(values: Mapping[str, object], block_id: str) -> Mapping[str, object] | None:
    """What somebody entered in a block. None if the form has no such block."""
    block = values.get(block_id)
    entry = block.get(ACTION) if isinstance(block, Mapping) else None
    return entry if isinstance(entry, Mapping) else None


def as_lines(text: str) -> str:
    return text.replace("\r\n", "\n")


# -- JSON that people write

_DEEPEST = 60
"""Levels of lists and objects inside each other in one field: what is deeper can't be shown with the rest of a call."""

_OTHER_QUOTES = "‘’'`"
_STRAIGHT = str.maketrans("“”„«»", '"' * 5)
"""A phone turns quotes into curly ones."""


def parse_json(text: str) -> JsonValue:
    """Reads JSON that somebody typed. Raises `Wrong`."""
    try:
        return read_json(text, _DEEPEST)
    except NotJson as error:
        if error.problem == "broken" and (straight := text.translate(_STRAIGHT)) != text:
            with suppress(Wrong):
                return parse_json(straight)
        match error.problem:
            case "twice":
                why = f"The name {plain(error.about, 60)} appears twice in one object."
            case "number":
                why = f"{plain(error.about, 40)} is not a number in JSON."
            case "deep":
                why = "This JSON is nested too deeply."
            case "half":
                why = "This holds half a character, spelled \\ud800 to \\udfff. Write the whole one."
            case "broken":
                why = _reading_ended(error.about.strip())
        raise Wrong(why) from error


def _reading_ended(rest: str) -> str:
    """What is wrong, from the part that could not be read."""
    if not rest:
        return "This ends too early. Close every quote and bracket that you opened."
    return words.FIELD_JSON_QUOTES if rest[0] in _OTHER_QUOTES else words.FIELD_JSON.format(rest=plain(rest, 20))
