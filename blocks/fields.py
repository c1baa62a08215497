"""A field of a form: draws its value as an input, and reads what comes back.

All kinds follow one rule: what is entered is compared with what was drawn, and only a difference is a change. So a
value that nobody touched stays exactly the same, even if a text box can't represent it. JSON that people write by hand
is read strictly: anything that another reader could understand differently is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Protocol

from pydantic import JsonValue

from blocks import words
from blocks.ids import Action
from blocks.kit import label, plain_text
from blocks.rich import JsonObject, part
from blocks.text import INPUT, OPTION, PLACEHOLDER, fit, plain, units
from blocks.values import json_text, same, spell_on_one_line
from bot.confirmation.shown import ABSENT, Absent

_DIGITS = 4000  # Python reads no longer integer

_DEEPEST = 60
"""Levels of lists and objects inside each other in one field: what is deeper can't be shown with the rest of a call."""

_OTHER_QUOTES = "“”„«»‘’'`"

_LONE = re.compile("[\ud800-\udfff]")
"""Half of a character: JSON can spell it, and hardly any program takes it."""


class NotJson(Exception):
    """What is wrong with the text, as a sentence for people."""


def parse_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_unique_names, parse_constant=_no_number, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise NotJson(_reading_ended(text[error.pos :].strip())) from error
    except RecursionError as error:
        raise NotJson(words.FIELD_JSON_DEEP) from error
    if _is_deeper(value, _DEEPEST):
        raise NotJson(words.FIELD_JSON_DEEP)
    if _LONE.search(json.dumps(value, ensure_ascii=False)):
        raise NotJson(words.FIELD_JSON_HALF)
    return value


def _reading_ended(rest: str) -> str:
    """What is wrong, from the part that could not be read. Phones turn quotes into curly ones."""
    if not rest:
        return words.FIELD_JSON_CUT
    return words.FIELD_JSON_QUOTES if rest[0] in _OTHER_QUOTES else words.FIELD_JSON.format(rest=plain(rest, 20))


def _is_deeper(value: JsonValue, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inside is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inside))


