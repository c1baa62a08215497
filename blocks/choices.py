"""Form fields for one of several values: picked, or typed if there are too many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from blocks import words
from blocks.fields import ACTION, UNTOUCHED, Entry, FieldError, Read, as_typed, string, text_input
from blocks.kit import JsonObject, label, plain_text
from blocks.rich import part
from blocks.text import OPTION, PLACEHOLDER, plain
from blocks.values import same, spell_on_one_line
from blocks.view import ABSENT, Absent


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
