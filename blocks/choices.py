"""Form fields that are picked instead of typed: options, days and times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pydantic import JsonValue
from slack_sdk.models.blocks import (
    DatePickerElement,
    DateTimePickerElement,
    InputInteractiveElement,
    Option,
    RadioButtonsElement,
    StaticSelectElement,
)

from blocks import words
from blocks.fields import ACTION, UNTOUCHED, Entry, FieldError, Read, as_typed, string, text_input
from blocks.kit import label, plain_text
from blocks.text import OPTION, PLACEHOLDER, plain
from blocks.values import same, spell_on_one_line
from blocks.view import ABSENT, Absent


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values. It is read by its index, so its label may be shortened."""

    current: JsonValue | Absent
    options: tuple[JsonValue, ...]
    radio: bool = False

    def draw(self) -> InputInteractiveElement:
        options = [
            Option(value=str(index), text=label(self._label(option), OPTION))
            for index, option in enumerate(self.options)
        ]
        initial = next((options[i] for i, o in enumerate(self.options) if self._is_current(o)), None)
        if self.radio:
            return RadioButtonsElement(action_id=ACTION, options=options, initial_option=initial)
        hint = (
            words.PICK if initial or self.current is ABSENT else words.NOW.format(value=spell_on_one_line(self.current))
        )
        placeholder = plain_text(plain(hint, PLACEHOLDER))
        return StaticSelectElement(action_id=ACTION, options=options, initial_option=initial, placeholder=placeholder)

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

    def draw(self) -> InputInteractiveElement:
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


@dataclass(frozen=True, slots=True)
class Day:
    """`format: date`."""

    current: str | None
    nullable: bool

    def draw(self) -> InputInteractiveElement:
        return DatePickerElement(action_id=ACTION, initial_date=self.current or None)

    def read(self, entry: Entry) -> Read:
        text = string(entry, "selected_date")
        if isinstance(text, FieldError):
            return text
        if text == (self.current or ""):
            return UNTOUCHED
        if not text:
            return None if self.nullable else FieldError(words.FIELD_REQUIRED)
        return text if is_day(text) else FieldError(words.FIELD_DATE)


@dataclass(frozen=True, slots=True)
class Moment:
    """`format: date-time` with an offset. The offset is kept when the time changes."""

    current: str | None
    nullable: bool

    def draw(self) -> InputInteractiveElement:
        at = moment(self.current) if self.current else None
        return DateTimePickerElement(action_id=ACTION, initial_date_time=int(at.timestamp()) if at else None)

    def read(self, entry: Entry) -> Read:
        chosen = entry.get("selected_date_time")
        before = moment(self.current) if self.current else None
        if chosen is None:
            if before is None:
                return UNTOUCHED
            return None if self.nullable else FieldError(words.FIELD_REQUIRED)
        if not isinstance(chosen, int) or isinstance(chosen, bool) or not 0 <= chosen <= 9_999_999_999:
            return FieldError(words.FIELD_UNREADABLE)
        if before is not None and chosen == int(before.timestamp()):
            return UNTOUCHED
        zone = before.tzinfo if before else UTC
        text = datetime.fromtimestamp(chosen, zone).isoformat()
        return text.replace("+00:00", "Z") if not self.current or self.current.upper().endswith("Z") else text


def is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def moment(text: str) -> datetime | None:
    """A date-time that a picker can hold: with an offset, and within the picker's years."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None and 0 <= at.timestamp() <= 9_999_999_999 else None