def _unique_names(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise NotJson(words.FIELD_JSON_TWICE.format(name=plain(name, 60)))
        found[name] = value
    return found


def _no_number(text: str) -> JsonValue:
    raise NotJson(words.FIELD_JSON_NUMBER.format(number=plain(text, 40)))


def _finite(text: str) -> float:
    value = float(text)
    if abs(value) == float("inf"):
        _no_number(text)
    return value


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        _no_number(text)
    return int(text)


ACTION = Action.FIELD.value
Entry = Mapping[str, object]


class Untouched(Enum):
    """Nothing was changed in the form."""

    UNTOUCHED = "untouched"


UNTOUCHED = Untouched.UNTOUCHED


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong, as a sentence for the field."""

    sentence: str


Read = JsonValue | Untouched | FieldError


class Kind(Protocol):
    """How one kind of value is drawn and read."""

    def draw(self) -> JsonObject: ...

    def read(self, entry: Entry) -> Read: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string, exactly as typed, but for spaces around a date. Empty means null where null is allowed."""

    current: str | None
    nullable: bool
    multiline: bool
    format: str | None = None

    def draw(self) -> JsonObject:
        return text_input(as_lines(self.current or ""), multiline=self.multiline)

    def read(self, entry: Entry) -> Read:
        text = string(entry, "value")
        if isinstance(text, FieldError) or as_typed(text) == as_typed(self.current or ""):
            return text if isinstance(text, FieldError) else UNTOUCHED
        if self.current and "\r\n" in self.current:
            text = as_lines(text).replace("\n", "\r\n")
        if not text and self.nullable:
            return None
        if self.format not in _DATES:
            return text
        pattern, sentence = _DATES[self.format]
        text = text.strip()
        return text if re.fullmatch(pattern, text, re.ASCII) and _is_iso(text) else FieldError(sentence)


_DATES = {
    "date": (r"\d{4}-\d\d-\d\d", words.FIELD_DATE),
    "date-time": (r"\d{4}-\d\d-\d\dT\d\d:\d\d.*", words.FIELD_MOMENT),
}
"""The formats of a JSON schema that a form checks."""


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_PLAIN_DIGITS = 15  # a client that uses doubles would change a larger number


@dataclass(frozen=True, slots=True)
class Number:
    """A number that keeps its type: `1.0` stays `1.0` if left alone, and a float that is changed stays a float."""

    current: int | float | None
    nullable: bool
    whole: bool
    least: int | float | None = None
    most: int | float | None = None

    def draw(self) -> JsonObject:
        drawn = "" if self.current is None else plain_number(self.current, whole=self.whole)
        limits = [_limit(self.least), _limit(self.most)]
        if max(map(len, [drawn, *(limit or "" for limit in limits)])) > _PLAIN_DIGITS:
            return text_input(drawn, multiline=False)
        inside = self.current is None or _in_range(self.current, self.least, self.most)
        return part(
            "number_input",
            action_id=ACTION,
            is_decimal_allowed=not self.whole,
            initial_value=drawn or None,
            min_value=limits[0] if inside else None,
            max_value=limits[1] if inside else None,
        )

    def read(self, entry: Entry) -> Read:
        text = string(entry, "value")
        if isinstance(text, FieldError):
            return text
        text = text.strip()
        if not text:
            if self.current is None:
                return UNTOUCHED
            return None if self.nullable else FieldError(words.FIELD_REQUIRED)
        if not (_WHOLE if self.whole else _NUMBER).fullmatch(text):
            return FieldError(words.FIELD_WHOLE if self.whole else words.FIELD_NUMBER)
        if self.current is not None and Decimal(text) == Decimal(repr(self.current)):
            return UNTOUCHED
        return self._number(text)

    def _number(self, text: str) -> Read:
        integral = _WHOLE.fullmatch(text) is not None
        if self.whole or (integral and not isinstance(self.current, float)):
            return int(text)
        value = float(text)
        return value if abs(value) < float("inf") else FieldError(words.FIELD_TOO_BIG)


def plain_number(value: int | float, *, whole: bool) -> str:
    """Digits and at most one point, however Python would write the float."""
    text = format(Decimal(repr(value)), "f")
    return text.split(".")[0] if whole and "." in text else text


def _in_range(value: int | float, least: int | float | None, most: int | float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _limit(value: int | float | None) -> str | None:
    return None if value is None else plain_number(value, whole=False)


@dataclass(frozen=True, slots=True)
class JsonField:
    """Any other value, written as JSON, which is exact."""

    current: JsonValue | Absent
    nullable: bool = False

    def drawn(self) -> str:
        """The JSON, indented if there is room. It is too long if it does not fit a text box without indentation."""
        if self.current is ABSENT:
            return ""
        wide = json_text(self.current, indented=True)
        return wide if units(wide) <= INPUT else json_text(self.current)

    def draw(self) -> JsonObject:
        return text_input(self.drawn(), multiline=True)

    def read(self, entry: Entry) -> Read:
        text = string(entry, "value")
        if isinstance(text, FieldError) or as_typed(text) == as_typed(self.drawn()):
            return text if isinstance(text, FieldError) else UNTOUCHED
        if not text.strip():
            if self.current is None or self.current is ABSENT:
                return UNTOUCHED
            return None if self.nullable else FieldError(words.FIELD_REQUIRED)
        try:
            value = parse_json(text)
        except NotJson as error:
            return FieldError(str(error))
        return UNTOUCHED if self.current is not ABSENT and same(value, self.current) else value


def text_input(drawn: str, *, multiline: bool) -> JsonObject:
    return part(
        "plain_text_input",
        action_id=ACTION,
        initial_value=fit(drawn, INPUT).text or None,
        multiline=multiline or None,
        max_length=INPUT,
    )


def entry_in(values: Mapping[str, object], block_id: str) -> Entry:
    """What was entered in a block. Empty if the form has no such block."""
    block = values.get(block_id)
    entry = block.get(ACTION) if isinstance(block, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}


def text_in(values: Mapping[str, object], block_id: str) -> str:
    """The text in a block, without the spaces around it."""
    text = entry_in(values, block_id).get("value")
    return text.strip() if isinstance(text, str) else ""


def string(entry: Entry, key: str) -> str | FieldError:
    value = entry.get(key)
    if value is None:
        return ""
    return value if isinstance(value, str) else FieldError(words.FIELD_UNREADABLE)


def as_lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def as_typed(text: str) -> str:
    """The text before a text box changed it. Line ends, and spaces at either end, are not the person's doing."""
    return as_lines(text).strip()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values. It is read by its index, so its label may be shortened."""

    current: JsonValue | Absent
    options: tuple[JsonValue, ...]
    radio: bool = False

    def draw(self) -> JsonObject:
        options: list[JsonValue] = [
            {"value": str(index), "text": label(self._label(option), OPTION)}
            for index, option in enumerate(self.options)
        ]
        initial = next((options[i] for i, o in enumerate(self.options) if self._is_current(o)), None)
        if self.radio:
            return part("radio_buttons", action_id=ACTION, options=options, initial_option=initial)
        hint = (
            words.PICK if initial or self.current is ABSENT else words.NOW.format(value=spell_on_one_line(self.current))
        )
        placeholder = plain_text(plain(hint, PLACEHOLDER))
        return part("static_select", action_id=ACTION, options=options, initial_option=initial, placeholder=placeholder)

    def read(self, entry: Entry) -> Read:
        chosen = entry.get("selected_option")
        if chosen is None:
            return UNTOUCHED
        index = chosen.get("value") if isinstance(chosen, Mapping) else None
        if not isinstance(index, str) or not re.fullmatch("[0-9]{1,2}", index) or int(index) >= len(self.options):
            return FieldError(words.FIELD_UNREADABLE)
        option = self.options[int(index)]
        return UNTOUCHED if self._is_current(option) else option

    def _label(self, option: JsonValue) -> str:
        plain = {True: words.YES, False: words.NO, None: words.NONE}
        return (
            plain[option] if self.radio and (option is None or isinstance(option, bool)) else spell_on_one_line(option)
        )

    def _is_current(self, option: JsonValue) -> bool:
        return self.current is not ABSENT and same(option, self.current)

    @property
    def knows_current(self) -> bool:
        return any(map(self._is_current, self.options))

    @property
    def distinct(self) -> bool:
        labels = {plain(spell_on_one_line(option), OPTION) for option in self.options}
        return len(labels) == len(self.options)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of more values than a menu can hold, typed as text."""

    current: JsonValue | Absent
    options: tuple[JsonValue, ...]

    def draw(self) -> JsonObject:
        return text_input("" if self.current is ABSENT else spell_on_one_line(self.current), multiline=False)

    def read(self, entry: Entry) -> Read:
        text = string(entry, "value")
        if isinstance(text, FieldError):
            return text
        if as_typed(text) == as_typed("" if self.current is ABSENT else spell_on_one_line(self.current)):
            return UNTOUCHED
        for option in self.options:
            if text.strip() in (spell_on_one_line(option), option):
                return option
        return FieldError(words.FIELD_OPTION.format(count=len(self.options)))
